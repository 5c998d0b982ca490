// Interrupts one revision, if its lifecycle allows it. What an agent reports, sync/report.ts applies.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { commit } from '../kernel/journal.ts'
import { requireRow } from '../kernel/rows.ts'
import { revisionStatuses, sources } from '../protocol/parts.schema.ts'
import { canFollow } from './lifecycle.ts'
import {
  applyMoves,
  applyMovesToDeployments,
  isDeploymentInTenant,
  lockDeployment,
  moveEvents,
  promoteWithoutReports,
} from './revision-queue.ts'

const MESSAGE = 'Interrupted on request.'
const INTERRUPTIBLE = sources.flatMap(source =>
  revisionStatuses.filter(from => canFollow(source, from, 'INTERRUPTED')).map(from => `${source} ${from}`),
)

type RevisionIds = { deployment_id: string; revision_id: string }
/** One statement: the move, its event, and the turn of the revision that waits. */
export async function interrupt(ctx: Ctx, { deployment_id, revision_id }: RevisionIds): Promise<void> {
  const moves: SQL = sql`moves as (
    select r.id, r.deployment_id, r.number, 'INTERRUPTED' as becomes, ${MESSAGE}::text as message,
      '{}'::jsonb as resolved, null::jsonb as made_commit
    from deployments c
    join revisions r on r.deployment_id = c.id and r.tenant_id = current_tenant() and r.id = ${revision_id}::uuid
    where ${isDeploymentInTenant(deployment_id)}
      and case when r.source || ' ' || r.status = any(${sql.param(INTERRUPTIBLE)}::text[]) then true
        else refuse('revision_not_interruptible', r.status || ' to INTERRUPTED') end)`
  const rows = await commit(
    ctx,
    'revision.interrupted',
    applyMoves,
    { deployment_id, message: MESSAGE },
    {
      lock: lockDeployment(deployment_id),
      first: [moves, ...promoteWithoutReports],
      also: applyMovesToDeployments,
      others: moveEvents,
    },
  )
  requireRow(rows, 'revision_not_found')
}
