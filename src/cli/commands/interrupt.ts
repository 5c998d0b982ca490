// `slipway interrupt`: ends a revision that is in flight.
import { finish } from '../change.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { confirm, type Deployment, findDeployment, findRevision, type Revision, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<deployment> [revision]',
  summary: 'interrupt a revision',
}

export async function run(session: Session, _: object, [name, wanted]: [string, string?]): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const revision =
    wanted === undefined ? await findInFlight(session, deployment) : await findRevision(session, deployment, wanted)
  const question = `Interrupt revision ${revision.number} of ${name} (${revision.status})?`
  await confirm(session, question, `slipway interrupt ${name} ${revision.number} --yes`)
  const params = { deployment_id: deployment.id, revision_id: revision.id }
  await client.call('POST /v2/deployments/{deployment_id}/revisions/{revision_id}/interruption', { params, signal })
  finish(session, deployment, 'interrupted')
}

/** The revision that can still be interrupted: an older one than the latest, if the latest waits for it. */
async function findInFlight({ client, signal }: Session, { id, name }: Deployment): Promise<Revision> {
  const { resources } = await client.call('GET /v2/deployments/{deployment_id}/revisions', {
    params: { deployment_id: id },
    query: { status: ['CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING'] },
    signal,
  })
  const found = resources.find(({ status }) => status !== 'QUEUED') ?? resources[0]
  if (found) return found
  throw usageError(`No revision of ${name} is in flight.`, `slipway revisions ${name}`)
}
