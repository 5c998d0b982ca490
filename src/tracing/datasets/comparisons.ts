// Comparisons of experiments on one dataset.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, refuseUnless, run, uuidArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { summarizeFeedback } from '../feedback/feedback-summary.ts'
import type * as schema from './comparisons.schema.ts'
import type { DatasetRef } from './schema.ts'
import { comparativeExperiments } from './tables.ts'

/** The row that `to_json()` writes. */
type ComparisonRow = typeof comparativeExperiments.$inferSelect

const toWire = (row: ComparisonRow): schema.Comparison => ({
  id: row.id,
  tenant_id: row.tenant_id,
  name: row.name,
  description: row.description,
  reference_dataset_id: row.dataset_id,
  extra: row.extra,
  created_at: toIsoTime(row.created_at),
  modified_at: toIsoTime(row.updated_at),
})

const RECORD = recordColumns(comparativeExperiments, ['name', 'description', 'dataset_id', 'experiment_ids'])
/** Access policies that hide the dataset hide the event too. */
const ABOUT_DATASET = sql`json_build_object('dataset_id', changed.dataset_id)`

export const createComparison = verb(
  'datasets:update',
  async (ctx, input: schema.NewComparison) => {
    const ids = [...new Set(input.experiment_ids)]
    const { id, reference_dataset_id, name, description, extra } = input
    const areExperiments = sql`(
          select count(*)
          from projects p
          where p.tenant_id = current_tenant()
            and p.id = any(${uuidArray(ids)})
            and p.reference_dataset_id = d.id
        ) = ${ids.length}`
    const ofFirst = sql`(
          select p.reference_dataset_id
          from projects p
          where p.tenant_id = current_tenant() and p.id = ${ids[0]!}::uuid
        )`
    const change = sql<ComparisonRow>`
      insert into comparative_experiments (
        id, organization_id, tenant_id, dataset_id, name, description, experiment_ids, extra
      )
      select
        coalesce(${id ?? null}::uuid, gen_random_uuid()), d.organization_id, d.tenant_id, d.id, ${name ?? null}::text,
        ${description ?? null}::text, ${uuidArray(ids)}, ${extra ? JSON.stringify(extra) : null}::json
      from datasets d
      where d.tenant_id = current_tenant()
        and d.id = coalesce(${reference_dataset_id ?? null}::uuid, ${ofFirst})
        and ${refuseUnless('project_not_found', areExperiments)}
      returning *`
    const parts = { changes: createdMembers(RECORD) }
    const rows = await commit(ctx, 'comparative_experiment.created', change, ABOUT_DATASET, parts)
    return toWire(requireRow(rows, 'dataset_not_found'))
  },
  { byPolicy: true },
)

type Listed = ComparisonRow & Pick<schema.ListedComparison, 'experiments_info' | 'feedback_stats'>

export const listComparisons = verb(
  'datasets:read',
  async (ctx, { dataset_id, ...query }: z.output<typeof DatasetRef> & schema.ComparisonQuery) => {
    const { id, name, name_contains, sort_by, sort_by_desc, limit, offset } = query
    const direction = sort_by_desc ? sql`desc` : sql`asc`
    const order = sql`${sort_by === 'name' ? sql`lower(c.name)` : sql`c.created_at`} ${direction}, c.id ${direction}`
    // Selects from the dataset, to tell an unknown one from one without comparisons.
    const statement = sql<Row>`
      select to_json(c)::text
      from datasets d
      left join lateral (
        select c.*,
          (
            select coalesce(json_agg(json_build_object('id', p.id, 'name', p.name) order by x.place), '[]')
            from unnest(c.experiment_ids) with ordinality x(id, place)
            join projects p on p.tenant_id = current_tenant() and p.id = x.id
          ) as experiments_info,
          ${summarizeFeedback(sql`f.session_id = any(c.experiment_ids) and f.comparative_experiment_id = c.id`)}
            as feedback_stats
        from comparative_experiments c
        where c.dataset_id = d.id
          and c.tenant_id = d.tenant_id
          ${id ? sql`and c.id = any(${uuidArray(id)})` : sql``}
          ${name === undefined ? sql`` : sql`and c.name = ${name}`}
          ${name_contains === undefined ? sql`` : sql`and strpos(lower(c.name), lower(${name_contains})) > 0`}
        order by ${order}
        limit ${limit}
        offset ${offset}
      ) c on true
      where d.id = ${dataset_id}::uuid and d.tenant_id = current_tenant()
      order by ${order}`
    const rows = await run(ctx, statement)
    requireRow(rows, 'dataset_not_found')
    return rows
      .flatMap(([json]) => (json === null ? [] : [JSON.parse(json as string) as Listed]))
      .filter(({ id }) => id !== null)
      .map(row => ({ ...toWire(row), experiments_info: row.experiments_info, feedback_stats: row.feedback_stats }))
  },
)

/** The feedback stays. */
export const deleteComparison = verb(
  'datasets:update',
  async (ctx, { comparative_experiment_id: id }: z.output<typeof schema.ComparisonRef>) => {
    const change = sql<ComparisonRow>`
      delete from comparative_experiments c
      where c.id = ${id}::uuid
        and c.tenant_id = current_tenant()
        and exists (select from datasets d where d.id = c.dataset_id and d.tenant_id = c.tenant_id)
      returning c.*`
    const parts = { changes: deletedMembers(RECORD) }
    const rows = await commit(ctx, 'comparative_experiment.deleted', change, ABOUT_DATASET, parts)
    return { id: requireRow(rows, 'comparative_experiment_not_found').id }
  },
  { byPolicy: true },
)
