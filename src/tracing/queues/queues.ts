// Lists, creates, reads, changes and deletes annotation queues, and assigns their reviewers.
import { and, eq, getTableColumns, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import {
  bumpVersion,
  db,
  inTenant,
  lockRows,
  refuseUnless,
  run,
  uuidArray,
  versionMatches,
} from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { findRootRuns, insertItems } from './new-items.ts'
import type * as schema from './schema.ts'
import { annotationQueues, type RubricItem } from './tables.ts'

type QueueParams = z.output<typeof schema.QueueRef>
type QueueRow = typeof annotationQueues.$inferSelect & {
  total_runs: number
  reviewers: schema.Queue['assigned_reviewers']
}

const toWire = (row: QueueRow): schema.Queue & { [etagVersion]: number } => ({
  id: row.id,
  tenant_id: row.tenant_id,
  name: row.name,
  description: row.description,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  queue_type: 'single',
  default_dataset: row.default_dataset_id,
  num_reviewers_per_item: row.num_reviewers_per_item,
  enable_reservations: row.enable_reservations,
  reservation_minutes: row.reservation_minutes,
  reviewer_access_mode: row.reviewer_access_mode,
  assigned_reviewers: row.reviewers,
  metadata: row.metadata,
  tag_value_ids: row.tag_value_ids,
  source_rule_id: null,
  run_rule_id: null,
  rubric_items: row.rubric_items,
  rubric_instructions: row.rubric_instructions,
  total_runs: Number(row.total_runs),
  [etagVersion]: row.version,
})

/** Drizzle would write its columns without their table here. */
const ITEMS = sql`annotation_queue_items i where i.queue_id = annotation_queues.id and i.tenant_id = current_tenant()`
const REVIEWERS = sql<QueueRow['reviewers']>`(
  select coalesce(json_agg(
    json_build_object('id', r.id, 'name', coalesce(m.full_name, k.description), 'email', m.email)
    order by r.place
  ), '[]')
  from unnest(annotation_queues.reviewer_ids) with ordinality r(id, place)
  left join members m on m.id = r.id and m.organization_id = current_organization()
  left join api_keys k on k.id = r.id and k.organization_id = current_organization())`.mapWith(JSON.parse)
const COLUMNS = {
  ...getTableColumns(annotationQueues),
  total_runs: sql<number>`(select count(*) from ${ITEMS})`.as('total_runs'),
  reviewers: REVIEWERS.as('reviewers'),
}
const RECORD = {
  ...recordColumns(annotationQueues, [
    'name',
    'description',
    'num_reviewers_per_item',
    'enable_reservations',
    'reservation_minutes',
    'reviewer_access_mode',
    'reviewer_ids',
    'rubric_instructions',
    'rubric_items',
    'metadata',
    'tag_value_ids',
  ]),
  default_dataset: (row: SQL) => sql`${row}.default_dataset_id`,
}

const isQueue = (id: string | Placeholder): SQL => and(eq(annotationQueues.id, id), inTenant(annotationQueues))!
const lockQueue = (id: string): SQL => lockRows(annotationQueues, isQueue(id))

type SortColumn = (typeof schema.SORT_COLUMNS)[number]
const SORT: Record<SortColumn, SQL> = {
  name: sql`lower(${annotationQueues.name})`,
  created_at: sql`${annotationQueues.created_at}`,
  updated_at: sql`${annotationQueues.updated_at}`,
  total_runs: sql`total_runs`,
}

type ByValue = 'assigned_to_me' | 'queue_type' | 'sort_by' | 'sort_by_desc'
/** Each set of these members has a statement of its own. */
type QueueShape = {
  sort: { [Column in SortColumn]?: true }
  desc: true | undefined
  mine: true | undefined
  none: true | undefined
}

const pageStatement = prepareStatement((query: Placeholders<Omit<schema.QueueQuery, ByValue> & QueueShape>) => {
  const { ids, name, name_contains, tag_value_id, dataset_id, mine, none } = query
  const [column] = Object.keys(query.sort) as [SortColumn]
  const direction = query.desc ? sql`desc` : sql`asc`
  return db
    .select(COLUMNS)
    .from(annotationQueues)
    .where(
      and(
        inTenant(annotationQueues),
        ids && sql`${annotationQueues.id} = any(${ids}::uuid[])`,
        name && eq(annotationQueues.name, name),
        name_contains && sql`strpos(lower(${annotationQueues.name}), lower(${name_contains})) > 0`,
        tag_value_id && sql`${annotationQueues.tag_value_ids} @> ${tag_value_id}::uuid[]`,
        dataset_id && eq(annotationQueues.default_dataset_id, dataset_id),
        mine && sql`current_actor() = any(${annotationQueues.reviewer_ids})`,
        none && sql`false`,
      ),
    )
    .orderBy(
      sql`${SORT[column]} ${direction}`,
      ...(column === 'created_at' ? [] : [sql`${annotationQueues.created_at} desc`]),
      sql`${annotationQueues.id} ${direction}`,
    )
    .limit(query.limit)
    .offset(query.offset)
})

export const listQueues = verb(
  'annotation-queues:read',
  async (ctx, { assigned_to_me, queue_type, sort_by = 'created_at', sort_by_desc, ...query }: schema.QueueQuery) => {
    const shape: QueueShape = {
      sort: { [sort_by]: true },
      desc: sort_by_desc || undefined,
      mine: assigned_to_me || undefined,
      none: queue_type === 'pairwise' || undefined,
    }
    return (await run(ctx, pageStatement({ ...query, ...shape }))).map(toWire)
  },
  { byPolicy: true },
)

/** A statement of its own: a list without rows does not tell whether the run exists. */
const requireRun = (runs: SQL, id: string): SQL => sql`
  select ${refuseUnless(
    'run_not_found',
    sql`exists (
      select from ${runs} r
      join projects p on p.tenant_id = r.tenant_id and p.id = r.session_id
      where r.tenant_id = current_tenant() and r.id = ${id}::uuid
    )`,
  )}`

type RunParams = z.output<typeof schema.RunRef>
const queuesOfRunStatement = prepareStatement(({ run_id }: Placeholders<RunParams>) => {
  const hasRun = sql`exists (select from ${ITEMS} and i.run_id = ${run_id}::uuid)`
  return db
    .select(COLUMNS)
    .from(annotationQueues)
    .where(and(inTenant(annotationQueues), hasRun))
    .orderBy(sql`${annotationQueues.created_at} desc`, sql`${annotationQueues.id} desc`)
})

export const listQueuesOfRun = verb('annotation-queues:read', async (ctx, { run_id }: RunParams) => {
  const runs = await ctx.traces.findRuns(ctx, [run_id])
  return (await run(ctx, queuesOfRunStatement({ run_id }), requireRun(runs, run_id))).map(toWire)
})

const queueStatement = prepareStatement(({ queue_id }: Placeholders<QueueParams>) =>
  db.select(COLUMNS).from(annotationQueues).where(isQueue(queue_id)),
)

export const readQueue = verb('annotation-queues:read', async (ctx, { queue_id }: QueueParams) =>
  toWire(requireRow(await run(ctx, queueStatement({ queue_id })), 'queue_not_found')),
)

const ownDataset = (id: string): SQL<string> => sql<string>`(
  select case when count(*) = 1 then ${id}::uuid else refuse('dataset_not_found')::text::uuid end
  from datasets d
  where d.id = ${id}::uuid and d.tenant_id = current_tenant())`
/** Refuses tags that the workspace does not have, and those that the caller may not change. */
const newTags = (ids: readonly string[]): SQL => sql`require_tag_rights('{}'::uuid[], ${uuidArray(ids)})`
const changedTags = (ids: readonly string[]): SQL =>
  sql`require_tag_change(${annotationQueues.tag_value_ids}, ${uuidArray(ids)}, true)`

/** Members that have a default take it for null. */
const columnsOf = ({ default_dataset, tag_value_ids, rubric_items, ...input }: schema.QueuePatch) => ({
  ...(input.description !== undefined && { description: input.description }),
  ...(default_dataset !== undefined && { default_dataset_id: default_dataset && ownDataset(default_dataset) }),
  ...(input.num_reviewers_per_item !== undefined && { num_reviewers_per_item: input.num_reviewers_per_item }),
  ...(input.enable_reservations != null && { enable_reservations: input.enable_reservations }),
  ...(input.reservation_minutes != null && { reservation_minutes: input.reservation_minutes }),
  ...(input.reviewer_access_mode != null && { reviewer_access_mode: input.reviewer_access_mode }),
  ...(rubric_items !== undefined && { rubric_items: rubric_items as RubricItem[] | null }),
  ...(input.rubric_instructions !== undefined && { rubric_instructions: input.rubric_instructions }),
  ...(input.metadata !== undefined && { metadata: input.metadata }),
})

export const createQueue = verb(
  'annotation-queues:create',
  async (ctx, { session_ids, ...input }: schema.NewQueue) => {
    const found = session_ids?.length ? await findRootRuns(ctx, session_ids) : undefined
    const change = db
      .insert(annotationQueues)
      .values({
        ...(input.id != null && { id: input.id }),
        organization_id: sql`current_organization()`,
        tenant_id: sql`current_tenant()`,
        name: input.name,
        ...columnsOf(input),
        tag_value_ids: newTags(input.tag_value_ids ?? []),
      })
      .returning(COLUMNS)
    const parts = {
      changes: createdMembers(RECORD),
      ...(found && { ctesAfter: [found, ...insertItems(sql`changed`, true)] }),
    }
    const rows = await commit(ctx, 'annotation_queue.created', change, {}, parts)
    return toWire(requireRow(rows, 'workspace_not_found'))
  },
  { byPolicy: true },
)

export const changeQueue = verb(
  'annotation-queues:update',
  async (ctx, { queue_id, ...patch }: QueueParams & schema.QueuePatch) => {
    const { name, tag_value_ids } = patch
    const columns = {
      ...columnsOf(patch),
      ...(name != null && { name }),
      ...(tag_value_ids && { tag_value_ids: changedTags(tag_value_ids) }),
    }
    return updateQueue(ctx, queue_id, columns, Object.keys(patch))
  },
)

export async function updateQueue(ctx: Ctx, id: string, columns: object, supplied: string[]) {
  const change = db
    .update(annotationQueues)
    .set({ ...columns, ...bumpVersion(annotationQueues) })
    .where(and(isQueue(id), versionMatches(ctx, annotationQueues)))
    .returning(COLUMNS)
  const parts = { lock: lockQueue(id), changes: changedMembers(annotationQueues, RECORD) }
  const rows = await commit(ctx, 'annotation_queue.updated', change, { supplied }, parts)
  return toWire(requireRow(rows, 'queue_not_found'))
}

export const deleteQueue = verb('annotation-queues:delete', async (ctx, { queue_id }: QueueParams) => {
  const rows = await deleteRows(ctx, isQueue(queue_id))
  return { id: requireRow(rows, 'queue_not_found').id }
})

/** All of them or, if one does not exist, none. */
export const deleteQueues = verb(
  'annotation-queues:delete',
  async (ctx, input: z.output<typeof schema.QueueIds>) => {
    const ids = [...new Set(input.queue_ids)]
    const given = and(sql`${annotationQueues.id} = any(${uuidArray(ids)})`, inTenant(annotationQueues))!
    const found = sql`(select count(*) from ${annotationQueues} where ${given})`
    const isComplete = sql`case when ${found} = ${ids.length} then true else refuse('queue_not_found') end`
    const rows = await deleteRows(ctx, and(given, isComplete)!)
    requireRow(rows, 'queue_not_found')
    return { ids: rows.map(row => row.id) }
  },
  { byPolicy: true },
)

function deleteRows(ctx: Ctx, condition: SQL) {
  const change = db
    .delete(annotationQueues)
    .where(and(condition, versionMatches(ctx, annotationQueues)))
    .returning()
  const parts = { lock: lockRows(annotationQueues, condition), changes: deletedMembers(RECORD) }
  return commit(ctx, 'annotation_queue.deleted', change, {}, parts)
}
