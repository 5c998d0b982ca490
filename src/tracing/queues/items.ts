// Reads, changes and deletes the items of annotation queues.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run, uuidArray } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { PAGE_PAYLOAD_BYTES, RUN_PAYLOAD_BYTES } from '../runs/object-links.ts'
import { columnsOf, DEFAULT_SELECT, FULL_SELECT } from '../runs/run-wire.ts'
import { showRuns } from '../runs/runs.ts'
import { isBeforeCursor, isFromCursor, isInSection, sectionedItems } from './item-sections.ts'
import { cursorAt, ITEM_JSON, itemToWire, reviewToWire, type SectionedRow } from './item-wire.ts'
import * as schema from './items.schema.ts'
import type { QueueRef } from './schema.ts'

type QueueParams = z.output<typeof QueueRef>
type ItemParams = { queue_id: string; item_id: string }

const isQueue = (id: string): SQL => sql`q.id = ${id}::uuid`
const all = (conditions: (SQL | undefined)[]): SQL =>
  sql.join([sql`true`, ...conditions.filter(condition => condition !== undefined)], sql` and `)
const IN_ORDER = sql`i.effective_added_at, i.place`
const BACKWARDS = sql`i.effective_added_at desc, i.place desc`

type Page = { condition: SQL; limit: number; offset?: number; order?: SQL }

/** Fails if there is no such queue. */
async function readItems(ctx: Ctx, queue_id: string, page: Page): Promise<SectionedRow[]> {
  const statement = sql<Row>`
    with ${sectionedItems(isQueue(queue_id))},
    page as (
      select i.*
      from items i
      where ${page.condition}
      order by ${page.order ?? IN_ORDER}
      limit ${page.limit}
      offset ${page.offset ?? 0}
    )
    select case when i.id is not null then ${ITEM_JSON} end
    from queue q
    left join page i on true
    order by ${page.order ?? IN_ORDER}` as SQL<Row>
  const rows = await run(ctx, statement)
  requireRow(rows, 'queue_not_found')
  return rows.flatMap(([json]) => (json === null ? [] : [JSON.parse(json as string) as SectionedRow]))
}

async function countItems(ctx: Ctx, queue_id: string, condition: SQL): Promise<number> {
  const statement = sql<Row>`
    with ${sectionedItems(isQueue(queue_id))}
    select (select count(*) from items i where ${condition})
    from queue` as SQL<Row>
  return Number(requireRow(await run(ctx, statement), 'queue_not_found')[0])
}

// ---- runs

const IS_RUN = sql`i.run_id is not null`

/** The second trip reads the runs, which may be in another store. An expired run is left out. */
async function showReviewedRuns(
  ctx: Ctx,
  items: SectionedRow[],
  select = DEFAULT_SELECT,
  maxBytes = PAGE_PAYLOAD_BYTES,
): Promise<schema.ReviewedRun[]> {
  if (items.length === 0) return []
  const query = { order: 'asc' as const, limit: items.length, columns: columnsOf(select) }
  const ids = items.map(({ run_id }) => run_id!)
  const { runs } = await ctx.traces.query(ctx, { ids, ...query })
  const shown = new Map((await showRuns(ctx, runs, select, maxBytes)).map(one => [one.id, one]))
  return items.flatMap(item => {
    const one = shown.get(item.run_id!)
    return one ? [{ ...one, queue_run_id: item.id, ...reviewToWire(item) }] : []
  })
}

export const listQueueRuns = verb(
  'annotation-queues:read',
  async (ctx, { queue_id, status, archived, limit, offset }: QueueParams & schema.RunListQuery) => {
    const isArchived = archived === undefined ? undefined : sql`(i.section = 'archived') = ${archived}::boolean`
    const condition = all([IS_RUN, status && isInSection(schema.toSection(status)), isArchived])
    return showReviewedRuns(ctx, await readItems(ctx, queue_id, { condition, limit, offset }))
  },
)

