// Adds runs and threads to annotation queues. Those that a queue has already stay as they are.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { StoredRun } from '../store/queries.ts'
import { ITEM_JSON, type ItemRow, itemToWire } from './item-wire.ts'
import type * as schema from './items.schema.ts'
import { MAX_ITEMS, type QueueRef } from './schema.ts'

type QueueParams = z.output<typeof QueueRef>

/** Two requests must not both take the last place. */
export const lockQueue = (id: string): SQL => sql`
  select from annotation_queues q
  where q.id = ${id}::uuid and q.tenant_id = current_tenant()
  for no key update`

/** The number of further items that the queue takes. */
export const roomOf = (queueId: SQL): SQL => sql`(
        ${MAX_ITEMS} - (
          select count(*)
          from annotation_queue_items i
          where i.queue_id = ${queueId} and i.tenant_id = current_tenant()
        )
      )`

/** Rows `found`: the runs to add to a queue. */
const FOUND = sql`
        place integer, run_id uuid, thread_id text, session_id uuid, trace_id uuid, start_time timestamptz,
        source_proposed_example_id uuid`
const readFound = (runs: StoredRun[]): SQL => {
  const rows = runs.map(({ id, session_id, trace_id, start_time }, place) => ({
    place,
    run_id: id,
    session_id,
    trace_id,
    start_time,
  }))
  return sql`select * from json_to_recordset(${JSON.stringify(rows)}::json) as g(${FOUND})`
}

/** CTEs `existing`, `added` and `extended`. `queue` has an `id`, and `found` are rows for it. */
export const insertItems = (queue: SQL, extendsRetention: boolean): SQL[] => [
  sql`existing as (
      select i.*
      from ${queue} q
      cross join found f
      join annotation_queue_items i on i.queue_id = q.id and i.run_id = f.run_id
      where i.tenant_id = current_tenant()
      union all
      select i.*
      from ${queue} q
      cross join found f
      join annotation_queue_items i on i.queue_id = q.id and i.session_id = f.session_id and i.thread_id = f.thread_id
      where i.tenant_id = current_tenant()
    )`,
  sql`added as (
      insert into annotation_queue_items (
        queue_id, organization_id, tenant_id, session_id, run_id, trace_id, start_time, thread_id,
        source_proposed_example_id, extends_retention, check_at
      )
      select
        q.id, current_organization(), current_tenant(), f.session_id, f.run_id, f.trace_id, f.start_time, f.thread_id,
        f.source_proposed_example_id, ${extendsRetention} and f.run_id is not null,
        clock() + kept_for(case when f.run_id is null then 'longlived' else 'shortlived' end)
      from ${queue} q
      cross join found f
      where case
          when (select count(*) from found) - (select count(*) from existing) <= ${roomOf(sql`q.id`)} then true
          else refuse('queue_full')
        end
      order by f.place
      on conflict do nothing
      returning *
    )`,
  sql`extended as (
      update annotation_queue_items i
      set extends_retention = true
      from existing e
      where ${extendsRetention}
        and i.id = e.id
        and i.tenant_id = current_tenant()
        and i.run_id is not null
        and not i.extends_retention
    )`,
]

/** All of them. Returns those that the queue has now. */
async function addItems(ctx: Ctx, queue_id: string, found: SQL, extendsRetention: boolean): Promise<ItemRow[]> {
  const statement = sql<Row>`
    with queue as (
      select q.id
      from annotation_queues q
      where q.id = ${queue_id}::uuid and q.tenant_id = current_tenant()
    ),
    ${found},
    ${sql.join(insertItems(sql`queue`, extendsRetention), sql`, `)}
    select case when i.id is not null then ${ITEM_JSON} end
    from queue q
    left join (select * from existing union all select * from added) i on true
    order by i.place` as SQL<Row>
  const rows = await run(ctx, statement, lockQueue(queue_id))
  requireRow(rows, 'queue_not_found')
  return rows.flatMap(([json]) => (json === null ? [] : [JSON.parse(json as string) as ItemRow]))
}

