// `slipway apply`: makes the workspace as documents declare it.
import { applyPlan, listWrites } from '../../client/apply/apply.ts'
import { titleOf } from '../../client/apply/documents.ts'
import type { Deployment } from '../../client/apply/planner.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { type DocumentFlags, withDocuments } from '../flags.ts'
import { followRevision, parseTimeout } from '../follow.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = {
  summary: 'make the workspace as documents declare it',
  options: command =>
    withDocuments(command)
      .option('--plan-digest <digest>', 'apply the plan that `slipway diff -f` showed, or nothing')
      .option('--wait', 'follow the new revisions until they serve')
      .option('--timeout <seconds>', 'how long to follow each revision', '900'),
}

type Flags = DocumentFlags & { planDigest?: string; wait?: boolean; timeout: string }

export async function run(session: Session, flags: Flags): Promise<void> {
  const { count, describeFailure, makePlan, showPlan, writeCommand } = await import('../document-plan.ts')
  const { out, signal } = session
  const timeoutMs = parseTimeout(flags.timeout)
  const plan = await makePlan(session, flags)
  showPlan(session, plan)
  if (flags.planDigest !== undefined && flags.planDigest !== plan.digest) {
    const message = 'The files or the workspace have changed since the plan with this digest. Nothing was changed.'
    throw new CommandFailure(EXIT.stalePlan, 'plan_stale', message, writeCommand('diff', flags))
  }
  const writes = listWrites(plan)
  if (writes.length === 0) return out.emit({ type: 'result', outcome: 'unchanged', plan_digest: plan.digest })
  if (flags.planDigest === undefined)
    await confirm(session, `Apply this plan: ${count(plan)}?`, `${writeCommand('apply', flags)} --yes`)
  const deployments: Deployment[] = []
  try {
    for await (const { kind, name, action, deployment } of applyPlan(plan, signal)) {
      if (deployment) deployments.push(deployment)
      const revision_id = deployment?.latest_revision_id
      out.emit(
        { type: 'applied', kind, name, action, deployment_id: deployment?.id, revision_id },
        () => `${out.paint('green', '✓')} ${PAST[action]} ${titleOf({ kind, name })}`,
      )
    }
  } catch (error) {
    throw describeFailure(session, error, writeCommand('diff', flags))
  }
  if (flags.wait) {
    for (const deployment of deployments) {
      out.text(deployment.name)
      await followRevision(session, deployment, deployment.latest_revision_id!, { timeoutMs })
    }
  }
  const next = flags.wait ? undefined : deployments[0] && `slipway status ${deployments[0].name}`
  out.emit({ type: 'result', outcome: 'applied', applied: writes.length, plan_digest: plan.digest, next }, () =>
    flags.wait || !next ? 'Applied.' : `Applied. See how far a deployment is: ${next}`,
  )
}

const PAST = { create: 'Created', change: 'Changed', delete: 'Deleted', nothing: 'Left' } as const
