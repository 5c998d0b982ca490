// The fields of filters in a row of `runs`.
import { type SQL, sql } from 'drizzle-orm'
import { textArray } from '../../../kernel/db/db.ts'
import type { ResolvedCondition } from '../../runs/filter/resolve.ts'
import type { FilterSource } from './filter-sql.ts'
import { beginningOf, parsedJson } from './text-matches.ts'

/** Tokens and costs of a root are those of its trace. */
const TOTALS = [
  'total_tokens',
  'prompt_tokens',
  'completion_tokens',
  'total_cost',
  'prompt_cost',
  'completion_cost',
] as const
type Total = (typeof TOTALS)[number]

/** Runs of a trace that are older than its root have a clock that is wrong by less than this. */
const CLOCK_SKEW = sql`interval '1 hour'`

/** The other runs of the trace of the row `r`. Fewer partitions are searched because of its time. */
export const inTraceOf = (other: SQL, r: SQL): SQL => sql`
  ${other}.tenant_id = current_tenant()
  and ${other}.trace_id = ${r}.trace_id
  and ${other}.order_time >= ${r}.trace_time - ${CLOCK_SKEW}`

export const FEEDBACK_COLUMNS: Record<string, SQL> = {
  feedback_key: sql`p.key`,
  feedback_score: sql`p.score`,
  feedback_value: parsedJson(sql`p.value`),
  feedback_comment: sql`p.comment`,
  feedback_source: sql`p.source_type`,
}

/** A filter over the rows of `alias`. */
export function runSource(alias: string): FilterSource {
  const r = sql.raw(alias)
  const own = (name: string) => sql`${r}.${sql.identifier(name)}`
  const seconds = (name: string) => sql`extract(epoch from ${own(name)} - ${own('start_time')})`
  const columns: Record<string, SQL> = {
    ...FEEDBACK_COLUMNS,
    latency: seconds('end_time'),
    first_token_latency: seconds('first_token_time'),
    execution_order: sql`1`,
    is_root: sql`(${r}.id = ${r}.trace_id)`,
    error: beginningOf(own('error')),
    inputs: storedText(r, 'inputs'),
    outputs: storedText(r, 'outputs'),
    ...Object.fromEntries(TOTALS.map(name => [name, totalOf(r, name)])),
    ...Object.fromEntries(['metadata', 'input', 'output'].flatMap(memberColumns)),
  }
  return {
    column: name => columns[name] ?? own(name),
    pairs: (family, conditions) => pairsOf(r, family, conditions),
    texts: [
      own('name'),
      columns.error!,
      beginningOf(sql`array_to_string(${own('tags')}, E'\n')`),
      sql`${own('metadata')}::text`,
      columns.inputs!,
      columns.outputs!,
    ],
  }
}

const memberColumns = (family: string): [string, SQL][] => [
  [`${family}_key`, sql`p.key`],
  [`${family}_value`, sql`p.value`],
]

/** A payload in the object store is empty here. Its preview is searched. */
const storedText = (r: SQL, name: 'inputs' | 'outputs'): SQL =>
  beginningOf(sql`coalesce(nullif(${r}.${sql.identifier(name)}, ''), ${r}.${sql.identifier(`${name}_preview`)})`)

const totalOf = (r: SQL, name: Total): SQL => {
  const column = sql.identifier(name)
  const total = sql`case
    when ${r}.id <> ${r}.trace_id then ${r}.${column}
    else (select sum(t.${column}) from runs t where ${inTraceOf(sql`t`, r)})
  end`
  return name.endsWith('tokens') ? sql`coalesce(${total}, 0)` : sql`(${total})`
}

function pairsOf(r: SQL, family: string, conditions: ResolvedCondition[]): SQL {
  if (family === 'feedback')
    return sql`(select * from feedbacks f where f.tenant_id = current_tenant() and f.run_id = ${r}.id) p`
  if (family === 'metadata') return jsonPairs(sql`${r}.metadata`, conditions)
  const text = sql`${r}.${sql.identifier(`${family}s`)}`
  return jsonPairs(parsedJson(text), conditions)
}

/** The members of a JSON object, as rows `p`. */
export function jsonPairs(json: SQL, conditions: ResolvedCondition[]): SQL {
  const keys = wantedKeys(conditions)
  return keys ? sql`json_pairs_of(${json}, ${textArray(keys)}) p` : sql`json_pairs(${json}) p`
}

/** The names of the members, where the conditions say them. A name with dots is of a member within another. */
function wantedKeys(conditions: ResolvedCondition[]): string[] | undefined {
  const isNamed = ({ field, operator }: ResolvedCondition) => field?.endsWith('_key') && /^(eq|in)$/.test(operator)
  const keys = conditions.find(isNamed)?.values.filter(value => typeof value === 'string')
  return keys?.every(key => !key.includes('.')) ? keys : undefined
}
