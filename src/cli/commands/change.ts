// Commands that change a deployment: rollback, interrupt, release.
import { finish, planAndApply } from '../change.ts'
import { compareRevisions, describeRevisions } from '../comparison.ts'
import { usageError } from '../failure.ts'
import { parseTimeout } from '../follow.ts'
import { confirm, type Deployment, findDeployment, findRevision, type Revision, type Session } from '../session.ts'

export type ChangeFlags = { detach?: boolean; timeout: string }

export async function rollBack(
  session: Session,
  name: string | undefined,
  wanted: string,
  flags: ChangeFlags & { releaseOnNewerCommit?: boolean },
): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const { id: revision_id } = await findRevision(session, deployment, wanted)
  const params = { deployment_id: deployment.id }
  const untilNewer = flags.releaseOnNewerCommit === true
  const body = { revision_id, release_on_newer_commit: untilNewer }
  const plan = await client.plan('POST /v2/deployments/{deployment_id}/rollback', { params, body, signal })
  await showRollback(session, deployment, revision_id, untilNewer)
  const apply = (digest: string) =>
    client.call('POST /v2/deployments/{deployment_id}/rollback', {
      params,
      body,
      headers: { 'Plan-Digest': digest },
      signal,
    })
  const next = `slipway rollback ${deployment.name} ${wanted} --yes`
  await planAndApply(session, deployment, { plan, apply }, { ...flags, timeoutMs: parseTimeout(flags.timeout), next })
}

/** What the plan does not have: the commits, the versions of secrets, and the hold that follows. */
async function showRollback(session: Session, deployment: Deployment, revision_id: string, untilNewer: boolean) {
  const { out } = session
  const { name, latest_revision_id } = deployment
  const comparison = await compareRevisions(session, deployment.id, [latest_revision_id ?? revision_id, revision_id])
  out.emit({ type: 'comparison', ...comparison })
  if (out.isMachine) return
  out.raw(describeRevisions(session, deployment, comparison).join('\n'))
  const secrets = comparison.changes.filter(({ path }) => path.startsWith('secrets.'))
  for (const { path, before, after } of secrets) out.text(describeSecret(path.slice('secrets.'.length), before, after))
  const end = `${untilNewer ? 'a newer commit, or ' : ''}slipway release ${name}`
  out.text(`Hold         automatic deploys wait for: ${end}`)
}

function describeSecret(name: string, before: unknown, after: unknown): string {
  if (before === null) return `Secret       ${name} returns, version ${after}`
  return after === null ? `Secret       ${name} is removed` : `Secret       ${name} version ${before} → ${after}`
}

export async function interrupt(session: Session, name: string, wanted: string | undefined): Promise<void> {
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

/** The one that can still be interrupted: an older one than the latest, if that waits for it. */
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

export async function deleteDeployment(session: Session, name: string): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const question = `Delete ${deployment.name}, its revisions, variables and logs? This cannot be undone.`
  await confirm(session, question, `slipway delete ${deployment.name} --yes`)
  await client.call('DELETE /v2/deployments/{deployment_id}', { params: { deployment_id: deployment.id }, signal })
  finish(session, deployment, 'deleted')
}

export async function releaseHold(session: Session, name: string | undefined): Promise<void> {
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  await session.client.call('DELETE /v2/deployments/{deployment_id}/hold', { params, signal: session.signal })
  finish(session, deployment, 'released')
}
