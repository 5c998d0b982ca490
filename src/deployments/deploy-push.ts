// What a push makes of a deployment: a revision of the ref's head, a record that it was held back, or nothing; and a ref that is gone.
import { type SQL, sql } from 'drizzle-orm'
import { verb } from '../kernel/context.ts'
import { textArray } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import {
  decideChange,
  enqueueEvents,
  HELD_BACK_REASON,
  insertRevision,
  isDeploymentInTenant,
  lockDeployment,
  supersedeWaiting,
  updateWanted,
} from './revision-queue.ts'
import type { Revision } from './schema.ts'

type Commit = NonNullable<Revision['commit']>
export type RefHead = {
  deployment_id: string
  /** How the deployment may have the ref written; another one was named meanwhile, and the push is none of its. */
  refs: string[]
  /** The database's time before the host was asked: an answer that is older than the last one counts no more. */
  asked_at: string
}
export type PushedCommit = RefHead & {
  /** Where the ref is now. */
  commit: Commit
  /** Of a deployment that follows its ref by itself, or one that is made to (a preview). */
  ignoresBuildOnPush?: boolean
  /** What else the journal keeps: who delivered what. */
  journalData: Record<string, unknown>
}
/** `late`: the host was asked again since, or there is no such deployment with such a ref any more. */
export type PushOutcome = 'made' | 'held' | 'nothing' | 'late'

const PUSHED_REASON = 'pushed'
const followsRef = (refs: string[]): SQL => sql`c.source_revision_config ->> 'repo_ref' = any(${textArray(refs)})`
const deploymentWithHead = sql`deployments c left join deployment_heads h on h.deployment_id = c.id and h.tenant_id = current_tenant()`
const isNewerThanHead = (asked_at: string): SQL => sql`coalesce(h.asked_at < ${asked_at}::timestamptz, true)`

/** A commit that some rollback left: of what was wanted just before it. */
const wasRolledBack = (sha: string): SQL => sql`exists (
  select from revisions x cross join lateral (
    select y."commit" ->> 'sha' as sha, y.source_revision_config ->> 'repo_commit_sha' as pinned from revisions y
    where y.deployment_id = c.id and y.number < x.number and not ${HELD_BACK_REASON}::text = any(y.reasons) order by y.number desc limit 1) b
  where x.deployment_id = c.id and 'rolled_back' = any(x.reasons) and coalesce(b.sha, b.pinned) = ${sha})`
const isRecorded = (sha: string): SQL => sql`exists (
  select from revisions x where x.deployment_id = c.id and x.number = c.revisions and ${HELD_BACK_REASON}::text = any(x.reasons) and x."commit" ->> 'sha' = ${sha})`

/** Why a revision is made or held back; none where the commit is wanted or recorded already. */
const skipReason = (sha: string): SQL => sql`case
  when c.source_revision_config ->> 'repo_commit_sha' = ${sha} then null
  when ${wasRolledBack(sha)} then 'It was rolled back from ' || left(${sha}, 7) || ', which is not deployed again by itself.'
  when c.hold ->> 'until' = 'released' then 'A rollback holds automatic deploys: ' || left(${sha}, 7) || ' was not deployed.'
  else '' end`

const RECORD_SKIPPED = sql`recorded as (
  insert into revisions (id, organization_id, tenant_id, deployment_id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, status_message, reasons, "commit", actor_kind, actor_id, created_at, updated_at)
  select gen_random_uuid(), c.organization_id, c.tenant_id, c.id, c.revisions, c.source, c.source_config,
    (c.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', p.made_commit ->> 'sha'))::json, c.secrets, c.secret_references,
    'SKIPPED', p.why, p.reasons, p.made_commit, setting('actor_kind'), current_actor(), clock(), clock()
  from changed c join planned p on p.id = c.id where c.kept returning *)`

