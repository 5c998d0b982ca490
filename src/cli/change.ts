// A change of a deployment: its plan is shown and confirmed, that plan is applied, and its revision is followed.
import type { Plan } from '../client/client.ts'
import { paintMark, showChanges } from './comparison.ts'
import { CommandFailure, EXIT } from './failure.ts'
import { followRevision } from './follow.ts'
import { confirm, type Deployment, type Session } from './session.ts'

export type DeploymentPlan = Plan<'PATCH /v2/deployments/{deployment_id}'>
type FollowOptions = { detach?: boolean; timeoutMs: number }
/** `isExpected`: the command itself asks for what the plan shows, so that Enter confirms it. */
export type ChangeOptions = FollowOptions & { next: string; isExpected?: boolean }

export function showPlan(session: Session, plan: DeploymentPlan): void {
  const { out } = session
  const { changes, secrets, warnings, reasons, creates_revision, plan_digest } = plan
  out.emit({ type: 'plan', changes, secrets, warnings, reasons, creates_revision, plan_digest })
  if (out.isMachine) return
  if (changes.length === 0) out.text('The plan changes nothing.')
  showChanges(
    session,
    changes.filter(({ path }) => path !== 'secrets'),
  )
  for (const { name, change } of secrets) out.raw(`${paintMark(out, change)} secrets.${name}`)
  for (const warning of warnings) out.text(`Warning: ${warning}`)
}

/** `apply` gets the digest of the plan that was confirmed. */
export async function planAndApply(
  session: Session,
  deployment: Deployment,
  { plan, apply }: { plan: DeploymentPlan; apply: (digest: string) => Promise<Deployment> },
  { next, isExpected = false, ...follow }: ChangeOptions,
): Promise<void> {
  showPlan(session, plan)
  if (plan.changes.length === 0 && !plan.creates_revision) return finish(session, deployment, 'unchanged')
  await confirm(session, `Apply this plan to ${deployment.name}?`, next, { byDefault: isExpected })
  if (plan.creates_revision) return applyAndFollow(session, () => apply(plan.plan_digest), follow)
  finish(session, await apply(plan.plan_digest), 'changed')
}

export async function applyAndFollow(
  session: Session,
  apply: () => Promise<Deployment>,
  { detach, timeoutMs }: FollowOptions,
): Promise<void> {
  const deployment = await apply()
  const revision_id = deployment.latest_revision_id
  if (!revision_id) return finish(session, deployment, 'changed')
  if (detach) return finish(session, deployment, 'detached')
  finish(session, await followUntilServed(session, deployment, revision_id, timeoutMs), 'deployed')
}

/** Ctrl-C leaves the revision alone and says how to come back. */
async function followUntilServed(
  session: Session,
  deployment: Deployment,
  revision_id: string,
  timeoutMs: number,
): Promise<Deployment> {
  return followRevision(session, deployment, revision_id, { timeoutMs }).catch(error => {
    if (!session.signal.aborted) throw error
    const message = `Detached. The deployment of ${deployment.name} goes on.`
    throw new CommandFailure(EXIT.interrupted, 'detached', message, `slipway status ${deployment.name}`)
  })
}

export function finish({ out }: Session, deployment: Deployment, outcome: string): void {
  const { id, name, url, local_url, serving, latest_revision_id } = deployment
  const next = outcome === 'detached' ? `slipway status ${name}` : undefined
  out.emit(
    {
      type: 'result',
      outcome,
      deployment_id: id,
      name,
      url,
      local_url,
      serving,
      revision_id: latest_revision_id,
      next,
    },
    () =>
      outcome === 'deployed' && url
        ? `${out.paint('green', '✓')} ${name} serves at ${out.paint('bold', url)}`
        : `${name}: ${outcome}`,
  )
  if (outcome === 'deployed' && local_url) out.note(`Programs that cannot resolve that name reach it at ${local_url}`)
  if (next) out.note(`The deployment goes on. See how far it is: ${next}`)
}
