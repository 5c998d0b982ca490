// Moves one revision on, if its lifecycle allows: an interruption. What a data plane reports, sync/report.ts applies.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { commit } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { inFlightStates, mayFollow } from './lifecycle.ts'
import { type RevisionStatus, revisionStatuses, sources } from './parts.schema.ts'
import { brought, followed, held, moved, ofCurrent, turns } from './queue.ts'
import type { RevisionRow } from './rows.ts'
import type { Revision } from './schema.ts'

export type Move = {
  deployment_id: string
  revision_id: string
  to: RevisionStatus
  /** Why, where it is a failure. */
  message?: string | null
  /** What was found out on the way, so that a redeploy is of the same thing. */
  commit?: NonNullable<Revision['commit']>
  image_uri?: string
}

/** Taking its turn is nobody's to report: the queue gives it. */
const allowed = (to: RevisionStatus) =>
  sources.flatMap(source =>
    revisionStatuses
      .filter(from => mayFollow(source, from, to) && !(from === 'QUEUED' && inFlightStates.includes(to)))
      .map(from => `${source} ${from}`),
  )

const failed = (to: RevisionStatus) => to.endsWith('_FAILED') || to === 'UNKNOWN'
const NO_REASON = 'It was reported without a reason.'

type Refusal = 'revision_move_illegal' | 'revision_not_interruptible'
/** One statement: the move, its event, the queue that it frees, and the turn of the one that waited. */
export async function advance(ctx: Ctx, move: Move, refusal: Refusal = 'revision_move_illegal'): Promise<RevisionRow> {
  const { deployment_id, revision_id, to } = move
  const message = move.message || (failed(to) ? NO_REASON : null)
  const resolved = { repo_commit_sha: move.commit?.sha, image_uri: move.image_uri }
  const moves: SQL = sql`moves as (
    select r.id, r.deployment_id, r.number, ${to}::text as becomes, ${message}::text as message,
      ${JSON.stringify(resolved)}::jsonb as resolved, ${move.commit ? JSON.stringify(move.commit) : null}::jsonb as made_commit
    from deployments c join revisions r on r.deployment_id = c.id and r.tenant_id = current_tenant() and r.id = ${revision_id}::uuid
    where ${ofCurrent(deployment_id)} and case when r.source || ' ' || r.status = any(${sql.param(allowed(to))}::text[]) then true
      else refuse(${refusal}, r.status || ' to ' || ${to}::text) end)`
  const rows = await commit(
    ctx,
    `revision.${to.toLowerCase()}`,
    moved,
    { deployment_id, message, ...(move.commit && { commit: move.commit.sha }) },
    { lock: held(deployment_id), first: [moves, ...turns], also: followed, others: brought },
  )
  return found(rows, 'revision_not_found')
}
