// Creates examples, from JSON and from forms.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { refuseUnless } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import { rawJson } from '../../kernel/json/raw-json.ts'
import { createLinkSigner, type LinkSigner } from './attachment-links.ts'
import { storeAttachments } from './attachments.ts'
import { lockDataset } from './datasets.ts'
import { type ExampleInput, readExampleList, readOneExample } from './example-input.ts'
import { linkAttachments } from './example-rows.ts'
import { readUploadedExamples } from './example-upload.ts'
import {
  type ChangedDataset,
  describeWrites,
  type ExampleContents,
  givenRows,
  insertVersions,
  NEXT_VERSION,
  OBJECT_IDS,
  writeChecked,
} from './example-versions.ts'
import * as schema from './examples.schema.ts'
import type { DatasetRef } from './schema.ts'
import { takeFromRuns } from './source-runs.ts'
import type { ExampleAttachments } from './tables.ts'

type DatasetParams = z.output<typeof DatasetRef>
type NewMembers = z.output<typeof schema.NewExampleMembers>
/** The members of a new example that the client did not send. `metadata` is a JSON text. */
type WrittenRow = {
  id: string
  tenant_id: string
  name: string
  metadata: string
  attachments: ExampleAttachments | null
  created_at: string
  since: string
}

export const createExample = verb(
  'datasets:update',
  async (ctx, { raw }: { raw: RawBody }) => {
    const [example] = await createExamples(ctx, [readOneExample(raw, schema.NewExampleMembers)])
    return example!
  },
  { byPolicy: true },
)

/** All of one dataset, or none. */
export const createExampleList = verb(
  'datasets:update',
  (ctx, { raw }: { raw: RawBody }) => createExamples(ctx, readExampleList(raw, schema.NewExampleMembers)),
  { byPolicy: true },
)

async function createExamples(ctx: Ctx, inputs: ExampleInput<NewMembers>[]): Promise<schema.Example[]> {
  const dataset_id = requireOneDataset(inputs)
  const given = inputs.map(example => ({ ...example, id: example.id ?? crypto.randomUUID() }))
  const examples = await takeFromRuns(ctx, given)
  const { examples: written } = await insertInto(ctx, dataset_id, examples)
  const textsById = new Map(examples.map(example => [example.id, example]))
  // A replayed answer has the ids that the first request made up. Its examples are in the order of the request.
  const withoutId = examples.filter((_, i) => inputs[i]!.id === undefined)
  const textsOf = ({ id }: WrittenRow) => textsById.get(id) ?? withoutId.shift()!
  const signer = createLinkSigner(ctx, ctx.origin)
  return Promise.all(written.map(row => writtenToWire(row, dataset_id, textsOf(row), signer)))
}

export const uploadExamples = verb(
  'datasets:update',
  async (ctx, { dataset_id, raw }: DatasetParams & { raw: RawBody }) => {
    const given = readUploadedExamples(raw, schema.NewExampleMembers, { isChange: false })
    const examples = await takeFromRuns(ctx, given)
    const changed = await insertInto(ctx, dataset_id, examples)
    return describeWrites(
      [changed],
      examples.map(({ id }) => id),
    )
  },
)

async function insertInto(
  ctx: Ctx,
  dataset_id: string,
  examples: (ExampleInput<NewMembers> & { id: string })[],
): Promise<ChangedDataset & { examples: WrittenRow[] }> {
  requireInputs(examples)
  const stored = await storeAttachments(ctx, examples)
  return requireRow(await insertExamples(ctx, dataset_id, stored), 'dataset_not_found')
}

function requireOneDataset(examples: ExampleInput<NewMembers>[]): string {
  const [first] = examples
  const faults = examples.flatMap(({ dataset_id, loc }) => {
    const at = [...loc.inputs.slice(0, -1), 'dataset_id']
    if (dataset_id === undefined) return { type: 'missing', loc: at, msg: 'is required' }
    if (dataset_id === first!.dataset_id) return []
    return { type: 'dataset_differs', loc: at, msg: 'must be the same for all examples of a request' }
  })
  if (faults.length > 0) throw invalidRequest(faults)
  return first!.dataset_id!
}

function requireInputs(examples: ExampleInput<NewMembers>[]): void {
  const faults = examples
    .filter(({ inputs }) => inputs === undefined)
    .map(({ loc }) => ({ type: 'missing', loc: loc.inputs, msg: 'is required' }))
  if (faults.length > 0) throw invalidRequest(faults)
}

