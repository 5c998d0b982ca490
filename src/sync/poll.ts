// Answers an agent's poll: what changed since its cursor, under a lease. Waiting holds no connection.
import { type SQL, sql } from 'drizzle-orm'
import { LISTENER_LOST } from '../deployments/lifecycle.ts'
import { columnOf, selectColumns, selectTenantEvents } from '../deployments/sql-columns.ts'
import { type Ctx, pauseWhileConnected, verb, withoutRateLimit } from '../kernel/context.ts'
import { type Row, run } from '../kernel/db.ts'
import { agentEventLimit, journalSystemEvents, LISTENER_ACTOR } from '../kernel/journal.ts'
import { modelProxyUrl } from '../kernel/model-tokens.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import { type Changes, POLL_PAGE_SIZE, type Poll } from '../protocol/poll.schema.ts'
import { listeners } from '../tables/listeners.ts'
import { createSeal, type Seal } from './envelope.ts'
import { acquireLease, hasLease, selectLockedLease } from './lease.ts'
import { revisionJson, type StoredWork, toWork } from './work.ts'

const [MIN_DELAY_MS, MAX_DELAY_MS] = [250, 2000]

type LeaseHolder = { agent_id: string; fence: number }

export const poll = verb('listeners:sync', async (ctx, input: Poll): Promise<Changes> => {
  const seal = await createSeal(input.public_key)
  const end = Date.now() + input.wait * 1000
  let changes = await fetchChanges(ctx, seal, input, acquireLease(input))
  const lease = { agent_id: input.agent_id, fence: changes.lease.fence }
  const repeatCtx = withoutRateLimit(ctx)
  for (let delay = MIN_DELAY_MS; isIdle(changes); delay = Math.min(delay * 2, MAX_DELAY_MS)) {
    const left = end - Date.now()
    if (left <= 0 || !(await pauseWhileConnected(ctx, Math.min(delay, left)))) break
    const [latest] = requireRow(await run(repeatCtx, selectCursor(lease)), 'listener_not_found')
    if (Number(latest) === changes.cursor) continue
    // Without the digest, which was compared already. The lease is not renewed: the agent may have died during the
    // wait, which not every host notices.
    changes = await fetchChanges(repeatCtx, seal, { ...input, digest: null }, selectLockedLease(lease))
  }
  return changes
})

const isIdle = ({ changes, resync }: Changes) => changes.length === 0 && !resync

/** A deployment without a listener goes to the first listener of the platform that polls. Not journaled. */
const ADOPTED = sql`adopted as (
  update deployments d set listener_id = (select current_listener())
  where d.id in (
    select c.id
    from deployments c
    where c.listener_id is null and setting('platform') = 'true'
    order by c.id
    limit 100
    for update skip locked))`

/** The number of the listener's latest change: a wait repeats this query. */
const selectCursor = (lease: LeaseHolder): SQL<[string]> => sql`
  with ${ADOPTED}
  select coalesce((select c.seq from sync_cursors c where c.listener_id = current_listener()), 0)
  from ${listeners}
  where ${hasLease(lease)}`

type ChangesRow = [
  ...[id: string, fence: string, expires: string, latest: string, digest: string],
  ...[resync: boolean, more: boolean, changes: string | null, keep_unknown: boolean],
]

async function fetchChanges(ctx: Ctx, seal: Seal, input: Poll, lease: SQL): Promise<Changes> {
  const rows = await run(ctx, selectChanges(input, lease, agentEventLimit(ctx)))
  const row = requireRow(rows, 'listener_not_found') as ChangesRow
  const [listener_id, fence, expires, latest, digest, resync, more, changes, keep_unknown] = row
  const stored = JSON.parse(changes ?? '[]') as StoredWork[]
  const { control_plane_url = ctx.origin } = input
  const context = { ctx, listener_id, seal, tracesUrl: ctx.config.deploymentTracing ? control_plane_url : null }
  return {
    listener_id,
    lease: { fence: Number(fence), expires_at: toIsoTime(expires) },
    cursor: more ? stored.at(-1)!.seq : Number(latest),
    digest,
    resync,
    keep_unknown,
    models_url: ctx.config.deploymentModels && control_plane_url ? modelProxyUrl(control_plane_url) : null,
    more,
    changes: await Promise.all(stored.map(work => toWork(context, work))),
  }
}

// ---- the statement: the lease, a page of changes behind the cursor, an event for each revision whose secrets go out

type SyncStateColumns = Record<'id' | 'fence' | 'lease_expires_at' | 'keep_unknown' | 'latest' | 'digest', SQL>
type StartColumns = SyncStateColumns & {
  /** Whether the agent has to start over: its cursor or its digest is not the listener's. */
  resync: SQL
}
const start = columnOf<StartColumns>('s')

