// Deletes examples: from the next version on, or from all versions.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { refuseUnless, uuidArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { lockDataset } from './datasets.ts'
import {
  type ChangedDataset,
  describeWrites,
  END_ROWS,
  insertVersions,
  lockDatasetsOf,
  targets,
} from './example-versions.ts'
import type * as schema from './examples.schema.ts'

type ExampleParams = z.output<typeof schema.ExampleRef>

export const deleteExample = verb('datasets:update', async (ctx, { example_id }: ExampleParams) =>
  endExamples(ctx, [example_id]),
)

export const deleteExamples = verb(
  'datasets:update',
  async (ctx, input: z.output<typeof schema.ExampleIds>) => endExamples(ctx, input.example_ids),
  { byPolicy: true },
)

/** Succeeds, and makes no version, if the latest version has no longer the example. */
export const deleteExampleOfDataset = verb(
  'datasets:update',
  async (ctx, { dataset_id, example_id }: z.output<typeof schema.ExampleOfDatasetRef>): Promise<void> => {
    const ofDataset = sql`
        select from examples e
        where e.tenant_id = current_tenant()
          and e.dataset_id = ${dataset_id}::uuid
          and e.id = ${example_id}::uuid`
    const ctesBefore = [
      sql`given as (select ${example_id}::uuid as id where exists (${ofDataset} and e.until is null))`,
      targets(dataset_id, refuseUnless('example_not_found', sql`exists (${ofDataset})`)),
      sql`ended as (
      ${END_ROWS}
      returning e.id
    )`,
    ]
    const change = sql<ChangedDataset>`
      update datasets d
      set examples_at = case when e.count > 0 then t.at else d.examples_at end,
        example_count = d.example_count - e.count
      from target t, (select count(*) as count from ended) e
      where d.id = t.id and d.tenant_id = t.tenant_id
      returning d.id, d.examples_at as as_of, e.count`
    const event = sql`case when changed.count > 0 then 'dataset.examples_deleted' end`
    const data = sql`json_build_object('count', changed.count)`
    const parts = { ctesBefore, ctesAfter: [insertVersions(sql`changed.count > 0`)], lock: lockDataset(dataset_id) }
    requireRow(await commit(ctx, event, change, data, parts), 'dataset_not_found')
  },
)

/** `hard_delete` erases the examples, for which a key needs the permission to delete datasets. */
export const eraseExamples = verb(
  'datasets:delete',
  async (ctx, input: z.output<typeof schema.DeletedExamples>) =>
    input.hard_delete ? eraseRows(ctx, input.example_ids) : endExamples(ctx, input.example_ids),
  { byPolicy: true },
)

/** The versions before this one still have them. */
async function endExamples(ctx: Ctx, ids: string[]) {
  const ctesBefore = [
    sql`given as (select unnest(${uuidArray(ids)}) as id)`,
    targets(undefined, sql`true`),
    sql`ended as (
      ${END_ROWS}
      returning e.id, e.dataset_id
    )`,
  ]
  const change = sql<ChangedDataset>`
      update datasets d
      set examples_at = t.at,
        example_count = d.example_count - (select count(*) from ended e where e.dataset_id = d.id)
      from target t
      where d.id = t.id and d.tenant_id = t.tenant_id
      returning d.id, d.examples_at as as_of, (select count(*) from ended e where e.dataset_id = d.id) as count`
  const parts = { ctesBefore, ctesAfter: [insertVersions(sql`true`)], lock: lockDatasetsOf(ids) }
  const changed = await commit(
    ctx,
    'dataset.examples_deleted',
    change,
    sql`json_build_object('count', changed.count)`,
    parts,
  )
  requireRow(changed, 'example_not_found')
  return describeWrites(changed, ids)
}

/** Deletes the examples from all versions. The schedule deletes the attachments. */
async function eraseRows(ctx: Ctx, ids: string[]) {
  const erasable = sql`e.tenant_id = current_tenant() and e.id = any(${uuidArray(ids)})`
  const lock = sql`
    select
    from datasets
    where tenant_id = current_tenant() and id in (select e.dataset_id from examples e where ${erasable})
    order by id
    for update`
  const unknown = sql`(
        select string_agg(g.id::text, ', ')
        from unnest(${uuidArray(ids)}) as g(id)
        where not exists (select from examples e where e.tenant_id = current_tenant() and e.id = g.id)
      )`
  const erased = sql`erased as (
      delete from examples e
      where ${erasable} and case when ${unknown} is null then true else refuse('example_not_found', ${unknown}) end
      returning e.id, e.dataset_id, e.until, e.contents_id
    )`
  const contents = sql`contents as (
      delete from example_contents c
      where c.tenant_id = current_tenant() and c.id in (select contents_id from erased)
    )`
  const change = sql<ChangedDataset>`
      update datasets d
      set example_count = d.example_count - e.current
      from (
        select dataset_id, count(distinct id) as count, count(*) filter (where until is null) as current
        from erased
        group by dataset_id
      ) e
      where d.id = e.dataset_id and d.tenant_id = current_tenant()
      returning d.id, d.examples_at as as_of, e.count`
  const data = sql`json_build_object('count', changed.count, 'hard_delete', true)`
  const changed = await commit(ctx, 'dataset.examples_deleted', change, data, { ctesBefore: [erased, contents], lock })
  requireRow(changed, 'example_not_found')
  return describeWrites(changed, ids)
}
