// Deploys a push: creates a revision of the ref's head, records that it was held back, or does nothing.
import { type SQL, sql } from 'drizzle-orm'
import { verb } from '../kernel/context.ts'
import { textArray } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { changedMembers, changesBetween, createdMembers } from '../kernel/recorded-changes.ts'
import {
  decideChange,
  deploymentRevisionColumns,
  enqueueEvents,
  HELD_BACK_REASON,
  insertQueuedRevision,
  insertRevision,
  isDeploymentInTenant,
  lockDeployment,
  type PlannedColumns,
  planChange,
  type QueuedColumns,
  supersedeOlder,
  unchangedColumns,
  updateWanted,
} from './revision-queue.ts'
import { DEPLOYMENT_RECORD, REVISION_RECORD } from './rows.ts'
import type { Revision } from './schema.ts'
import { columnOf, type EventRows } from './sql-columns.ts'

type Commit = NonNullable<Revision['commit']>
export type RefHead = {
  deployment_id: string
  /** The spellings of the ref that a deployment may have stored; a push of another ref does not concern it. */
  refs: string[]
  /** The database's time before the host was asked: an answer that is older than the last one does not count. */
  queried_at: string
}
export type PushedCommit = RefHead & {
  /** The head of the ref. */
  commit: Commit
  /** Set for previews, which follow their pull request even without `build_on_push`. */
  ignoresBuildOnPush?: boolean
  /** What else the event records: who pushed what. */
  journalData: Record<string, unknown>
}
/** `stale`: a later answer of the host was applied already, or no deployment with this ref exists any more. */
export type PushOutcome = 'created' | 'held_back' | 'unchanged' | 'stale'

const PUSHED_REASON = 'pushed'
const followsRef = (refs: string[]): SQL => sql`c.source_revision_config ->> 'repo_ref' = any(${textArray(refs)})`
const DEPLOYMENT_WITH_HEAD = sql`deployments c
  left join deployment_heads h on h.deployment_id = c.id and h.tenant_id = current_tenant()`
const isNewerThanHead = (queried_at: string): SQL => sql`coalesce(h.queried_at < ${queried_at}::timestamptz, true)`

// ---- why a push is held back

/** Some rollback left this commit: it was wanted just before the rollback. */
const wasRolledBack = (sha: string): SQL => sql`exists (
      select from revisions x
      cross join lateral (
        select y."commit" ->> 'sha' as sha, y.source_revision_config ->> 'repo_commit_sha' as pinned
        from revisions y
        where y.deployment_id = c.id and y.number < x.number and not ${HELD_BACK_REASON}::text = any(y.reasons)
        order by y.number desc
        limit 1) b
      where x.deployment_id = c.id and 'rolled_back' = any(x.reasons) and coalesce(b.sha, b.pinned) = ${sha})`

const isRecorded = (sha: string): SQL => sql`exists (
      select from revisions x
      where x.deployment_id = c.id
        and x.number = c.revisions
        and ${HELD_BACK_REASON}::text = any(x.reasons)
        and x."commit" ->> 'sha' = ${sha})`

/** Null where the commit is deployed already; empty where nothing holds it back. */
const heldBackMessage = (sha: string): SQL => sql`case
      when c.source_revision_config ->> 'repo_commit_sha' = ${sha} then null
      when ${wasRolledBack(sha)}
        then 'Commit ' || left(${sha}, 7) || ' was rolled back and is not deployed again automatically.'
      when c.hold ->> 'until' = 'released'
        then 'A rollback holds automatic deploys: commit ' || left(${sha}, 7) || ' was not deployed.'
      else ''
    end`

// ---- the statement

type PushColumns = PlannedColumns & {
  held_back_message: SQL
  /** The ref that was missing until now. */
  restored_ref: SQL
}
const planned = columnOf<PushColumns>('p')
const queued = columnOf<QueuedColumns>('d')

const IS_NOT_HELD_BACK = sql`m.message = ''`

const plannedColumns = (head: Commit): PushColumns => ({
  ...unchangedColumns,
  held_back_message: sql`m.message`,
  restored_ref: sql`h.gone_ref`,
  reasons: sql`case
      when m.message is null or m.message <> '' and ${isRecorded(head.sha)} then '{}'
      when ${IS_NOT_HELD_BACK} then ${textArray([PUSHED_REASON])}
      else ${textArray([PUSHED_REASON, HELD_BACK_REASON])}
    end`,
  next_source_revision_config: sql`c.source_revision_config::jsonb || case
      when ${IS_NOT_HELD_BACK} then jsonb_build_object('repo_commit_sha', ${head.sha}::text)
      else '{}'
    end`,
  next_hold: sql`case when ${IS_NOT_HELD_BACK} then null else c.hold end`,
  revision_commit: sql`${JSON.stringify(head)}::json`,
})

