// The common part of writes of examples. Each is one statement, which makes a version of the dataset. The row of an
// example is never updated: a version ends it and begins another one.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from '../../kernel/db/db.ts'
import { toIsoTime } from '../../kernel/db/rows.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { lockDataset } from './datasets.ts'
import { type CheckedExample, requireMatchingExamples } from './example-schema.ts'
import type { AttachmentOperations, WrittenExamples } from './examples.schema.ts'
import type { ExampleAttachments } from './tables.ts'

type Path = (string | number)[]
/** The contents that a write stores. JSON members are texts. An absent one stays as it is. */
export type ExampleContents = {
  id: string
  inputs?: string | undefined
  outputs?: string | undefined
  metadata?: string | undefined
  splits?: string[] | undefined
  source_run_id?: string | null | undefined
  created_at?: string | null | undefined
  stored?: ExampleAttachments | undefined
  operations?: AttachmentOperations | undefined
  loc: { inputs: Path; outputs: Path }
}

/** A dataset that a write has changed. */
export type ChangedDataset = { id: string; as_of: string; count: number }
const nullable = (items: (string | null | undefined)[]): SQL =>
  sql`${sql.param(items.map(item => item ?? null))}::text[]`
const asJson = (value: unknown): string | undefined => (value === undefined ? undefined : JSON.stringify(value))

/** One row for each example, `place` in the order of the request. */
export const givenRows = (examples: ExampleContents[]): SQL => sql`
    select
      g.id, g.inputs, g.outputs, g.metadata::jsonb as metadata, g.splits::jsonb as splits,
      g.source_run_id::uuid as source_run_id, g.created_at::timestamptz as created_at,
      g.attachments::jsonb as attachments, g.operations::jsonb as operations, gen_random_uuid() as contents_id, g.place
    from unnest(
      ${uuidArray(examples.map(({ id }) => id))},
      ${nullable(examples.map(({ inputs }) => inputs))},
      ${nullable(examples.map(({ outputs }) => outputs))},
      ${nullable(examples.map(({ metadata }) => metadata))},
      ${nullable(examples.map(({ splits }) => asJson(splits)))},
      ${nullable(examples.map(({ source_run_id }) => source_run_id))},
      ${nullable(examples.map(({ created_at }) => created_at))},
      ${nullable(examples.map(({ stored }) => asJson(stored)))},
      ${nullable(examples.map(({ operations }) => asJson(operations)))}
    ) with ordinality as g(
      id, inputs, outputs, metadata, splits, source_run_id, created_at, attachments, operations, place
    )`

/** The version that a write makes, in milliseconds, as clients in JavaScript can name it. */
export const NEXT_VERSION = sql`greatest(date_trunc('milliseconds', clock()), d.examples_at + interval '1 millisecond')`

const DEFINITIONS = sql`json_build_object(
        'inputs_schema_definition', d.inputs_schema_definition,
        'outputs_schema_definition', d.outputs_schema_definition
      )::text`
/** A condition on `d`: `checked` are the definitions that the examples were compared with. */
const hasCheckedSchemas = (checked: string): SQL => sql`case
      when d.inputs_schema_definition is null and d.outputs_schema_definition is null then true
      when ${DEFINITIONS} = ${checked} then true
      else refuse('examples_unchecked', ${DEFINITIONS})
    end`

const MAX_ATTEMPTS = 3

/**
 * The statement of most writes is sent at once. Where the dataset has schemas, it fails with them, and is sent again
 * once the examples have been compared with them.
 */
export async function writeChecked<T>(
  examples: CheckedExample[] | (() => Promise<CheckedExample[]>),
  write: (hasSchemas: SQL) => Promise<T>,
): Promise<T> {
  let checked = ''
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    try {
      return await write(hasCheckedSchemas(checked))
    } catch (error) {
      const isUnchecked = error instanceof Failure && error.code === 'examples_unchecked'
      if (!isUnchecked) throw error
      checked = error.extra.about!
      await requireMatchingExamples(JSON.parse(checked), typeof examples === 'function' ? await examples() : examples)
    }
  }
  throw fail('examples_unchecked')
}

// ---- parts of statements

export const OBJECT_IDS = (attachments: SQL): SQL => sql`array(
        select (a.value ->> 'id')::uuid
        from jsonb_each(${attachments}) a)`

export const insertVersions = (condition: SQL): SQL => sql`versions as (
      insert into dataset_versions (organization_id, tenant_id, dataset_id, as_of)
      select current_organization(), current_tenant(), changed.id, changed.as_of
      from changed
      where ${condition}
    )`

/** Datasets that have the examples, in the order in which every write locks them. */
export const lockDatasetsOf = (ids: string[]): SQL => sql`
  select
  from datasets
  where tenant_id = current_tenant() and id in (
    select e.dataset_id
    from examples e
    where e.tenant_id = current_tenant() and e.id = any(${uuidArray(ids)}) and e.until is null
  )
  order by id
  for update`

const unknownExamples = (dataset_id: string | undefined): SQL => sql`(
        select string_agg(g.id::text, ', ')
        from given g
        where not exists (
          select from examples e
          where e.tenant_id = current_tenant() and e.id = g.id and e.until is null
            ${dataset_id === undefined ? sql`` : sql`and e.dataset_id = ${dataset_id}::uuid`}
        )
      )`

/** The datasets of the examples in `given`, with the version that this write makes of them. */
export const targets = (dataset_id: string | undefined, condition: SQL): SQL => sql`target as (
      select d.id, d.tenant_id, ${NEXT_VERSION} as at
      from datasets d
      where d.tenant_id = current_tenant()
        and ${
          dataset_id === undefined
            ? sql`d.id in (
          select e.dataset_id
          from given g
          join examples e on e.tenant_id = current_tenant() and e.id = g.id and e.until is null
        )`
            : sql`d.id = ${dataset_id}::uuid`
        }
        and ${condition}
        and case
          when ${unknownExamples(dataset_id)} is null then true
          else refuse('example_not_found', ${unknownExamples(dataset_id)})
        end
    )`

/** Ends the current rows of the examples in `given`. */
export const END_ROWS = sql`update examples e
      set until = t.at
      from given g, target t
      where e.tenant_id = current_tenant() and e.id = g.id and e.until is null and e.dataset_id = t.id`

export const lockOf = (dataset_id: string | undefined, ids: string[]): SQL =>
  dataset_id === undefined ? lockDatasetsOf(ids) : lockDataset(dataset_id)

export const describeWrites = (changed: ChangedDataset[], example_ids: string[]): WrittenExamples => ({
  count: example_ids.length,
  example_ids,
  as_of: changed.map(({ as_of }) => toIsoTime(as_of)).reduce((a, b) => (a > b ? a : b)),
})
