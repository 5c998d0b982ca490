// `slipway incidents ack`: acknowledges an incident.
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<incident> [message]',
  summary: 'say that you are at work on one',
}

export async function run(
  { client, out, signal }: Session,
  _: object,
  [incident_id, message]: [string, string | undefined],
): Promise<void> {
  const params = { incident_id }
  const body = { ...(message && { message }) }
  const incident = await client.call('POST /v2/incidents/{incident_id}/acknowledge', { params, body, signal })
  out.emit({ ...incident }, () => `Acknowledged: ${incident.title}`)
}
