// `slipway incidents show`: an incident with its cause, the last lines of the log and its history.
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<incident>', summary: 'show one, by its id' }

export async function run({ client, out, signal }: Session, _: object, [incident_id]: [string]): Promise<void> {
  const incident = await client.call('GET /v2/incidents/{incident_id}', { params: { incident_id }, signal })
  out.emit({ ...incident }, () =>
    [
      `${incident.title} (${incident.severity}, ${incident.state})`,
      incident.cause,
      ...incident.evidence.facts.map(({ name, value }) => `${name}: ${value}`),
      ...(incident.evidence.lines.length > 0 ? ['', 'Last lines:', ...incident.evidence.lines] : []),
      '',
      ...incident.history.map(({ created_at, kind, message }) => `${created_at} ${kind} ${message ?? ''}`.trimEnd()),
    ].join('\n'),
  )
}
