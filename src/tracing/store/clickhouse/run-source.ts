// The rows that a query reads: a condition on writes `w`, which the order of the table serves, and one on runs `r`.

import { all, bind, join, name, type Sql, sql, text, time, uuid, uuids } from '../../../kernel/clickhouse/sql.ts'
import type { ResolvedFilter } from '../../runs/filter/resolve.ts'
import { type Reachable, withConditionsOf } from '../postgres/run-source.ts'
import { type RunCursor, type RunSelection, TOTALS } from '../queries.ts'
import { filterCondition } from './filter-sql.ts'
import { isAt, selectRuns } from './run-columns.ts'
import { columnsOf, readsTotals, runSource } from './run-fields.ts'
import type { Scope } from './workspace.ts'

const DAY_MS = 86_400_000
/** Mirrors `kept_for()` in Postgres. */
const KEPT_DAYS = { shortlived: 14, longlived: 400 }
/** Tolerance between `start_time` and the `order_time` by which the table is ordered. */
const START_TOLERANCE_MS = 60_000

export type Selection = RunSelection & { cursor?: RunCursor | undefined; order?: 'asc' | 'desc' }
export type RunSource = {
  /** Finds writes by the order of the table, or else by the ids in `places`. */
  writes: Sql
  isLookup: boolean
  /** `from` and `where`, with the columns of `r` that are asked for, and in `t` the totals of its trace. */
  select(columns: readonly string[], options?: { reach?: Sql | undefined; hasTotals?: boolean }): Sql
  /** The writes of all runs in the traces that have some of these writes. */
  inTraces: Sql
  isOfRoots: boolean
}

export const isDescending = ({ order, cursor }: Selection): boolean =>
  (order !== 'asc') !== (cursor?.backwards ?? false)
const shifted = (iso: string, ms: number): string => new Date(Date.parse(iso) + ms).toISOString()

/** `now` is the time of the app, in milliseconds. */
export function selectSource(query: Selection, scope: Scope, now: number): RunSource {
  const wanted = withConditionsOf(query)
  const keys = lookupKeys(wanted)
  const writes = all([
    ...(keys ? [isAt(scope.tenant, uuids(keys))] : []),
    ...(query.projects ? [isIn(scope.projects.map(({ id }) => id))] : []),
    ...writeBounds(wanted, query, now),
  ])
  const conditions = runConditions(query, wanted, scope, now)
  return {
    writes,
    isLookup: keys !== undefined,
    isOfRoots: wanted.is_root === true,
    inTraces: inTraces(scope.tenant, writes),
    select: (columns, { reach = sql`true`, hasTotals = readsTotals(query.filter) } = {}) => {
      const read = sql`${writes} and ${reach}`
      const needed = [...columns, ...columnsForConditions(query, wanted), ...(hasTotals ? TOTALS : [])]
      const related = relatedConditions(query, scope, read)
      return sql`
    from (${selectRuns(scope.tenant, needed, read)}
    ) r
    ${hasTotals ? joinTotals(scope.tenant, read) : sql``}
    where ${all([...conditions, ...related])}`
    },
  }
}

/** The cursor of a scan that ended: after all runs of its time, or before them. */
export const endOf = (query: Selection, time: string): RunCursor => ({
  time,
  id: isDescending(query) ? FIRST_ID : LAST_ID,
})
const FIRST_ID = '00000000-0000-0000-0000-000000000000'
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

function afterCursor(query: Selection): Sql {
  const isPast = query.cursor!.id === endOf(query, '').id
  if (isDescending(query)) return isPast ? sql`<` : sql`<=`
  return isPast ? sql`>` : sql`>=`
}

/** One value is compared by `=`, so that the engine reads in the order of the table. */
const isIn = (projects: string[]): Sql =>
  projects.length === 1 ? sql`w.session_id = ${uuid(projects[0]!)}` : sql`w.session_id in ${uuids(projects)}`

function lookupKeys({ ids, trace, parent_run, reference_examples }: Reachable): string[] | undefined {
  return ids ?? (trace ? [trace] : parent_run ? [parent_run] : reference_examples)
}

function writeBounds({ start_time, end_time }: Reachable, query: Selection, now: number): Sql[] {
  const { cursor } = query
  const kept = new Date(now - KEPT_DAYS.longlived * DAY_MS).toISOString()
  return [
    sql`w.order_time > ${time(kept)}`,
    ...(start_time ? [sql`w.order_time >= ${time(shifted(start_time, -START_TOLERANCE_MS))}`] : []),
    ...(end_time ? [sql`w.order_time <= ${time(shifted(end_time, START_TOLERANCE_MS))}`] : []),
    ...(cursor ? [sql`w.order_time ${afterCursor(query)} ${time(cursor.time)}`] : []),
  ]
}

