// Merges the writes of a run into one row, by the rule of `merged-operations.ts`, and defines its columns.

import { join, name, type Sql, sql, uuid } from '../../../kernel/clickhouse/sql.ts'
import { MERGED_MEMBERS } from '../../ingest/merged-operations.ts'
import { LONG_MEMBERS } from '../store.ts'

/** Ranks the write `w`: a patch wins over a post, and otherwise the later one wins. */
const rank = (bit: number): Sql => sql`(bitTest(w.patched, ${name(String(bit))}), w.version)`
const bitOf = (first: string): number => MERGED_MEMBERS.findIndex(([name]) => name === first)
/**
 * Takes the value of the write that wins the first column of a group. The tuple keeps a null from being passed over.
 */
const mergedValue = (column: string, first: string): Sql =>
  column === first
    ? sql`argMax(w.${name(column)}, ${rank(bitOf(first))})`
    : sql`tupleElement(argMaxIf(tuple(w.${name(column)}), ${rank(bitOf(first))}, w.${name(first)} is not null), 1)`

/** An object goes where its column goes. Attachments add up. `readObjects()` puts them together. */
const OBJECTS = sql`if(
      max(w.objects is not null),
      toJSONString(tuple(
        [${join(
          LONG_MEMBERS.map(member => mergedValue('objects', member)),
          ', ',
        )}],
        arrayMap(one -> one.2, arraySort(groupArrayIf((w.version, w.objects), w.objects is not null)))
      )),
      null
    )`

/** The bit of a write that moves its run. */
export const PLACED_LATER = 2 ** 31
const PLACE = ['trace_id', 'trace_time', 'dotted_order', 'parent_run_id']
const MERGED: Record<string, Sql> = {
  ...Object.fromEntries(
    MERGED_MEMBERS.flatMap(([first, ...others]) =>
      [first, ...others].map(column => [column, mergedValue(column, first)]),
    ),
  ),
  ...Object.fromEntries(
    PLACE.map(column => [column, sql`tupleElement(argMax(tuple(w.${name(column)}), ${rank(31)}), 1)`]),
  ),
  objects: OBJECTS,
  is_longlived: sql`max(w.tier = 'longlived')`,
  received_at: sql`min(w.version)`,
}
const KEY = ['session_id', 'order_time', 'id']
/** Every query needs some of these columns. */
const ALWAYS = ['trace_id', 'trace_time', 'name', 'run_type', 'is_longlived']
const COMPUTED: Record<string, { from: string[]; sql(tenant: string): Sql }> = {
  status: {
    from: ['error', 'end_time'],
    sql: () => sql`multiIf(r.error is not null, 'error', r.end_time is not null, 'success', 'pending')`,
  },
  trace_tier: {
    from: ['is_longlived', 'trace_id'],
    sql: tenant => sql`if(
      r.is_longlived or r.trace_id in (select trace_id from upgraded_of(tenant = ${uuid(tenant)})),
      'longlived',
      'shortlived'
    )`,
  },
}

/** The runs of these writes `w`, each as one row with the columns. All writes of a run meet the condition, or none. */
export function selectRuns(tenant: string, columns: Iterable<string>, condition: Sql): Sql {
  const wanted = [...new Set([...columns, ...ALWAYS])]
  const computed = wanted.filter(column => column in COMPUTED)
  const merged = new Set(
    [...wanted, ...computed.flatMap(column => COMPUTED[column]!.from)].filter(column => column in MERGED),
  )
  const inner = sql`
    select
      ${join(
        [
          ...KEY.map(column => sql`w.${name(column)} as ${name(column)}`),
          ...[...merged].map(column => sql`${MERGED[column]!} as ${name(column)}`),
        ],
        ',\n      ',
      )}
    from runs_of(tenant = ${uuid(tenant)}) w
    where ${condition}
    group by w.session_id, w.order_time, w.id`
  if (computed.length === 0) return inner
  return sql`
    select r.*, ${join(
      computed.map(column => sql`${COMPUTED[column]!.sql(tenant)} as ${name(column)}`),
      ', ',
    )}
    from (${inner}
    ) r`
}

/** True of the writes of runs with these ids, of these traces, below these runs or for these examples. */
export const isAt = (tenant: string, keys: Sql): Sql => sql`(w.session_id, w.order_time) in (
      select session_id, order_time
      from places_of(tenant = ${uuid(tenant)})
      where key in ${keys}
    )`
