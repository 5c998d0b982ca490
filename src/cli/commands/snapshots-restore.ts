// `slipway snapshots restore`: replaces the data of a disk or the database by those of a snapshot.
import type { Declaration } from '../declaration.ts'
import { followJob } from '../jobs.ts'
import { confirm, findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<deployment> <snapshot>',
  summary: 'replace the data of a store by those of a snapshot',
  description:
    'Copies of the deployment stop for a moment. What was there is kept as a snapshot. The snapshot may be of another ' +
    'deployment of the same listener.',
  options: command => command.option('--store <store>', 'the store to replace. Default: the one of the snapshot'),
}

type Flags = { store?: string }

export async function run(session: Session, flags: Flags, [name, snapshot_id]: [string, string]): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const store =
    flags.store ?? (await client.call('GET /v2/snapshots/{snapshot_id}', { params: { snapshot_id }, signal })).store
  const again = `slipway snapshots restore ${deployment.name} ${snapshot_id} --yes`
  await confirm(session, `Replace ${store} of ${deployment.name}? What is there is kept as a snapshot.`, again)
  const request = { params: { deployment_id: deployment.id }, body: { store, snapshot_id }, signal }
  await followJob(session, await client.call('POST /v2/deployments/{deployment_id}/restores', request))
}
