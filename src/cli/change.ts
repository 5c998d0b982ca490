// A change of a deployment: its plan is shown and confirmed, that plan is applied, and its revision is followed.
import type { Plan } from '../client/client.ts'
import { CommandFailure, EXIT } from './failure.ts'
import { followRevision } from './follow.ts'
import { confirm, type Deployment, type Session } from './session.ts'

export type DeploymentPlan = Plan<'PATCH /v2/deployments/{deployment_id}'>
export type ChangeOptions = { detach?: boolean; timeoutMs: number; next: string }

export function showPlan({ out }: Session, plan: DeploymentPlan): void {
  const { changes, warnings, reasons, creates_revision, plan_digest } = plan
  out.emit({ type: 'plan', changes, warnings, reasons, creates_revision, plan_digest })
  if (out.isMachine) return
  const columns = {
    change: ({ path }: (typeof changes)[number]) => path,
    before: ({ before }: (typeof changes)[number]) => shorten(before),
    after: ({ after }: (typeof changes)[number]) => shorten(after),
    effect: ({ effect }: (typeof changes)[number]) => effect,
  }
  out.table(changes, columns, 'The plan changes nothing.')
  for (const warning of warnings) out.text(`Warning: ${warning}`)
}

const MAX_CELL = 60
function shorten(value: unknown): string {
  if (value === null || value === undefined) return '–'
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL - 1)}…` : text
}

/** `apply` gets the digest of the plan that was confirmed. */
export async function planAndApply(
  session: Session,
  deployment: Deployment,
  { plan, apply }: { plan: DeploymentPlan; apply: (digest: string) => Promise<Deployment> },
  { detach, timeoutMs, next }: ChangeOptions,
): Promise<void> {
  showPlan(session, plan)
  const { out } = session
  if (plan.changes.length === 0 && !plan.creates_revision) return finish(session, deployment, 'unchanged')
  await confirm(session, `Apply this plan to ${deployment.name}?`, next)
  const changed = await apply(plan.plan_digest)
  if (!plan.creates_revision || !changed.latest_revision_id) return finish(session, changed, 'changed')
  const revision_id = changed.latest_revision_id
  if (detach) {
    out.note(`Revision ${revision_id} goes on. Follow it with: slipway logs ${changed.name} -f`)
    return finish(session, changed, 'detached')
  }
  finish(session, await followUntilServed(session, changed, revision_id, timeoutMs), 'deployed')
}

/** Ctrl-C leaves the revision alone and says how to come back. */
export async function followUntilServed(
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
  const { id, name, url, serving, latest_revision_id } = deployment
  out.emit({ type: 'result', outcome, deployment_id: id, name, url, serving, revision_id: latest_revision_id }, () =>
    outcome === 'deployed' && url
      ? `${out.paint('green', '✓')} ${name} serves at ${out.paint('bold', url)}`
      : `${name}: ${outcome}`,
  )
}