const SYNC_STATE = sql`sync_state as (
  select
    ${selectColumns<SyncStateColumns>({
      id: sql`l.id`,
      fence: sql`l.fence`,
      lease_expires_at: sql`l.lease_expires_at`,
      keep_unknown: sql`l.holds_removals_since is not null`,
      latest: sql`coalesce(c.seq, 0)`,
      digest: sql`lpad(to_hex(coalesce(c.digest, 0)), 16, '0')`,
    })}
  from leased l
  left join sync_cursors c on c.listener_id = l.id)`

const selectStart = (cursor: number | null, digest: string | null): SQL => sql`start as (
  select s.*,
    ${selectColumns<Omit<StartColumns, keyof SyncStateColumns>>({
      resync: sql`${cursor}::bigint is null
      or ${cursor}::bigint > ${start('latest')}
      or (${digest}::text is not null
        and ${cursor}::bigint = ${start('latest')}
        and ${digest}::text <> ${start('digest')})`,
    })}
  from sync_state s)`

/** One item more than a page, to know whether there is another page. */
const selectPage = (cursor: number | null): SQL => sql`page as (
  select i.*
  from start s
  join sync_items i on i.listener_id = ${start('id')}
    and i.seq > case when ${start('resync')} then 0 else ${cursor}::bigint end
  where i.listener_id = current_listener()
  order by i.seq
  limit ${POLL_PAGE_SIZE + 1})`

/** The revision in flight; or the latest, if it was lost when its listener fell silent: the agent continues with it. */
const IS_WANTED_REVISION = sql`f.id = coalesce(d.in_flight_revision_id, d.latest_revision_id)
    and (f.id = d.in_flight_revision_id or f.status = ${LISTENER_LOST.becomes})`

/** The workspace owns the host and has proved it. A listener of its own that is not public needs no proof. */
const CAN_SERVE_HOST = sql`h.verified_at is not null
        or h.tenant_id = (select tenant_id from leased where not verified_hosts_only)`

const DEPLOYMENT_JSON = sql`case when d.id is not null then json_build_object(
      'tenant_id', d.tenant_id,
      'name', d.name,
      'deployment_type', d.deployment_type,
      'source_config', d.source_config,
      'trace_key_version', d.trace_key_version,
      'custom_url', case when ${CAN_SERVE_HOST} then d.source_config ->> 'custom_url' end,
      'absent', d.deleting_at is not null)
    end`

type WorkColumns = Record<keyof StoredWork, SQL> & { tenant_id: SQL; organization_id: SQL }
const work = columnOf<WorkColumns>('w')

const WORK = sql`work as (
  select
    ${selectColumns<WorkColumns>({
      deployment_id: sql`p.deployment_id`,
      generation: sql`p.generation`,
      seq: sql`p.seq`,
      tenant_id: sql`d.tenant_id`,
      organization_id: sql`d.organization_id`,
      deployment: DEPLOYMENT_JSON,
      revision: sql`case when d.deleting_at is null then (${revisionJson(sql`f`)})::jsonb end`,
      serving: sql`case when d.deleting_at is null then (${revisionJson(sql`a`)})::jsonb end`,
    })}
  from (select * from page order by seq limit ${POLL_PAGE_SIZE}) p
  left join deployments d on d.id = p.deployment_id and d.listener_id = current_listener()
  left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
  left join revisions f on ${IS_WANTED_REVISION}
  left join revisions a on a.id = d.active_revision_id)`

const revisionRows = (revision: SQL): SQL => sql`
    select tenant_id, organization_id, deployment_id, ${revision} as revision
    from work w`

/** `union`, so that a revision that is both wanted and serving has one event. */
const REVEALED_EVENTS = selectTenantEvents({
  type: sql`'revision.secrets_revealed'`,
  subject: sql`(revision ->> 'id')::uuid`,
  data: sql`json_build_object('deployment_id', deployment_id, 'fence', (select fence from leased))`,
  from: sql`(${revisionRows(work('revision'))}
    union${revisionRows(work('serving'))}) r
  where json_typeof((revision -> 'sealed')::json) = 'array'`,
})

const CHANGES_JSON = sql`(
    select json_agg(
      json_build_object(
        'deployment_id', ${work('deployment_id')},
        'generation', ${work('generation')},
        'seq', ${work('seq')},
        'deployment', ${work('deployment')},
        'revision', ${work('revision')},
        'serving', ${work('serving')})
      order by ${work('seq')})
    from work w)`

function selectChanges({ cursor = null, digest = null }: Poll, lease: SQL, eventLimit: SQL): SQL<Row> {
  const ctes = [
    sql`leased as (${lease})`,
    ADOPTED,
    SYNC_STATE,
    selectStart(cursor, digest),
    selectPage(cursor),
    WORK,
    journalSystemEvents(REVEALED_EVENTS, LISTENER_ACTOR, sql``, eventLimit),
  ]
  return sql`
  with ${sql.join(ctes, sql`,\n  `)}
  select ${start('id')}, ${start('fence')}, ${start('lease_expires_at')}, ${start('latest')}, ${start('digest')},
    ${start('resync')},
    (select count(*) > ${POLL_PAGE_SIZE} from page),
    ${CHANGES_JSON},
    ${start('keep_unknown')}
  from start s`
}
