// `slipway rollback`: deploys an earlier revision again, and holds automatic deploys.
import { planAndApply } from '../change.ts'
import { compareRevisions, describeRevisions } from '../comparison.ts'
import type { Declaration } from '../declaration.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import { parseTimeout } from '../follow.ts'
import { type Deployment, findDeployment, findRevision, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <revision>',
  summary: 'roll back to a revision, by number or id',
  options: command => withFollow(command.option('--release-on-newer-commit', 'let a newer commit end the hold')),
}

type Flags = FollowFlags & { releaseOnNewerCommit?: boolean }

export async function run(session: Session, flags: Flags, [name, wanted]: [string | undefined, string]): Promise<void> {
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

/** Adds what the plan does not have: the commits, the versions of secrets, and the hold that follows. */
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