/** One statement, whatever comes of it; the row is held, so that of two pushes the second sees what the first made. */
export const deployPush = verb('deployments:update', async (ctx, input: PushedCommit): Promise<PushOutcome> => {
  const { deployment_id, refs, asked_at, commit: head, ignoresBuildOnPush: always = false, journalData: told } = input
  const id = crypto.randomUUID()
  const follows = always ? sql`true` : sql`(c.source_config ->> 'build_on_push') = 'true'`
  const planned = sql`planned as (
    select c.*, w.why, w.old_gone, case when w.why is null or w.why <> '' and ${isRecorded(head.sha)} then '{}'
        when w.why = '' then ${textArray([PUSHED_REASON])} else ${textArray([PUSHED_REASON, HELD_BACK_REASON])} end as reasons,
      false as placed, c.source_config::jsonb as next_config,
      c.source_revision_config::jsonb || case when w.why = '' then jsonb_build_object('repo_commit_sha', ${head.sha}::text) else '{}' end as next_made_from,
      c.secrets::jsonb as next_secrets, c.secret_references::jsonb as next_references,
      case when w.why = '' then null else c.hold end as next_hold,
      c.source as made_source, ${JSON.stringify(head)}::json as made_commit, null::uuid as from_revision
    from ${deploymentWithHead} cross join lateral (select ${skipReason(head.sha)} as why, h.gone_ref as old_gone) w
    where ${isDeploymentInTenant(deployment_id)} and c.deleting_at is null and ${follows} and ${followsRef(refs)} and ${isNewerThanHead(asked_at)})`
  const also = [
    supersedeWaiting('changed'),
    sql`revision as (${insertRevision(id, 'changed')})`,
    RECORD_SKIPPED,
    sql`looked as (insert into deployment_heads (deployment_id, organization_id, tenant_id, asked_at)
      select id, organization_id, tenant_id, ${asked_at}::timestamptz from planned
      on conflict (deployment_id) do update set asked_at = excluded.asked_at, gone_ref = null)`,
  ]
  const others = sql`${enqueueEvents('changed')}
    union all select 'revision.created', id, json_build_object('deployment_id', deployment_id, 'status', status, 'message', status_message) from recorded
    union all select 'deployment.hold_released', p.id, '{}' from planned p join changed c on c.id = p.id where c.makes and p.hold is not null
    union all select 'deployment.ref_found', p.id, json_build_object('ref', p.old_gone) from planned p where p.old_gone is not null`
  const event = sql`case when changed.makes or changed.kept then 'deployment.pushed' end`
  const rows = await commit(
    ctx,
    event,
    updateWanted(id),
    { commit: head.sha, ...told },
    {
      lock: lockDeployment(deployment_id),
      first: [planned, decideChange],
      also,
      others,
    },
  )
  const [row] = rows as unknown as { makes: boolean; kept: boolean }[]
  if (!row) return 'late'
  return row.makes ? 'made' : row.kept ? 'held' : 'nothing'
})

/** It keeps serving; `explain` says what became of its ref. */
export const recordMissingRef = verb('deployments:update', async (ctx, { deployment_id, refs, asked_at }: RefHead) => {
  const gone = sql`c.source_revision_config ->> 'repo_ref'`
  const change = sql<{ id: string }>`
    insert into deployment_heads as x (deployment_id, organization_id, tenant_id, asked_at, gone_ref)
    select c.id, c.organization_id, c.tenant_id, ${asked_at}::timestamptz, ${gone} from ${deploymentWithHead}
    where ${isDeploymentInTenant(deployment_id)} and c.deleting_at is null and ${followsRef(refs)} and ${isNewerThanHead(asked_at)}
      and h.gone_ref is distinct from ${gone}
    on conflict (deployment_id) do update set asked_at = excluded.asked_at, gone_ref = excluded.gone_ref
    returning x.deployment_id as id, x.gone_ref`
  const data = sql`json_build_object('ref', changed.gone_ref)`
  const rows = await commit(ctx, 'deployment.ref_gone', change, data, { lock: lockDeployment(deployment_id) })
  return rows.length > 0
})
