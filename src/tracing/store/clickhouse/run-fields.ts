// The fields of filters in a merged run, and the columns that they need.

import { name, type Sql, sql, uuids } from '../../../kernel/clickhouse/sql.ts'
import type { ResolvedFilter } from '../../runs/filter/resolve.ts'
import { TOTALS } from '../queries.ts'
import { beginningOf, type FilterSource, jsonPairs, parsedJson } from './filter-sql.ts'

type Field = { columns: string[]; sql: Sql }

const storedText = (column: 'inputs' | 'outputs'): Field => ({
  columns: [column, `${column}_preview`],
  // A payload in the object store is empty here. Its preview is searched.
  sql: beginningOf(sql`coalesce(nullIf(r.${name(column)}, ''), r.${name(`${column}_preview`)})`),
})
const seconds = (column: string): Field => ({
  columns: ['start_time', column],
  sql: sql`dateDiff('microsecond', r.start_time, r.${name(column)}) / 1e6`,
})

/** Tokens and costs of a root are those of its trace, which `t` has. */
const totalOf = (column: string): Field => {
  const value = sql`toFloat64(if(r.id = r.trace_id, t.${name(column)}, r.${name(column)}))`
  return { columns: [column], sql: column.endsWith('tokens') ? sql`ifNull(${value}, 0)` : value }
}

const FIELDS: Record<string, Field> = {
  latency: seconds('end_time'),
  first_token_latency: seconds('first_token_time'),
  execution_order: { columns: [], sql: sql`1` },
  is_root: { columns: [], sql: sql`(r.id = r.trace_id)` },
  error: { columns: ['error'], sql: beginningOf(sql`r.error`) },
  inputs: storedText('inputs'),
  outputs: storedText('outputs'),
  tags: { columns: ['tags'], sql: sql`JSONExtract(ifNull(r.tags, '[]'), 'Array(String)')` },
  ...Object.fromEntries(TOTALS.map(column => [column, totalOf(column)])),
}
const KEYS = ['id', 'session_id', 'order_time']
const fieldOf = (field: string): Field =>
  FIELDS[field] ?? { columns: KEYS.includes(field) ? [] : [field], sql: sql`r.${name(field)}` }

const ALL_TEXTS = ['name', 'error', 'tags', 'metadata', 'inputs', 'inputs_preview', 'outputs', 'outputs_preview']
const PAIRS: Record<string, string> = { metadata: 'metadata', input: 'inputs', output: 'outputs' }

/** The columns that a filter reads. */
export function columnsOf(filter: ResolvedFilter | undefined): string[] {
  if (!filter) return []
  if ('parts' in filter) return filter.parts.flatMap(columnsOf)
  if ('conditions' in filter) return PAIRS[filter.family] ? [PAIRS[filter.family]!] : []
  return filter.field === null ? ALL_TEXTS : fieldOf(filter.field).columns
}

export function readsTotals(filter: ResolvedFilter | undefined): boolean {
  if (!filter) return false
  if ('parts' in filter) return filter.parts.some(readsTotals)
  return !('conditions' in filter) && TOTALS.some(total => total === filter.field)
}

/** A filter over the merged runs `r`. */
export const runSource = (feedback: Map<ResolvedFilter, string[]>): FilterSource => ({
  column: field => fieldOf(field).sql,
  pairs: (family, keys) => jsonPairs(parsedJson(sql`r.${name(PAIRS[family]!)}`), keys),
  hasFeedback: filter => sql`(r.id in ${uuids(feedback.get(filter) ?? [])})`,
  texts: [
    sql`r.name`,
    FIELDS.error!.sql,
    beginningOf(sql`arrayStringConcat(${FIELDS.tags!.sql}, '\n')`),
    sql`r.metadata`,
    FIELDS.inputs!.sql,
    FIELDS.outputs!.sql,
  ],
})