/** A commit that is held back is recorded as a skipped revision, which is never the deployment's latest. */
const RECORDED = sql`recorded as (${insertRevision(
  {
    ...deploymentRevisionColumns,
    id: sql`gen_random_uuid()`,
    source: sql`d.source`,
    source_revision_config: sql`(d.source_revision_config::jsonb
      || jsonb_build_object('repo_commit_sha', ${planned('revision_commit')} ->> 'sha'))::json`,
    status: sql`'SKIPPED'`,
    status_message: planned('held_back_message'),
    reasons: planned('reasons'),
    from_revision_id: sql`null`,
    commit: planned('revision_commit'),
    created_at: sql`clock()`,
    updated_at: sql`clock()`,
  },
  sql`changed d
  join planned p on p.id = d.id
  where ${queued('is_held_back')}`,
)})`

const updateHead = (queried_at: string): SQL => sql`head as (
  insert into deployment_heads (deployment_id, organization_id, tenant_id, queried_at)
  select id, organization_id, tenant_id, ${queried_at}::timestamptz
  from planned
  on conflict (deployment_id) do update set queried_at = excluded.queried_at, gone_ref = null)`

const PUSH_EVENTS: EventRows[] = [
  {
    type: sql`'revision.created'`,
    subject: sql`id`,
    data: sql`json_build_object('deployment_id', deployment_id, 'status', status, 'message', status_message)`,
    changes: createdMembers(REVISION_RECORD, sql`recorded`),
    from: sql`recorded`,
  },
  {
    type: sql`'deployment.hold_released'`,
    subject: sql`p.id`,
    changes: changesBetween({ hold: sql`p.hold` }, { hold: sql`d.hold` }),
    from: sql`planned p
  join changed d on d.id = p.id
  where ${queued('creates_revision')} and p.hold is not null`,
  },
  {
    type: sql`'deployment.ref_found'`,
    subject: sql`p.id`,
    data: sql`json_build_object('ref', ${planned('restored_ref')})`,
    from: sql`planned p
  where ${planned('restored_ref')} is not null`,
  },
]

/** The row stays locked, so that the second of two pushes sees the revision of the first. */
export const deployPush = verb('deployments:update', async (ctx, input: PushedCommit): Promise<PushOutcome> => {
  const { deployment_id, refs, queried_at, commit: head, ignoresBuildOnPush = false, journalData } = input
  const id = crypto.randomUUID()
  const followsPushes = ignoresBuildOnPush ? sql`true` : sql`(c.source_config ->> 'build_on_push') = 'true'`
  const planCte = planChange({
    columns: plannedColumns(head),
    from: sql`${DEPLOYMENT_WITH_HEAD}
  cross join lateral (select ${heldBackMessage(head.sha)} as message) m`,
    where: sql`${isDeploymentInTenant(deployment_id)}
    and c.deleting_at is null
    and ${followsPushes}
    and ${followsRef(refs)}
    and ${isNewerThanHead(queried_at)}`,
  })
  const ctesAfter = [
    supersedeOlder('changed'),
    sql`revision as (${insertQueuedRevision(id, 'changed')})`,
    RECORDED,
    updateHead(queried_at),
  ]
  const event = sql`case when changed.creates_revision or changed.is_held_back then 'deployment.pushed' end`
  const data = { commit: head.sha, ...journalData }
  const rows = await commit(ctx, event, updateWanted(id), data, {
    lock: lockDeployment(deployment_id),
    changes: changedMembers(sql`planned`, DEPLOYMENT_RECORD),
    ctesBefore: [planCte, decideChange],
    ctesAfter,
    otherEvents: enqueueEvents('changed', ...PUSH_EVENTS),
  })
  const [row] = rows as unknown as Record<keyof QueuedColumns, boolean>[]
  if (!row) return 'stale'
  if (row.creates_revision) return 'created'
  return row.is_held_back ? 'held_back' : 'unchanged'
})

/** The deployment keeps serving; `explain` shows that its ref is gone. */
export const recordMissingRef = verb(
  'deployments:update',
  async (ctx, { deployment_id, refs, queried_at }: RefHead) => {
    const ref = sql`c.source_revision_config ->> 'repo_ref'`
    const change = sql<{ id: string }>`
    insert into deployment_heads as x (deployment_id, organization_id, tenant_id, queried_at, gone_ref)
    select c.id, c.organization_id, c.tenant_id, ${queried_at}::timestamptz, ${ref}
    from ${DEPLOYMENT_WITH_HEAD}
    where ${isDeploymentInTenant(deployment_id)}
      and c.deleting_at is null
      and ${followsRef(refs)}
      and ${isNewerThanHead(queried_at)}
      and h.gone_ref is distinct from ${ref}
    on conflict (deployment_id) do update set queried_at = excluded.queried_at, gone_ref = excluded.gone_ref
    returning x.deployment_id as id, x.gone_ref`
    const data = sql`json_build_object('ref', changed.gone_ref)`
    const rows = await commit(ctx, 'deployment.ref_gone', change, data, { lock: lockDeployment(deployment_id) })
    return rows.length > 0
  },
)
