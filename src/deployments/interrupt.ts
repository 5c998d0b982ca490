// Interrupts a revision. sync/report.ts applies what an agent reports.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { textArray } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { changedMembers } from '../kernel/recorded-changes.ts'
import { requireRow } from '../kernel/rows.ts'
import { revisionStatuses, sources } from '../protocol/parts.schema.ts'
import { revisions } from '../tables/deployments.ts'
import { canFollow } from './lifecycle.ts'
import {
  applyMoves,
  applyMovesToDeployments,
  moveEvents,
  promoteWithoutReports,
  selectMoves,
} from './revision-moves.ts'
import { isDeploymentInTenant, lockDeployment } from './revision-queue.ts'
import { REVISION_MOVE_RECORD } from './rows.ts'

const MESSAGE = 'Interrupted on request.'
const INTERRUPTIBLE = sources.flatMap(source =>
  revisionStatuses.filter(from => canFollow(source, from, 'INTERRUPTED')).map(from => `${source} ${from}`),
)
const IS_INTERRUPTIBLE = sql`r.source || ' ' || r.status = any(${textArray(INTERRUPTIBLE)})`

type RevisionIds = { deployment_id: string; revision_id: string }
export async function interrupt(ctx: Ctx, { deployment_id, revision_id }: RevisionIds): Promise<void> {
  const moves = selectMoves(
    {
      id: sql`r.id`,
      deployment_id: sql`r.deployment_id`,
      number: sql`r.number`,
      becomes: sql`'INTERRUPTED'`,
      message: sql`${MESSAGE}::text`,
      resolved: sql`'{}'::jsonb`,
      new_commit: sql`null::jsonb`,
    },
    sql`deployments c
  join revisions r on r.deployment_id = c.id and r.tenant_id = current_tenant() and r.id = ${revision_id}::uuid
  where ${isDeploymentInTenant(deployment_id)}
    and case
      when ${IS_INTERRUPTIBLE} then true
      else refuse('revision_not_interruptible', r.status || ' to INTERRUPTED')
    end`,
  )
  const rows = await commit(
    ctx,
    'revision.interrupted',
    applyMoves,
    { deployment_id, message: MESSAGE },
    {
      lock: lockDeployment(deployment_id),
      changes: changedMembers(revisions, REVISION_MOVE_RECORD),
      ctesBefore: [moves, ...promoteWithoutReports],
      ctesAfter: applyMovesToDeployments,
      otherEvents: moveEvents,
    },
  )
  requireRow(rows, 'revision_not_found')
}
