// `slipway drains delete`: deletes a drain, with what waits for it.
import type { Declaration } from '../declaration.ts'
import { findDrain } from '../drains.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<drain>', summary: 'delete one, by id or name' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { id, name, state } = await findDrain(session, wanted)
  const next = `slipway drains delete ${id} --yes`
  await confirm(session, `Delete the drain ${name} and the ${state.waiting} records that wait for it?`, next)
  await client.call('DELETE /v2/drains/{drain_id}', { params: { drain_id: id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id, name }, () => `Deleted the drain ${name}.`)
}