export const readQueueRun = verb(
  'annotation-queues:read',
  async (ctx, { queue_id, index }: z.output<typeof schema.RunIndex>) => {
    const page = { condition: all([IS_RUN, isInSection('needs_my_review')]), limit: 1, offset: index }
    const items = await readItems(ctx, queue_id, page)
    const [shown] = await showReviewedRuns(ctx, items, FULL_SELECT, RUN_PAYLOAD_BYTES)
    if (!shown) throw fail('queue_item_not_found')
    return shown
  },
)

export const countQueueRuns = verb(
  'annotation-queues:read',
  async (ctx, { queue_id, status = 'needs_my_review' }: QueueParams & z.output<typeof schema.SizeQuery>) => ({
    size: await countItems(ctx, queue_id, isInSection(schema.toSection(status))),
  }),
)

export const countAllQueueRuns = verb('annotation-queues:read', async (ctx, { queue_id }: QueueParams) => ({
  size: await countItems(ctx, queue_id, sql`true`),
}))

const archivedWithin = ({ start_time, end_time }: z.output<typeof schema.ArchivedQuery>): SQL[] => [
  ...(start_time ? [sql`i.completed_at > ${start_time}::timestamptz`] : []),
  ...(end_time ? [sql`i.completed_at < ${end_time}::timestamptz`] : []),
]

export const countArchivedQueueRuns = verb(
  'annotation-queues:read',
  async (ctx, { queue_id, ...times }: QueueParams & z.output<typeof schema.ArchivedQuery>) => ({
    size: await countItems(ctx, queue_id, all([isInSection('archived'), ...archivedWithin(times)])),
  }),
)

// ---- items

const beganWithin = ({ min_start_time: from, max_start_time: to }: Partial<schema.ItemQuery>): (SQL | undefined)[] => [
  from === undefined ? undefined : sql`i.start_time >= ${from}::timestamptz`,
  to === undefined ? undefined : sql`i.start_time <= ${to}::timestamptz`,
]

export const listQueueItems = verb(
  'annotation-queues:read',
  async (
    ctx,
    { queue_id, status, item_type, cursor, direction, page_size, ...bounds }: QueueParams & schema.ItemQuery,
  ) => {
    const isBackward = direction === 'backward'
    const condition = all([
      isInSection(status),
      item_type && sql`(i.run_id is null) = ${item_type === 'THREAD'}::boolean`,
      cursor && (isBackward ? isBeforeCursor(cursor) : isFromCursor(cursor)),
      ...beganWithin(bounds),
    ])
    // One more, which the next page begins with. Backwards, a page ends before the first of this one.
    const rows = await readItems(ctx, queue_id, {
      condition,
      limit: page_size + 1,
      ...(isBackward && { order: BACKWARDS }),
    })
    const shown = rows.slice(0, page_size)
    const next = rows.length > page_size ? (isBackward ? shown.at(-1)! : rows.at(-1)!) : undefined
    if (isBackward) shown.reverse()
    return {
      items: shown.map(row => ({ ...itemToWire(row), ...reviewToWire(row) })),
      next_cursor: next ? schema.writeCursor(cursorAt(next)) : null,
    }
  },
)

export const countQueueItems = verb(
  'annotation-queues:read',
  async (ctx, { queue_id, status, ...times }: QueueParams & schema.CountQuery) => {
    const condition = all([
      status === 'all' ? undefined : isInSection(status),
      ...(status === 'archived' ? archivedWithin(times) : []),
      ...beganWithin(times),
    ])
    return { count: await countItems(ctx, queue_id, condition) }
  },
)

export const placeQueueItem = verb('annotation-queues:read', async (ctx, { queue_id, item_id }: ItemParams) => {
  const statement = sql<Row>`
    with ${sectionedItems(isQueue(queue_id))}
    select ${ITEM_JSON}, (
      select count(*)
      from items o
      where o.section = i.section and (o.effective_added_at, o.place) < (i.effective_added_at, i.place)
    )
    from items i
    where i.id = ${item_id}::uuid` as SQL<Row>
  const [json, position] = requireRow(await run(ctx, statement), 'queue_item_not_found')
  const row = JSON.parse(json as string) as SectionedRow
  return {
    item_type: itemToWire(row).item_type,
    section: row.section,
    position: Number(position),
    cursor: schema.writeCursor(cursorAt(row)),
  }
})

