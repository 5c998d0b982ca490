// An agent asks what changed: under a lease, by cursor and digest, waiting without a connection.
import { type SQL, sql } from 'drizzle-orm'
import { LISTENER_LOST } from '../deployments/lifecycle.ts'
import { type Ctx, pauseWhileConnected, verb, withoutRateLimit } from '../kernel/context.ts'
import { type Row, run } from '../kernel/db.ts'
import { agentEventLimit, journalSystemEvents } from '../kernel/journal.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import { type Changes, POLL_PAGE_SIZE, type Poll } from '../protocol/poll.schema.ts'
import { listeners } from '../tables/listeners.ts'
import { createSeal, type Seal } from './envelope.ts'
import { acquireLease, hasLease, selectLockedLease } from './lease.ts'
import { revisionJson, type StoredWork, toWork } from './work.ts'

const [MIN_DELAY_MS, MAX_DELAY_MS] = [250, 2000]

export const poll = verb('listeners:sync', async (ctx, input: Poll): Promise<Changes> => {
  const seal = await createSeal(input.public_key)
  const end = Date.now() + input.wait * 1000
  let answer = await fetchChanges(ctx, seal, input, acquireLease(input))
  const { fence } = answer.lease
  let left = end - Date.now()
  for (
    let ms = MIN_DELAY_MS;
    isIdle(answer) && left > 0;
    ms = Math.min(ms * 2, MAX_DELAY_MS), left = end - Date.now()
  ) {
    if (!(await pauseWhileConnected(ctx, Math.min(ms, left)))) break
    const [upto] = requireRow(await run(withoutRateLimit(ctx), selectCursor({ ...input, fence })), 'listener_not_found')
    if (Number(upto) === answer.cursor) continue
    // The digest was compared at the beginning: what the agent has since reported, it need not be told. Nor is the lease renewed
    // again: whoever began this poll may be gone since, and not every host notices.
    answer = await fetchChanges(
      withoutRateLimit(ctx),
      seal,
      { ...input, digest: null },
      selectLockedLease({ ...input, fence }),
    )
  }
  return answer
})

const isIdle = ({ changes, resync }: Changes) => changes.length === 0 && !resync

/** What names no listener, whoever of the platform comes first takes up. Nobody's change, so not journaled. */
const adoptUnassigned = sql`adopted as (
  update deployments d set listener_id = (select current_listener()) where d.id in (
    select c.id from deployments c where c.listener_id is null and setting('platform') = 'true' order by c.id limit 100 for update skip locked))`

/** Whether anything has happened: a wait consists of these. */
const selectCursor = (input: Poll & { fence: number }): SQL<[string]> => sql`with ${adoptUnassigned}
  select coalesce((select c.seq from sync_cursors c where c.listener_id = current_listener()), 0) from ${listeners} where ${hasLease(input)}`

type ChangesRow = [
  ...[id: string, fence: string, expires: string, upto: string, digest: string],
  ...[again: boolean, more: boolean, changes: string | null],
]

async function fetchChanges(ctx: Ctx, seal: Seal, input: Poll, lease: SQL): Promise<Changes> {
  const row = requireRow(
    await run(ctx, selectChanges(input, lease, agentEventLimit(ctx))),
    'listener_not_found',
  ) as ChangesRow
  const [listener_id, fence, expires, upto, digest, resync, more, changed] = row
  const stored = JSON.parse(changed ?? '[]') as StoredWork[]
  const last = more ? stored.at(-1)!.seq : Number(upto)
  return {
    listener_id,
    lease: { fence: Number(fence), expires_at: toIsoTime(expires) },
    ...{ cursor: last, digest, resync, more },
    changes: await Promise.all(stored.map(one => toWork({ ctx, listener_id, seal }, one))),
  }
}

/** The revision whose turn it is; or the newest, where it was lost in the listener's silence: whoever comes back goes on with it. */
const isWantedRevision = sql`f.id = coalesce(d.in_flight_revision_id, d.latest_revision_id) and (f.id = d.in_flight_revision_id or f.status = ${LISTENER_LOST.becomes})`

/** The workspace owns the host and, unless the listener is the workspace's own, has proved it. */
const canServeHost = sql`h.verified_at is not null or h.tenant_id = (select tenant_id from leased)`

/** One statement: the lease, the page of changes behind the cursor, and an event for each revision whose secrets go out with it. */
function selectChanges({ cursor = null, digest = null }: Poll, lease: SQL, most: SQL): SQL<Row> {
  const lost = sql`(${digest}::text is not null and ${cursor}::bigint = k.upto and ${digest}::text <> k.digest)`
  const revisions = sql`select deployment_id, tenant_id, organization_id, revision from told_work
    union select deployment_id, tenant_id, organization_id, serving from told_work`
  return sql`with leased as (${lease}),
    ${adoptUnassigned},
    known as (
      select l.id, l.fence, l.lease_expires_at, coalesce(c.seq, 0) as upto, lpad(to_hex(coalesce(c.digest, 0)), 16, '0') as digest
      from leased l left join sync_cursors c on c.listener_id = l.id),
    start as (select k.*, ${cursor}::bigint is null or ${cursor}::bigint > k.upto or ${lost} as again from known k),
    page as (
      select i.* from start s join sync_items i on i.listener_id = s.id and i.seq > case when s.again then 0 else ${cursor}::bigint end
      where i.listener_id = current_listener() order by i.seq limit ${POLL_PAGE_SIZE + 1}),
    told_work as (
      select p.deployment_id, p.generation, p.seq, d.tenant_id, d.organization_id, case when d.id is not null then json_build_object(
        'tenant_id', d.tenant_id, 'name', d.name, 'deployment_type', d.deployment_type, 'source_config', d.source_config,
        'custom_url', case when ${canServeHost} then d.source_config ->> 'custom_url' end,
        'absent', d.deleting_at is not null) end as deployment,
        case when d.deleting_at is null then (${revisionJson(sql`f`)})::jsonb end as revision,
        case when d.deleting_at is null then (${revisionJson(sql`a`)})::jsonb end as serving
      from (select * from page order by seq limit ${POLL_PAGE_SIZE}) p
      left join deployments d on d.id = p.deployment_id and d.listener_id = current_listener()
      left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
      left join revisions f on ${isWantedRevision}
      left join revisions a on a.id = d.active_revision_id),
    ${journalSystemEvents(
      sql`select tenant_id, organization_id, 'revision.secrets_revealed'::text as type, (revision ->> 'id')::uuid as subject_id,
        json_build_object('deployment_id', deployment_id, 'fence', (select fence from leased)) as data
        from (${revisions}) r where json_typeof((revision -> 'sealed')::json) = 'array'`,
      sql`'listener', current_listener()`,
      sql``,
      most,
    )}
    select s.id, s.fence, s.lease_expires_at, s.upto, s.digest, s.again, (select count(*) > ${POLL_PAGE_SIZE} from page),
      (select json_agg(json_build_object('deployment_id', w.deployment_id, 'generation', w.generation, 'seq', w.seq,
        'deployment', w.deployment, 'revision', w.revision, 'serving', w.serving) order by w.seq) from told_work w)
    from start s`
}
