// Copies examples of one dataset into another one of the workspace.
import { type SQL, sql } from 'drizzle-orm'
import { refuseUnless, run, textArray, uuidArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { lockDataset } from './datasets.ts'
import type { CheckedExample } from './example-schema.ts'
import { type ChangedDataset, insertVersions, NEXT_VERSION, writeChecked } from './example-versions.ts'
import { MAX_DATASET_EXAMPLES } from './examples.schema.ts'
import type * as schema from './versions.schema.ts'
import { timeOf } from './versions.ts'

/** A copy is one statement, which has a few seconds. */
const MAX_COPIES = 10_000
const MAX_COPIED_BYTES = 64 * 1024 * 1024

type Copies = ChangedDataset & { copies: { id: string; source_example_id: string }[] | null }

/** Both datasets are rows that the caller may clone. */
export const cloneDataset = verb(
  'datasets:clone',
  async (ctx, input: schema.Clone) => {
    let { as_of } = input
    const readContents = async (): Promise<CheckedExample[]> => {
      const rows = await run(ctx, selectContents({ ...input, as_of }))
      // The version that is compared with the schemas is the one that is copied, also if the source changes meanwhile.
      if (rows[0]) as_of = { time: rows[0][0] }
      return rows.map(([, id, inputs, outputs]) => ({
        inputs,
        outputs: outputs ?? undefined,
        loc: { inputs: ['source', id, 'inputs'], outputs: ['source', id, 'outputs'] },
      }))
    }
    const copy = (hasSchemas: SQL) => copyExamples(ctx, { ...input, as_of }, hasSchemas)
    const { copies } = requireRow(await writeChecked(readContents, copy), 'dataset_not_found')
    return copies ?? []
  },
  { byPolicy: true },
)

/** Selects rows `e` of the examples of `source`, with their contents `c`. */
const fromSource = ({ source_dataset_id, as_of, examples, split }: schema.Clone): SQL => sql`
      from (
        select d.id, d.tenant_id, ${timeOf(as_of)} as at
        from datasets d
        where d.id = ${source_dataset_id}::uuid and d.tenant_id = current_tenant()
      ) source
      join examples e on e.tenant_id = source.tenant_id and e.dataset_id = source.id
        and e.since <= source.at and (e.until is null or e.until > source.at)
      join example_contents c on c.id = e.contents_id
      where ${examples.length === 0 ? sql`true` : sql`e.id = any(${uuidArray(examples)})`}
        and ${split === undefined ? sql`true` : sql`e.metadata -> 'dataset_split' ?| ${textArray(split)}`}`

const selectContents = (input: schema.Clone): SQL<[at: string, id: string, inputs: string, outputs: string | null]> =>
  sql`select source.at, e.id, c.inputs, c.outputs ${fromSource(input)} limit ${MAX_COPIES}`

/** Returns no row if there is no such source or target. */
function copyExamples(ctx: Ctx, input: schema.Clone, hasSchemas: SQL): Promise<Copies[]> {
  const { source_dataset_id, target_dataset_id, as_of } = input
  const hasVersion = as_of === undefined ? sql`true` : sql`${timeOf(as_of)} is not null`
  const isSource = sql`exists (
          select from datasets d
          where d.id = ${source_dataset_id}::uuid and d.tenant_id = current_tenant()
            and ${refuseUnless('dataset_version_not_found', hasVersion)}
        )`
  const ctesBefore = [
    sql`source_rows as materialized (
      select
        gen_random_uuid() as id, gen_random_uuid() as contents_id, e.id as source_example_id, e.number, e.metadata,
        e.source_run_id, e.attachments, e.object_ids, c.inputs, c.outputs
      ${fromSource(input)}
    )`,
    sql`size as (
      select count(*) as count, coalesce(sum(octet_length(inputs) + coalesce(octet_length(outputs), 0)), 0) as bytes
      from source_rows
    )`,
    sql`target as (
      select d.id, d.organization_id, d.tenant_id, d.last_number, ${NEXT_VERSION} as at
      from datasets d
      cross join size
      where d.id = ${target_dataset_id}::uuid and d.tenant_id = current_tenant()
        and ${isSource}
        and ${refuseUnless('clone_too_large', sql`size.count <= ${MAX_COPIES} and size.bytes <= ${MAX_COPIED_BYTES}`)}
        and ${refuseUnless('examples_full', sql`d.example_count + size.count <= ${MAX_DATASET_EXAMPLES}`)}
        and ${hasSchemas}
    )`,
    sql`contents as (
      insert into example_contents (id, organization_id, tenant_id, dataset_id, inputs, outputs)
      select s.contents_id, t.organization_id, t.tenant_id, t.id, s.inputs, s.outputs
      from source_rows s
      cross join target t
    )`,
    sql`inserted as (
      insert into examples (
        id, organization_id, tenant_id, dataset_id, since, number, contents_id, metadata, source_run_id, attachments,
        object_ids, created_at
      )
      select
        s.id, t.organization_id, t.tenant_id, t.id, t.at, t.last_number + row_number() over (order by s.number),
        s.contents_id, s.metadata, s.source_run_id, s.attachments, s.object_ids, t.at
      from source_rows s
      cross join target t
      returning id
    )`,
  ]
  const change = sql<Copies>`
      update datasets d
      set last_number = d.last_number + i.count, example_count = d.example_count + i.count,
        examples_at = case when i.count > 0 then t.at else d.examples_at end
      from target t, (select count(*) from inserted) i
      where d.id = t.id and d.tenant_id = t.tenant_id
      returning d.id, d.examples_at as as_of, i.count, (
        select json_agg(json_build_object('id', s.id, 'source_example_id', s.source_example_id) order by s.number)
        from source_rows s
      ) as copies`
  const data = sql`json_build_object('count', changed.count, 'source_dataset_id', ${source_dataset_id}::text)`
  const parts = {
    ctesBefore,
    ctesAfter: [insertVersions(sql`changed.count > 0`)],
    lock: lockDataset(target_dataset_id),
  }
  return commit(ctx, 'dataset.examples_created', change, data, parts)
}
