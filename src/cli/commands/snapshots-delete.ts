// `slipway snapshots delete`: deletes a snapshot.
import type { Declaration } from '../declaration.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<snapshot>', summary: 'delete one' }

export async function run(session: Session, _: object, [snapshot_id]: [string]): Promise<void> {
  const { client, out, signal } = session
  const params = { snapshot_id }
  const { deployment_name, store } = await client.call('GET /v2/snapshots/{snapshot_id}', { params, signal })
  const question = `Delete the snapshot of ${store} of ${deployment_name}?`
  await confirm(session, question, `slipway snapshots delete ${snapshot_id} --yes`)
  await client.call('DELETE /v2/snapshots/{snapshot_id}', { params, signal })
  out.emit({ type: 'snapshot', id: snapshot_id, deleted: true }, () => 'The snapshot is deleted.')
}
