// `slipway alerts unmute`: ends a mute.
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<mute>', summary: 'end a mute, by its id' }

export async function run({ client, out, signal }: Session, _: object, [mute_id]: [string]): Promise<void> {
  await client.call('DELETE /v2/alert-mutes/{mute_id}', { params: { mute_id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id: mute_id }, () => 'The mute has ended.')
}
