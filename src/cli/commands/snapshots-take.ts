// `slipway snapshots take`: takes a snapshot of a disk or the database, and follows its job.
import type { Declaration } from '../declaration.ts'
import { followJob } from '../jobs.ts'
import { findDeployment, type Session } from '../session.ts'
import { splitStore } from '../snapshots.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <store>',
  summary: 'take one of database or disk:NAME',
}

export async function run(session: Session, _: object, args: (string | undefined)[]): Promise<void> {
  const { client, signal } = session
  const [name, store] = splitStore(args)
  const deployment = await findDeployment(session, name)
  const request = { params: { deployment_id: deployment.id }, body: { store }, signal }
  await followJob(session, await client.call('POST /v2/deployments/{deployment_id}/snapshots', request))
}
