// The filter of examples: the filter language over their members, as SQL.
import { type SQL, sql } from 'drizzle-orm'
import { type Fields, memberPairs } from '../traces/filter/fields.ts'
import { readFilters } from '../traces/filter/resolve.ts'
import { type FilterSource, filterCondition } from '../traces/postgres/filter-sql.ts'
import { jsonPairs } from '../traces/postgres/run-fields.ts'

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
  input: sql`case when pg_input_is_valid(c.inputs, 'jsonb') then c.inputs::jsonb end`,
  output: sql`case when pg_input_is_valid(c.outputs, 'jsonb') then c.outputs::jsonb end`,
}
const COLUMNS: Record<string, SQL> = {
  modified_at: sql`e.since`,
  split: sql`array(select jsonb_array_elements_text(e.metadata -> 'dataset_split'))`,
  inputs: sql`c.inputs`,
  outputs: sql`c.outputs`,
}

/** Over `e` and `c`. Pairs are `p`. */
const EXAMPLE_SOURCE: FilterSource = {
  column: name => COLUMNS[name] ?? (/_(key|value)$/.test(name) ? pairColumn(name) : sql`e.${sql.identifier(name)}`),
  pairs: (family, conditions) => jsonPairs(JSON_OF[family]!, conditions),
  texts: sql`concat_ws(E'\n', e.metadata, c.inputs, c.outputs)`,
}
const pairColumn = (name: string): SQL => (name.endsWith('_key') ? sql`p.key` : sql`p.value`)

export function exampleCondition(filter: string | undefined): SQL | undefined {
  const resolved = readFilters({ filter }, FIELDS, 'query').filter
  return resolved && filterCondition(resolved, EXAMPLE_SOURCE)
}
