// Interrupts a revision. sync/report.ts applies what a data plane reports.
import { sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { textArray } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { requireRow } from '../kernel/rows.ts'
import { type RevisionStatus, revisionStatuses, sources } from '../protocol/parts.schema.ts'
import { canFollow, inFlightStates } from './lifecycle.ts'
import {
  applyMoves,
  applyMovesToDeployments,
  moveEvents,
  promoteWithoutReports,
  selectMoves,
} from './revision-moves.ts'
import { isDeploymentInTenant, lockDeployment } from './revision-queue.ts'
import type { RevisionRow } from './rows.ts'
import type { Revision } from './schema.ts'

export type RevisionMove = {
  deployment_id: string
  revision_id: string
  to: RevisionStatus
  /** Why, where it is a failure. */
  message?: string | null
  /** What a ref or a tag resolved to, so that a redeploy uses the same. */
  commit?: NonNullable<Revision['commit']>
  image_uri?: string
}

/** Only the queue takes a revision from QUEUED into flight. */
const allowedMoves = (to: RevisionStatus) =>
  sources.flatMap(source =>
    revisionStatuses
      .filter(from => canFollow(source, from, to) && !(from === 'QUEUED' && inFlightStates.includes(to)))
      .map(from => `${source} ${from}`),
  )

const isFailure = (to: RevisionStatus) => to.endsWith('_FAILED') || to === 'UNKNOWN'
const MISSING_REASON = 'No reason was reported.'

type RefusalCode = 'revision_move_illegal' | 'revision_not_interruptible'
export async function transitionRevision(
  ctx: Ctx,
  move: RevisionMove,
  refusal: RefusalCode = 'revision_move_illegal',
): Promise<RevisionRow> {
  const { deployment_id, revision_id, to } = move
  const message = move.message || (isFailure(to) ? MISSING_REASON : null)
  const resolved = { repo_commit_sha: move.commit?.sha, image_uri: move.image_uri }
  const isAllowed = sql`r.source || ' ' || r.status = any(${textArray(allowedMoves(to))})`
  const moves = selectMoves(
    {
      id: sql`r.id`,
      deployment_id: sql`r.deployment_id`,
      number: sql`r.number`,
      becomes: sql`${to}::text`,
      message: sql`${message}::text`,
      resolved: sql`${JSON.stringify(resolved)}::jsonb`,
      made_commit: sql`${move.commit ? JSON.stringify(move.commit) : null}::jsonb`,
    },
    sql`deployments c
  join revisions r on r.deployment_id = c.id and r.tenant_id = current_tenant() and r.id = ${revision_id}::uuid
  where ${isDeploymentInTenant(deployment_id)}
    and case when ${isAllowed} then true else refuse(${refusal}, r.status || ' to ' || ${to}::text) end`,
  )
  const rows = await commit(
    ctx,
    `revision.${to.toLowerCase()}`,
    applyMoves,
    { deployment_id, message, ...(move.commit && { commit: move.commit.sha }) },
    {
      lock: lockDeployment(deployment_id),
      first: [moves, ...promoteWithoutReports],
      also: applyMovesToDeployments,
      others: moveEvents,
    },
  )
  return requireRow(rows, 'revision_not_found')
}
