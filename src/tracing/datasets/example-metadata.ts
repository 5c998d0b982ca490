// Changes the metadata of examples of one dataset: which splits they are in, and single members.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { refuseUnless, uuidArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { lockDataset } from './datasets.ts'
import { END_ROWS, insertVersions, NEXT_VERSION } from './example-versions.ts'
import type { DatasetRef } from './schema.ts'
import type * as schema from './versions.schema.ts'

type DatasetParams = z.output<typeof DatasetRef>

export const changeSplit = verb(
  'datasets:update',
  async (ctx, { dataset_id, split_name, examples, remove }: DatasetParams & schema.SplitChange) => {
    const operation = remove ? 'ARRAY_REMOVE' : 'ARRAY_ADD'
    return changeMetadataOf(ctx, dataset_id, examples, [{ key: 'dataset_split', operation, values: [split_name] }])
  },
)

/** Examples that the dataset does not have are named in the answer. */
export const changeMetadata = verb(
  'datasets:update',
  async (ctx, { dataset_id, example_ids, operations }: DatasetParams & schema.MetadataChange) => {
    const changed = new Set(await changeMetadataOf(ctx, dataset_id, example_ids, operations))
    const statuses = example_ids.map(id =>
      changed.has(id)
        ? { id, status: 'UPDATED' as const }
        : { id, status: 'NOT_FOUND' as const, description: 'The dataset has no such example.' },
    )
    return { statuses }
  },
)

/** Returns the examples that exist, and makes no version if there are none. */
async function changeMetadataOf(
  ctx: Ctx,
  dataset_id: string,
  ids: string[],
  operations: schema.MetadataOperation[],
): Promise<string[]> {
  requireModestChange(ids, operations)
  const { steps, changed } = chainOperations(operations)
  const ctesBefore = [
    sql`given as (select distinct id from unnest(${uuidArray(ids)}) as g(id))`,
    sql`target as (
      select d.id, d.tenant_id, ${NEXT_VERSION} as at
      from datasets d
      where d.id = ${dataset_id}::uuid and d.tenant_id = current_tenant()
    )`,
    sql`ended as (
      ${END_ROWS}
      returning e.*
    )`,
    sql`inserted as (
      insert into examples (
        id, organization_id, tenant_id, dataset_id, since, number, contents_id, metadata, source_run_id, attachments,
        object_ids, created_at
      )
      select
        e.id, e.organization_id, e.tenant_id, e.dataset_id, e.until, e.number, e.contents_id, ${changed},
        e.source_run_id, e.attachments, e.object_ids, e.created_at
      from ended e
      ${steps}
      where ${refuseUnless('example_metadata_full', sql`octet_length(${changed}::text) <= ${MAX_METADATA_BYTES}`)}
      returning id
    )`,
  ]
  const change = sql<{ id: string; ids: string[] | null }>`
      update datasets d
      set examples_at = case when i.ids is null then d.examples_at else t.at end
      from target t, (select json_agg(id) as ids from inserted) i
      where d.id = t.id and d.tenant_id = t.tenant_id
      returning d.id, d.examples_at as as_of, i.ids`
  const data = sql`json_build_object('count', coalesce(json_array_length(changed.ids), 0))`
  const parts = { ctesBefore, ctesAfter: [insertVersions(sql`changed.ids is not null`)], lock: lockDataset(dataset_id) }
  return requireRow(await commit(ctx, 'dataset.examples_updated', change, data, parts), 'dataset_not_found').ids ?? []
}

/** The limit is above that of a request, because Postgres writes spaces. */
const MAX_METADATA_BYTES = 128 * 1024
/** Every example gets a copy of the values that the operations set. */
const MAX_STORED_LENGTH = 16 * 1024 * 1024
function requireModestChange(ids: string[], operations: schema.MetadataOperation[]): void {
  if (JSON.stringify(operations).length * ids.length <= MAX_STORED_LENGTH) return
  const msg = `stores more than ${MAX_STORED_LENGTH} characters, times the examples; change fewer in one request`
  throw invalidRequest([{ type: 'too_big', loc: ['body', 'operations'], msg }])
}

/** Each step reads the metadata of the one before. `offset 0` keeps Postgres from merging them, which repeats it. */
function chainOperations(operations: schema.MetadataOperation[]): { steps: SQL; changed: SQL } {
  let changed = sql`e.metadata`
  const steps = operations.map((operation, i) => {
    const step = sql.identifier(`step_${i}`)
    const join = sql`cross join lateral (select ${applyOperation(changed, operation)} as metadata offset 0) ${step}`
    changed = sql`${step}.metadata`
    return join
  })
  return { steps: sql.join(steps, sql` `), changed }
}

function applyOperation(metadata: SQL, { key, value, values, ...given }: schema.MetadataOperation): SQL {
  const operation = given.operation.toUpperCase()
  const set = (member: SQL) => sql`${metadata} || jsonb_build_object(${key}::text, ${member})`
  if (operation === 'SET') return set(sql`${JSON.stringify(value ?? null)}::jsonb`)
  const listed = sql`${JSON.stringify(values ?? [])}::jsonb`
  // A value that is no list counts as an empty one.
  const items = sql`jsonb_array_elements(
            case when jsonb_typeof(${metadata} -> ${key}) = 'array' then ${metadata} -> ${key} else '[]' end
            ${operation === 'ARRAY_ADD' ? sql`|| ${listed}` : sql``}
          ) with ordinality as i(item, place)`
  const kept = operation === 'ARRAY_ADD' ? sql`true` : sql`not ${listed} @> jsonb_build_array(item)`
  return set(sql`(
          select coalesce(jsonb_agg(item order by place), '[]')
          from (
            select item, min(place) as place
            from ${items}
            where ${kept}
            group by item
          ) kept
        )`)
}