type Given = schema.NewItems['items'][number]

const toRow = (item: Given, place: number) => ({
  place,
  run_id: item.item_type === 'RUN' ? item.run_id : null,
  thread_id: item.item_type === 'THREAD' ? item.thread_id : null,
  session_id: item.project_id ?? item.session_id ?? null,
  start_time: item.start_time ?? null,
  source_proposed_example_id: item.source_proposed_example_id ?? null,
})

/** All of them or, if one does not exist, none. */
async function addGivenItems(ctx: Ctx, queue_id: string, given: Given[], extendsRetention: boolean) {
  const rows = given.map(toRow)
  const runs = await ctx.traces.findRuns(ctx, [...new Set(rows.flatMap(({ run_id }) => run_id ?? []))])
  const isSame = sql`g.run_id, g.thread_id, case when g.run_id is null then g.session_id end`
  const found = sql`given as (
      select distinct on (${isSame}) g.*
      from json_to_recordset(${JSON.stringify(rows)}::json) as g(${FOUND})
      order by ${isSame}, g.place
    ),
    found as (
      select
        g.place, g.run_id, g.thread_id, g.source_proposed_example_id, r.trace_id,
        coalesce(r.session_id, p.id) as session_id, coalesce(r.start_time, g.start_time) as start_time
      from given g
      left join lateral (
        select s.session_id, s.trace_id, s.start_time
        from ${runs} s
        join projects o on o.tenant_id = s.tenant_id and o.id = s.session_id
        where s.tenant_id = current_tenant()
          and s.id = g.run_id
          and s.session_id = coalesce(g.session_id, s.session_id)
          and s.name is not null
        limit 1
      ) r on true
      left join projects p on g.run_id is null and p.tenant_id = current_tenant() and p.id = g.session_id
      where case
          when g.run_id is not null and r.session_id is null then refuse('run_not_found', g.run_id::text)
          when g.run_id is null and p.id is null then refuse('project_not_found', g.session_id::text)
          else true
        end
    )`
  return addItems(ctx, queue_id, found, extendsRetention)
}

const toQueueRun = (row: ItemRow): z.output<typeof schema.QueueRun> => ({
  id: row.id,
  queue_id: row.queue_id,
  run_id: row.run_id!,
  added_at: toIsoTime(row.added_at),
  last_reviewed_time: toIsoTime(row.last_reviewed_time),
  source_proposed_example_id: row.source_proposed_example_id,
})

type Retention = z.output<typeof schema.Retention>

export const addRuns = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, runs, extend_trace_retention }: QueueParams & Retention & schema.AddedRuns) => {
    const items = runs.map(one => ({ item_type: 'RUN' as const, ...one }))
    return (await addGivenItems(ctx, queue_id, items, extend_trace_retention)).map(toQueueRun)
  },
)

export const addQueueItems = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, items, extend_trace_retention }: QueueParams & Retention & schema.NewItems) => ({
    items: (await addGivenItems(ctx, queue_id, items, extend_trace_retention)).map(itemToWire),
  }),
)

/** A CTE `found` of the root runs of projects, such as experiments. A trip of its own, because of other stores. */
export async function findRootRuns(ctx: Ctx, projects: string[]): Promise<SQL> {
  const query = { projects, is_root: true, order: 'asc' as const, limit: MAX_ITEMS + 1, columns: [] }
  const { runs, hasAllProjects } = await ctx.traces.query(ctx, query)
  if (!hasAllProjects) throw fail('project_not_found')
  return sql`found as (${readFound(runs)})`
}

export const populateQueue = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, session_ids }: z.output<typeof schema.Populate>) => {
    const found = await findRootRuns(ctx, session_ids)
    return { size: (await addItems(ctx, queue_id, found, true)).length }
  },
  { byPolicy: true },
)
