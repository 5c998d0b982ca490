// Creates a dataset of a table in CSV: a column is a member of the inputs, of the outputs or of the metadata.
import { sql } from 'drizzle-orm'
import { commit } from '../../kernel/db/journal.ts'
import { createdMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import { type Part, readMultipart } from '../ingest/multipart.ts'
import { CsvFault, parseCsv } from './csv.ts'
import { DATASET_RECORD, type DatasetRow, datasetToWire, insertDataset } from './datasets.ts'
import { BodyReader } from './example-input.ts'
import { requireMatchingExamples, requireUsableSchemas } from './example-schema.ts'
import { type ExampleContents, givenRows } from './example-versions.ts'
import * as schema from './schema.ts'

const MAX_ROWS = 10_000
const MAX_COLUMNS = 1000
/** Cells are texts that stay in memory. */
const VALUES_OF_CELL = 2
/** Each example repeats the names of the columns. Those of ten thousand may have three thousand characters. */
const MAX_NAMES_LENGTH = 32 * 1024 * 1024
const MAX_PARTS = 1000
const KEYS = ['input_keys', 'output_keys', 'metadata_keys'] as const
const SCHEMAS = ['inputs_schema_definition', 'outputs_schema_definition'] as const

type Table = { dataset: schema.NewDataset; examples: ExampleContents[] }

export const uploadCsv = verb(
  'datasets:create',
  async (ctx, { raw }: { raw: RawBody }) => {
    const { dataset, examples } = readTable(raw)
    await requireUsableSchemas(dataset)
    await requireMatchingExamples(dataset, examples)
    const count = examples.length
    const at = sql`date_trunc('milliseconds', clock())`
    const counts = { last_number: count, example_count: count, examples_at: at }
    const parts = { changes: createdMembers(DATASET_RECORD), ctesAfter: insertExamples(examples) }
    const change = insertDataset(dataset, counts)
    const rows = await commit(ctx, 'dataset.created', change, { examples: count }, parts)
    return datasetToWire(requireRow(rows as DatasetRow[], 'workspace_not_found'))
  },
  { byPolicy: true },
)

/** The first version of the dataset, `changed`. */
const insertExamples = (examples: ExampleContents[]) => [
  sql`given as materialized (${givenRows(examples)})`,
  sql`contents as (
      insert into example_contents (id, organization_id, tenant_id, dataset_id, inputs, outputs)
      select g.contents_id, d.organization_id, d.tenant_id, d.id, g.inputs, g.outputs
      from given g
      cross join changed d
    )`,
  sql`inserted as (
      insert into examples (
        id, organization_id, tenant_id, dataset_id, since, number, contents_id, metadata, created_at
      )
      select g.id, d.organization_id, d.tenant_id, d.id, d.examples_at, g.place, g.contents_id,
        coalesce(g.metadata, '{}') || jsonb_build_object('dataset_split', coalesce(g.splits, '["base"]')), d.examples_at
      from given g
      cross join changed d
    )`,
  sql`first_version as (
      insert into dataset_versions (organization_id, tenant_id, dataset_id, as_of)
      select d.organization_id, d.tenant_id, d.id, d.examples_at
      from changed d
      where d.example_count > 0
    )`,
]

/** Throws all faults of the form together. */
function readTable(raw: RawBody): Table {
  const { bytes, contentType } = raw
  const reader = new BodyReader(raw)
  const fields = new Map<string, string[]>()
  let file: Part | undefined
  for (const part of readMultipart(bytes, contentType, MAX_PARTS)) {
    const text = reader.decode(part.bytes, ['body', part.name])
    if (part.name === 'file') file = part
    if (text?.includes('\0')) reader.fault('nul_character', ['body', part.name], 'contains a NUL character')
    else if (text !== undefined) fields.set(part.name, [...(fields.get(part.name) ?? []), text])
  }
  if (!file) reader.fault('missing', ['body', 'file'], 'is required')
  if (!fields.has('input_keys')) reader.fault('missing', ['body', 'input_keys'], 'is required')
  const [name = file && nameOf(file)] = fields.get('name') ?? []
  const single = (field: string) => fields.get(field)?.[0]
  const members = {
    name,
    description: single('description'),
    data_type: single('data_type'),
    ...Object.fromEntries(SCHEMAS.map(field => [field, parseSchema(reader, field, single(field))])),
  }
  const dataset = reader.readMembers(schema.NewDataset, members, ['body'])
  const rows = readRows(reader, fields.get('file')?.[0] ?? '')
  const examples = file ? toExamples(reader, rows, fields) : []
  reader.throwFaults()
  return { dataset: dataset!, examples }
}

/** The name of the file without its ending. */
const nameOf = ({ headers }: Part): string | undefined =>
  /filename="([^"]+)"/.exec(headers.get('content-disposition') ?? '')?.[1]?.replace(/\.csv$/i, '')

const parseSchema = (reader: BodyReader, field: string, text: string | undefined): unknown =>
  text ? reader.parse(text, ['body', field])?.value : undefined

function readRows(reader: BodyReader, text: string): string[][] {
  try {
    const takeCell = () => reader.values.take(VALUES_OF_CELL)
    return parseCsv(text, { maxRows: MAX_ROWS + 1, maxColumns: MAX_COLUMNS, takeCell })
  } catch (error) {
    if (!(error instanceof CsvFault)) throw error
    reader.fault('csv_invalid', ['body', 'file'], `${error.message}, in line ${error.line}`)
    return []
  }
}

function toExamples(reader: BodyReader, [header = [], ...rows]: string[][], fields: Map<string, string[]>) {
  const columns = KEYS.map(field =>
    (fields.get(field) ?? []).map(key => {
      const at = header.indexOf(key)
      if (at === -1 && header.length > 0) reader.fault('column_missing', ['body', field], `the table has no \`${key}\``)
      return [key, at] as const
    }),
  )
  const namesLength = columns.flat().reduce((sum, [key]) => sum + key.length, 0)
  if (namesLength * rows.length > MAX_NAMES_LENGTH) {
    reader.fault('too_big', ['body', 'file'], 'has too long names of columns for so many rows; shorten the names')
    return []
  }
  return rows.flatMap((row, i): ExampleContents[] => {
    const loc = ['body', 'file', i]
    if (row.length !== header.length) {
      reader.fault('csv_invalid', loc, `has ${row.length} cells, and the header has ${header.length}`)
      return []
    }
    const toObject = (part: (typeof columns)[number]) =>
      JSON.stringify(Object.fromEntries(part.map(([key, at]) => [key, row[at]])))
    const [inputs, outputs, metadata] = columns.map(toObject) as [string, string, string]
    const hasOutputs = columns[1]!.length > 0
    return [
      {
        id: crypto.randomUUID(),
        inputs,
        metadata: reader.readMetadata(metadata, [...loc, 'metadata']),
        ...(hasOutputs && { outputs }),
        loc: { inputs: [...loc, 'inputs'], outputs: [...loc, 'outputs'] },
      },
    ]
  })
}
