// `slipway listeners delete`: deletes a listener with the keys of its agents.
import type { Declaration } from '../declaration.ts'
import { findListener } from '../listeners.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<listener>', summary: 'delete one, with the keys of its agents' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { id, compute_id } = await findListener(session, wanted)
  const next = `slipway listeners delete ${compute_id} --yes`
  await confirm(session, `Delete the listener ${compute_id} and the keys of its agents?`, next)
  await client.call('DELETE /v2/listeners/{listener_id}', { params: { listener_id: id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id, name: compute_id }, () => `Deleted the listener ${compute_id}.`)
}