export const placeQueueRun = verb(
  'annotation-queues:read',
  async (ctx, { queue_id, queue_run_id }: z.output<typeof schema.QueueRunRef>) => {
    const { section, position } = await placeQueueItem(ctx, { queue_id, item_id: queue_run_id })
    return { section: section === 'archived' ? ('completed' as const) : section, position }
  },
)

// ---- changes

const isItem = ({ queue_id, item_id }: ItemParams): SQL => sql`i.id = ${item_id}::uuid
      and i.queue_id = ${queue_id}::uuid
      and i.tenant_id = current_tenant()
      and exists (select from annotation_queues q where ${isQueue(queue_id)} and q.tenant_id = current_tenant())`

async function updateItem(ctx: Ctx, ref: ItemParams, { added_at, last_reviewed_time }: schema.ItemPatch) {
  const statement = sql<Row>`
    update annotation_queue_items i
    set
      added_at = coalesce(${added_at ?? null}::timestamptz, i.added_at),
      last_reviewed_time = coalesce(${last_reviewed_time ?? null}::timestamptz, i.last_reviewed_time)
    where ${isItem(ref)}
    returning ${ITEM_JSON}` as SQL<Row>
  const [json] = requireRow(await run(ctx, statement), 'queue_item_not_found')
  return itemToWire(JSON.parse(json as string))
}

export const changeQueueItem = verb(
  'annotation-queues:update',
  (ctx, { queue_id, item_id, ...patch }: ItemParams & schema.ItemPatch) =>
    updateItem(ctx, { queue_id, item_id }, patch),
)

export const changeQueueRun = verb(
  'annotation-queues:update',
  (ctx, { queue_id, queue_run_id, ...patch }: z.output<typeof schema.QueueRunRef> & schema.ItemPatch) =>
    updateItem(ctx, { queue_id, item_id: queue_run_id }, patch),
)

export const deleteQueueRun = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, queue_run_id }: z.output<typeof schema.QueueRunRef>) => {
    const ref = { queue_id, item_id: queue_run_id }
    const rows = await run(ctx, sql<Row>`delete from annotation_queue_items i where ${isItem(ref)} returning i.id`)
    return { id: requireRow(rows, 'queue_item_not_found')[0] as string }
  },
)

/** An item that the queue does not have is no fault. */
async function deleteItems(ctx: Ctx, queue_id: string, condition: SQL): Promise<string[]> {
  const statement = sql<Row>`
    with queue as (
      select q.id
      from annotation_queues q
      where ${isQueue(queue_id)} and q.tenant_id = current_tenant()
    ),
    deleted as (
      delete from annotation_queue_items i
      using queue q
      where i.queue_id = q.id and i.tenant_id = current_tenant() and ${condition}
      returning i.id
    )
    select d.id
    from queue q
    left join deleted d on true` as SQL<Row>
  const rows = await run(ctx, statement)
  requireRow(rows, 'queue_not_found')
  return rows.flatMap(([id]) => (id === null ? [] : [id as string]))
}

export const deleteQueueRuns = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, delete_all, run_ids, exclude_run_ids }: QueueParams & schema.DeletedRuns) => {
    const isAny = (ids: string[]) => sql`(i.id = any(${uuidArray(ids)}) or i.run_id = any(${uuidArray(ids)}))`
    const condition = delete_all ? sql`not coalesce(${isAny(exclude_run_ids ?? [])}, false)` : isAny(run_ids ?? [])
    return { ids: await deleteItems(ctx, queue_id, condition) }
  },
)

export const deleteQueueItems = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, item_ids }: QueueParams & z.output<typeof schema.ItemIds>) => ({
    ids: await deleteItems(ctx, queue_id, sql`i.id = any(${uuidArray(item_ids)})`),
  }),
)
