// The filter of examples: the filter language over their members, as SQL.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/http/context.ts'
import { COMPARED_CHARACTERS, looksWithin, PARSED_BYTES } from '../runs/filter/bounds.ts'
import { type Fields, memberPairs } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import { type FilterSource, filterCondition } from '../store/postgres/filter-sql.ts'
import { jsonPairs } from '../store/postgres/run-fields.ts'
import { beginningOf, containsAny, parsedJson } from '../store/postgres/text-matches.ts'
import type { ExampleFilter } from './examples.schema.ts'

const FIELDS: Fields = {
  id: { type: 'uuid' },
  created_at: { type: 'time' },
  modified_at: { type: 'time' },
  source_run_id: { type: 'uuid' },
  split: { type: 'tags' },
  metadata: { type: 'json' },
  inputs: { type: 'document' },
  outputs: { type: 'document' },
  ...memberPairs('metadata'),
  ...memberPairs('input'),
  ...memberPairs('output'),
}

const JSON_OF: Record<string, SQL> = {
  metadata: sql`e.metadata`,
  input: parsedJson(sql`c.inputs`),
  output: parsedJson(sql`c.outputs`),
}
const COLUMNS: Record<string, SQL> = {
  modified_at: sql`e.since`,
  split: sql`array(select jsonb_array_elements_text(e.metadata -> 'dataset_split'))`,
  inputs: beginningOf(sql`c.inputs`),
  outputs: beginningOf(sql`c.outputs`),
}

/** Columns of `e` and `c`. Pairs are `p`. */
const EXAMPLE_SOURCE: FilterSource = {
  column: name => COLUMNS[name] ?? (/_(key|value)$/.test(name) ? pairColumn(name) : sql`e.${sql.identifier(name)}`),
  pairs: (family, conditions) => jsonPairs(JSON_OF[family]!, conditions),
  texts: [sql`e.metadata::text`, COLUMNS.inputs!, COLUMNS.outputs!],
}
const pairColumn = (name: string): SQL => (name.endsWith('_key') ? sql`p.key` : sql`p.value`)

const readFilter = (filter: string | undefined) => readFilters({ filter }, FIELDS, 'query').filter

export function exampleCondition(filter: string | undefined): SQL | undefined {
  const resolved = readFilter(filter)
  return resolved && filterCondition(resolved, EXAMPLE_SOURCE)
}

const WARNING =
  `Inputs and outputs are searched up to ${COMPARED_CHARACTERS} characters. ` +
  `Those of more than ${PARSED_BYTES} bytes have no members for a filter.`

/** Warns for every such filter: to find out whether an example has a long text would cost as much as the filter. */
export function warnOfLongTexts(ctx: Ctx, { filter, full_text_contains = [] }: ExampleFilter): void {
  const isWithin = looksWithin(readFilter(filter), ['inputs', 'outputs', 'input', 'output'])
  if (isWithin || full_text_contains.length > 0) ctx.warnings.push(WARNING)
}

/** True if the inputs or the outputs contain the text. Case is ignored. */
export const containsText = (text: string): SQL =>
  sql`(${containsAny(COLUMNS.inputs!, [text])} or ${containsAny(COLUMNS.outputs!, [text])})`
