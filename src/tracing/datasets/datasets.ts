// Lists, creates, reads, changes and deletes datasets.
import { and, eq, getTableColumns, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inTenant, lockRows, run, uuidArray, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { requireUsableSchemas } from './example-schema.ts'
import type * as schema from './schema.ts'
import { datasets } from './tables.ts'

type DatasetParams = z.output<typeof schema.DatasetRef>
export type DatasetRow = typeof datasets.$inferSelect & {
  session_count: number
  last_session_start_time: string | null
}

const latest = (...times: (string | null)[]): string =>
  times.flatMap(time => (time === null ? [] : [toIsoTime(time)])).reduce((a, b) => (a > b ? a : b))

export const datasetToWire = (row: DatasetRow): schema.Dataset & { [etagVersion]: number } => ({
  id: row.id,
  tenant_id: row.tenant_id,
  name: row.name,
  description: row.description,
  created_at: toIsoTime(row.created_at),
  modified_at: latest(row.updated_at, row.examples_at),
  data_type: row.data_type,
  inputs_schema_definition: row.inputs_schema_definition,
  outputs_schema_definition: row.outputs_schema_definition,
  externally_managed: row.externally_managed,
  transformations: null,
  example_count: row.example_count,
  session_count: Number(row.session_count),
  last_session_start_time: toIsoTime(row.last_session_start_time),
  metadata: row.metadata,
  baseline_experiment_id: row.baseline_experiment_id,
  tag_value_ids: row.tag_value_ids,
  [etagVersion]: row.version,
})

/** Drizzle would write its columns without their table here. */
const EXPERIMENTS = sql`projects p where p.reference_dataset_id = datasets.id and p.tenant_id = datasets.tenant_id`
const COLUMNS = {
  ...getTableColumns(datasets),
  session_count: sql<number>`(select count(*) from ${EXPERIMENTS})`.as('session_count'),
  last_session_start_time: sql<string | null>`(select max(p.start_time) from ${EXPERIMENTS})`.as(
    'last_session_start_time',
  ),
}
export const DATASET_RECORD = recordColumns(datasets, [
  'name',
  'description',
  'data_type',
  'inputs_schema_definition',
  'outputs_schema_definition',
  'metadata',
  'baseline_experiment_id',
  'tag_value_ids',
])

export const isDataset = (id: string | Placeholder): SQL => and(eq(datasets.id, id), inTenant(datasets))!
export const lockDataset = (id: string): SQL => lockRows(datasets, isDataset(id))

/** Refuses tags that the workspace does not have, and those that the caller may not change. */
const newTags = (ids: readonly string[] | null | undefined): SQL =>
  sql`require_tag_rights('{}'::uuid[], ${uuidArray(ids ?? [])})`
const changedTags = (ids: readonly string[]): SQL =>
  sql`require_tag_change(${datasets.tag_value_ids}, ${uuidArray(ids)}, true)`

type SortColumn = (typeof schema.SORT_COLUMNS)[number]
const SORT: Record<SortColumn, SQL> = {
  name: sql`lower(${datasets.name})`,
  created_at: sql`${datasets.created_at}`,
  last_session_start_time: sql`last_session_start_time`,
  example_count: sql`${datasets.example_count}`,
  session_count: sql`session_count`,
  modified_at: sql`greatest(${datasets.updated_at}, ${datasets.examples_at})`,
}

/** Each column and direction has a statement of its own. */
type DatasetOrder = { sort: { [Column in SortColumn]?: true }; desc: true | undefined }
type DatasetPage = Omit<schema.DatasetQuery, 'sort_by' | 'sort_by_desc'> & DatasetOrder

const pageStatement = prepareStatement((query: Placeholders<DatasetPage>) => {
  const { id, name, name_contains, data_type, metadata, tag_value_id } = query
  const [column] = Object.keys(query.sort) as [SortColumn]
  const direction = query.desc ? sql`desc nulls last` : sql`asc nulls last`
  return db
    .select(COLUMNS)
    .from(datasets)
    .where(
      and(
        inTenant(datasets),
        id && sql`${datasets.id} = any(${id}::uuid[])`,
        name && eq(datasets.name, name),
        name_contains && sql`strpos(lower(${datasets.name}), lower(${name_contains})) > 0`,
        data_type && sql`${datasets.data_type} = any(${data_type}::text[])`,
        metadata && sql`${datasets.metadata} @> ${metadata}::jsonb`,
        tag_value_id && sql`${datasets.tag_value_ids} @> ${tag_value_id}::uuid[]`,
      ),
    )
    .orderBy(sql`${SORT[column]} ${direction}`, sql`${datasets.created_at} desc`, sql`${datasets.id} desc`)
    .limit(query.limit)
    .offset(query.offset)
})

export async function findDatasets(ctx: Ctx, query: schema.DatasetQuery): Promise<schema.Dataset[]> {
  const { sort_by = 'last_session_start_time', sort_by_desc, ...filters } = query
  const order: DatasetOrder = { sort: { [sort_by]: true }, desc: sort_by_desc || undefined }
  return (await run(ctx, pageStatement({ ...filters, ...order }))).map(datasetToWire)
}

export const listDatasets = verb('datasets:read', findDatasets, { byPolicy: true })

const datasetStatement = prepareStatement(({ dataset_id }: Placeholders<DatasetParams>) =>
  db.select(COLUMNS).from(datasets).where(isDataset(dataset_id)),
)

export const readDataset = verb('datasets:read', async (ctx, { dataset_id }: DatasetParams) =>
  datasetToWire(requireRow(await run(ctx, datasetStatement({ dataset_id })), 'dataset_not_found')),
)

/** `more` are columns that follow from the examples of the dataset. */
export const insertDataset = ({ extra, ...input }: schema.NewDataset, more: Record<string, unknown> = {}) =>
  db
    .insert(datasets)
    .values({
      ...(input.id != null && { id: input.id }),
      organization_id: sql`current_organization()`,
      tenant_id: sql`current_tenant()`,
      name: input.name,
      description: input.description ?? null,
      data_type: input.data_type ?? 'kv',
      inputs_schema_definition: input.inputs_schema_definition ?? null,
      outputs_schema_definition: input.outputs_schema_definition ?? null,
      externally_managed: input.externally_managed ?? false,
      metadata: extra?.metadata ?? null,
      tag_value_ids: newTags(input.tag_value_ids),
      ...more,
    })
    .returning(COLUMNS)

export const createDataset = verb('datasets:create', async (ctx, input: schema.NewDataset) => {
  await requireUsableSchemas(input)
  const rows = await commit(
    ctx,
    'dataset.created',
    insertDataset(input),
    {},
    { changes: createdMembers(DATASET_RECORD) },
  )
  return datasetToWire(requireRow(rows, 'workspace_not_found'))
})

export const changeDataset = verb(
  'datasets:update',
  async (ctx, { dataset_id, ...patch }: DatasetParams & schema.DatasetPatch) => {
    await requireUsableSchemas(patch)
    const { tag_value_ids, baseline_experiment_id, ...columns } = patch
    const change = db
      .update(datasets)
      .set({
        ...columns,
        ...(baseline_experiment_id !== undefined && { baseline_experiment_id }),
        ...(tag_value_ids && { tag_value_ids: changedTags(tag_value_ids) }),
        ...bumpVersion(datasets),
      })
      .where(
        and(
          isDataset(dataset_id),
          versionMatches(ctx, datasets),
          baseline_experiment_id ? isExperimentOfDataset(baseline_experiment_id) : undefined,
        ),
      )
      .returning(COLUMNS)
    const parts = { lock: lockDataset(dataset_id), changes: changedMembers(datasets, DATASET_RECORD) }
    const rows = await commit(ctx, 'dataset.updated', change, { supplied: Object.keys(patch) }, parts)
    return datasetToWire(requireRow(rows, 'dataset_not_found'))
  },
)

const isExperimentOfDataset = (id: string): SQL => sql`case
  when exists (select from ${EXPERIMENTS} and p.id = ${id}::uuid) then true
  else refuse('project_not_found')
end`

export const deleteDataset = verb('datasets:delete', async (ctx, { dataset_id }: DatasetParams) => {
  const rows = await deleteRows(ctx, isDataset(dataset_id))
  return { id: requireRow(rows, 'dataset_not_found').id }
})

/** All of them or, if one does not exist, none. */
export const deleteDatasets = verb(
  'datasets:delete',
  async (ctx, input: z.output<typeof schema.DatasetIds>) => {
    const ids = [...new Set(input.dataset_ids)]
    const given = and(sql`${datasets.id} = any(${uuidArray(ids)})`, inTenant(datasets))!
    const found = sql`(select count(*) from ${datasets} where ${given})`
    const isComplete = sql`case when ${found} = ${ids.length} then true else refuse('dataset_not_found') end`
    const rows = await deleteRows(ctx, and(given, isComplete)!)
    requireRow(rows, 'dataset_not_found')
    return { ids: rows.map(row => row.id) }
  },
  { byPolicy: true },
)

function deleteRows(ctx: Ctx, condition: SQL) {
  const change = db
    .delete(datasets)
    .where(and(condition, versionMatches(ctx, datasets)))
    .returning()
  const parts = { lock: lockRows(datasets, condition), changes: deletedMembers(DATASET_RECORD) }
  return commit(ctx, 'dataset.deleted', change, {}, parts)
}