async function writtenToWire(
  row: WrittenRow,
  dataset_id: string,
  { inputs, outputs, source_run_id }: ExampleInput<NewMembers>,
  signer: LinkSigner,
): Promise<schema.Example> {
  return {
    id: row.id,
    dataset_id,
    name: row.name,
    inputs: rawJson(inputs!),
    outputs: rawJson(outputs ?? 'null'),
    metadata: rawJson(row.metadata),
    source_run_id: source_run_id ?? null,
    created_at: toIsoTime(row.created_at),
    modified_at: toIsoTime(row.since),
    attachment_urls: row.attachments && (await linkAttachments(row.tenant_id, row.attachments, signer)),
  }
}

// ---- the statement

const NEW_METADATA = sql`coalesce(g.metadata, '{}')
        || jsonb_build_object('dataset_split', coalesce(g.splits, '["base"]'))`
/** The attachments without the ids of their objects: with a repeated request, they are uploaded again. */
const withoutIds = (attachments: SQL): SQL => sql`(
        select jsonb_object_agg(a.key, a.value - 'id')
        from jsonb_each(${attachments}) a)`

/** A repeated request finds its examples, and changes nothing. */
const insertExamples = (ctx: Ctx, dataset_id: string, examples: ExampleContents[]) =>
  writeChecked(examples, hasSchemas => {
    const hasRoom = sql`d.example_count + ${examples.length} <= ${schema.MAX_DATASET_EXAMPLES}`
    const ctesBefore = [
      sql`given as materialized (${givenRows(examples)})`,
      sql`target as (
      select d.id, d.organization_id, d.tenant_id, d.name, d.last_number, ${NEXT_VERSION} as at
      from datasets d
      where d.id = ${dataset_id}::uuid and d.tenant_id = current_tenant()
        and ${refuseUnless('examples_full', hasRoom)}
        and ${hasSchemas}
    )`,
      sql`present as (
      select e.*
      from given g
      join examples e on e.tenant_id = current_tenant() and e.id = g.id and e.until is null
      join example_contents c on c.id = e.contents_id
      where e.dataset_id = ${dataset_id}::uuid
        and c.inputs = g.inputs
        and c.outputs is not distinct from g.outputs
        and e.metadata = ${NEW_METADATA}
        and ${withoutIds(sql`e.attachments::jsonb`)} is not distinct from ${withoutIds(sql`g.attachments`)}
    )`,
      sql`contents as (
      insert into example_contents (id, organization_id, tenant_id, dataset_id, inputs, outputs)
      select g.contents_id, t.organization_id, t.tenant_id, t.id, g.inputs, g.outputs
      from given g
      cross join target t
      where g.id not in (select id from present)
    )`,
      sql`inserted as (
      insert into examples (
        id, organization_id, tenant_id, dataset_id, since, number, contents_id, metadata, source_run_id, attachments,
        object_ids, created_at
      )
      select
        g.id, t.organization_id, t.tenant_id, t.id, t.at, t.last_number + row_number() over (order by g.place),
        g.contents_id, ${NEW_METADATA}, g.source_run_id, g.attachments::json,
        ${OBJECT_IDS(sql`g.attachments`)}, coalesce(g.created_at, t.at)
      from given g
      cross join target t
      where g.id not in (select id from present)
      returning *
    )`,
    ]
    const change = sql<ChangedDataset & { examples: WrittenRow[] }>`
      update datasets d
      set last_number = d.last_number + i.count, example_count = d.example_count + i.count,
        examples_at = case when i.count > 0 then t.at else d.examples_at end
      from target t, (select count(*) from inserted) i
      where d.id = t.id and d.tenant_id = t.tenant_id
      returning d.id, d.examples_at as as_of, i.count, ${writtenRows(sql`
        (select * from inserted union all select * from present)`)} as examples`
    const parts = { ctesBefore, ctesAfter: [insertVersions(sql`changed.count > 0`)], lock: lockDataset(dataset_id) }
    return commit(ctx, 'dataset.examples_created', change, sql`json_build_object('count', changed.count)`, parts)
  })

const writtenRows = (rows: SQL): SQL => sql`(
        select json_agg(
          json_build_object(
            'id', e.id, 'tenant_id', e.tenant_id, 'name', '#' || e.number || ' @ ' || d.name,
            'metadata', e.metadata::text, 'attachments', e.attachments, 'created_at', e.created_at, 'since', e.since
          )
          order by e.number)
        from ${rows} e
        where e.dataset_id = d.id)`