/** A run without a name or a type has only been patched so far. */
const isShown = (now: number): Sql => sql`r.name is not null
      and r.run_type is not null
      and (
        r.trace_time > ${time(new Date(now - KEPT_DAYS.shortlived * DAY_MS).toISOString())}
        or r.trace_tier = 'longlived'
      )`

function runConditions(query: Selection, wanted: Reachable, { projects, feedback }: Scope, now: number): Sql[] {
  const { run_type, has_error, is_root, ids, trace, parent_run, reference_examples, filter, cursor } = query
  const isShort = projects.filter(({ days }) => days < KEPT_DAYS.longlived)
  const conditions: (Sql | false | '' | undefined)[] = [
    isShown(now),
    ...isShort.map(({ id, days }) => {
      const since = time(new Date(now - Math.max(days, KEPT_DAYS.shortlived) * DAY_MS).toISOString())
      return sql`(r.session_id != ${uuid(id)} or r.trace_time > ${since})`
    }),
    cursor &&
      sql`(r.order_time, toString(r.id))
        ${isDescending(query) ? sql`<` : sql`>`} (${time(cursor.time)}, ${text(cursor.id)})`,
    wanted.start_time !== undefined && sql`r.start_time >= ${time(wanted.start_time)}`,
    wanted.end_time !== undefined && sql`r.start_time <= ${time(wanted.end_time)}`,
    wanted.is_root && sql`r.id = r.trace_id`,
    is_root === false && sql`r.id != r.trace_id`,
    ids && sql`r.id in ${uuids(ids)}`,
    trace && sql`r.trace_id = ${uuid(trace)}`,
    run_type && sql`r.run_type = ${text(run_type)}`,
    has_error !== undefined && sql`(r.error is not null) = ${bind('Bool', has_error)}`,
    parent_run && sql`r.parent_run_id = ${uuid(parent_run)}`,
    reference_examples && sql`r.reference_example_id in ${uuids(reference_examples)}`,
    filter && filterCondition(filter, runSource(feedback)),
  ]
  return conditions.filter(condition => typeof condition === 'object').map(condition => sql`(${condition})`)
}

const columnsForConditions = (query: Selection, wanted: Reachable): string[] => [
  'trace_tier',
  ...(wanted.start_time || wanted.end_time ? ['start_time'] : []),
  ...(query.has_error === undefined ? [] : ['error']),
  ...(query.parent_run ? ['parent_run_id'] : []),
  ...(query.reference_examples ? ['reference_example_id'] : []),
  ...columnsOf(query.filter),
]

// ---- other runs of the traces

/** The writes of all runs in the traces of these writes. */
const inTraces = (tenant: string, writes: Sql): Sql =>
  isAt(tenant, sql`(select w.trace_id from runs_of(tenant = ${uuid(tenant)}) w where ${writes})`)

function joinTotals(tenant: string, writes: Sql): Sql {
  const sums = TOTALS.map(total => sql`sum(a.${name(total)}) as ${name(total)}`)
  return sql`left join (
      select a.trace_id as trace_id, ${join(sums, ', ')}
      from (${selectRuns(tenant, TOTALS, inTraces(tenant, writes))}
      ) a
      group by a.trace_id
    ) t on t.trace_id = r.trace_id`
}

/** Conditions on the root, and on any run of the trace. */
function relatedConditions({ trace_filter, tree_filter }: Selection, { tenant, feedback }: Scope, writes: Sql): Sql[] {
  const some = (filter: ResolvedFilter, also: Sql) => {
    const hasTotals = readsTotals(filter)
    return sql`r.trace_id in (
      select r.trace_id
      from (${selectRuns(tenant, [...columnsOf(filter), ...(hasTotals ? TOTALS : [])], inTraces(tenant, writes))}
      ) r
      ${hasTotals ? joinTotals(tenant, writes) : sql``}
      where ${filterCondition(filter, runSource(feedback))} ${also}
    )`
  }
  return [
    ...(trace_filter ? [some(trace_filter, sql`and r.id = r.trace_id`)] : []),
    ...(tree_filter ? [some(tree_filter, sql``)] : []),
  ]
}
