// The rows of `runs` that a query reads, by index and in a bounded number.
import { type SQL, sql } from 'drizzle-orm'
import { uuidArray } from '../../../kernel/db/db.ts'
import type { ResolvedCondition, ResolvedFilter } from '../../runs/filter/resolve.ts'
import type { RunQuery, RunSelection } from '../queries.ts'
import { filterCondition, joinConditions } from './filter-sql.ts'
import { isShown } from './relations.ts'
import { inTraceOf, runSource } from './run-fields.ts'

/** The most runs that one page reads where filters choose among them: about half a second. */
export const MAX_SCANNED = 20_000

/** Inputs and outputs are long, and are parsed for a filter. */
const PAYLOAD_COST = 4

function readsPayloads({ filter, trace_filter, tree_filter }: RunSelection): boolean {
  const reads = (part: ResolvedFilter): boolean => {
    if ('parts' in part) return part.parts.some(reads)
    if ('conditions' in part) return part.family === 'input' || part.family === 'output'
    return part.field === null || part.type === 'document'
  }
  return [filter, trace_filter, tree_filter].some(one => one && reads(one))
}

/** Tolerance between `start_time` and the indexed `order_time`. */
const START_TOLERANCE = sql`interval '1 minute'`

type Source = {
  /** A subquery in parentheses. */
  source: SQL
  /** A condition on its rows `r`. */
  condition: SQL
  /** The last place that the scan of one page reads, if there are more. */
  reach?: SQL
}
type Scan = { isDescending: boolean; pageSize: number; maxScanned: number }

/** Conditions that indexes serve, also of a filter that is an `and` or one condition. */
export type Reachable = RunSelection & { thread?: string }

/** All runs of a selection, and whether they are roots only. */
export function selectAll(query: RunSelection): { source: SQL; condition: SQL; isOfRoots: boolean } {
  const wanted = withConditionsOf(query)
  const { condition } = rowConditions(query)
  const lookup = lookupOf(wanted)
  const bounds = [...boundsOf(wanted), ...(lookup ? inProjects(wanted) : [])]
  const source = lookup ? lookUp(lookup, bounds) : allOf(wanted.projects ?? [], bounds)
  return { source, condition, isOfRoots: wanted.is_root === true }
}

export function selectSource(query: RunQuery, scan: Scan): Source {
  const wanted = withConditionsOf(query)
  const { condition, isFiltered } = rowConditions(query)
  const bounds = [...boundsOf(wanted), ...afterCursor(query, scan.isDescending)]
  const lookup = lookupOf(wanted)
  if (lookup) return { source: lookUp(lookup, [...bounds, ...inProjects(wanted)]), condition }
  const projects = [...new Set(wanted.projects)]
  const scanned = readsPayloads(query) ? scan.maxScanned / PAYLOAD_COST : scan.maxScanned
  const size = isFiltered ? Math.ceil(scanned / Math.max(1, projects.length)) : scan.pageSize
  return scanProjects(projects, bounds, condition, { ...scan, size, isFiltered })
}

const IS_SHOWN = isShown('runs')

function scanProjects(
  projects: string[],
  bounds: SQL[],
  condition: SQL,
  { isDescending, size, isFiltered }: Scan & { size: number; isFiltered: boolean },
): Source {
  const direction = isDescending ? sql`desc` : sql`asc`
  const order = sql`order_time ${direction}, id ${direction}`
  // Limits keep Postgres from another plan than reading the index in its order.
  const scan = (columns: SQL, project: SQL, end: SQL) => sql`(
    select ${columns}
    from runs
    where tenant_id = current_tenant()
      and session_id = ${project}
      and ${joinConditions([...bounds, IS_SHOWN], 'and')}
    order by ${order}
    ${end}
  )`
  const place = sql`order_time, id`
  const all = sql`limit ${size}`
  const last = sql`limit 1 offset ${size - 1}`
  if (projects.length === 1) {
    const project = sql`(
      select p.id from projects p where p.tenant_id = current_tenant() and p.id = ${projects[0]!}::uuid
    )`
    return {
      source: scan(sql`*`, project, all),
      condition,
      ...(isFiltered && { reach: scan(place, project, last) }),
    }
  }
  const ofEach = (part: SQL) => sql`(
    select part.*
    from projects p
    cross join lateral ${part} part
    where p.tenant_id = current_tenant() and p.id = any(${uuidArray(projects)})
  )`
  const source = ofEach(scan(sql`*`, sql`p.id`, all))
  if (!isFiltered) return { source, condition }
  // The page ends where the first of the projects has read its share: beyond it, runs of that project are not known.
  const reach = sql`select ${place} from ${ofEach(scan(place, sql`p.id`, last))} ends order by ${order} limit 1`
  const isWithin = sql`coalesce(
    (r.order_time, r.id) ${isDescending ? sql`>=` : sql`<=`} (select ${place} from (${reach}) reach),
    true
  )`
  return { source, condition: joinConditions([isWithin, condition], 'and'), reach }
}

const allOf = (projects: string[], bounds: SQL[]): SQL => sql`(
  select *
  from runs
  where tenant_id = current_tenant()
    and session_id = any(array(
      select p.id from projects p where p.tenant_id = current_tenant() and p.id = any(${uuidArray(projects)})
    ))
    and ${joinConditions([...bounds, IS_SHOWN], 'and')}
)`

/** Few runs, which other indexes find. The offset keeps Postgres from reading them in the order of the page. */
const lookUp = (lookup: SQL, conditions: SQL[]): SQL => sql`(
  select *
  from runs
  where tenant_id = current_tenant()
    and ${joinConditions([lookup, ...conditions, IS_SHOWN], 'and')}
    and exists (
      select from projects p
      where p.tenant_id = current_tenant() and p.id = runs.session_id
    )
  offset 0
)`

function lookupOf({ ids, trace, parent_run, reference_examples }: Reachable): SQL | undefined {
  if (ids) return sql`runs.id = any(${uuidArray(ids)})`
  if (trace) return sql`runs.trace_id = ${trace}::uuid`
  if (parent_run)
    return sql`runs.parent_run_id = ${parent_run}::uuid and runs.trace_id = (
      select parent.trace_id
      from runs parent
      where parent.tenant_id = current_tenant() and parent.id = ${parent_run}::uuid
      limit 1
    )`
  return reference_examples && sql`runs.reference_example_id = any(${uuidArray(reference_examples)})`
}

/** True if the caller may read all of them. */
export const hasAllProjects = (projects: string[] | undefined): SQL =>
  projects
    ? sql`(
        select count(*) from projects p where p.tenant_id = current_tenant() and p.id = any(${uuidArray(projects)})
      ) = ${new Set(projects).size}`
    : sql`true`

const inProjects = ({ projects }: Reachable): SQL[] =>
  projects ? [sql`runs.session_id = any(${uuidArray(projects)})`] : []

/** Conditions that indexes serve, except for the minute on both sides of a time. */
function* boundsOf({ start_time, end_time, is_root, thread }: Reachable): Generator<SQL> {
  if (start_time) yield sql`runs.order_time >= ${start_time}::timestamptz - ${START_TOLERANCE}`
  if (start_time) yield sql`runs.start_time >= ${start_time}::timestamptz`
  if (end_time) yield sql`runs.order_time <= ${end_time}::timestamptz + ${START_TOLERANCE}`
  if (end_time) yield sql`runs.start_time <= ${end_time}::timestamptz`
  if (!is_root) return
  yield sql`runs.id = runs.trace_id`
  if (thread !== undefined) yield sql`runs.thread_id = ${thread}`
}

function afterCursor({ cursor }: RunQuery, isDescending: boolean): SQL[] {
  const after = isDescending ? sql`<` : sql`>`
  return cursor ? [sql`(runs.order_time, runs.id) ${after} (${cursor.time}::timestamptz, ${cursor.id}::uuid)`] : []
}

/** Conditions that no index serves. */
function rowConditions(selection: RunSelection): { condition: SQL; isFiltered: boolean } {
  const { run_type, has_error, is_root, parent_run, reference_examples, ...query } = selection
  const conditions = [
    run_type && sql`r.run_type = ${run_type}`,
    has_error !== undefined && sql`(r.error is not null) = ${has_error}::boolean`,
    is_root === false && sql`r.id <> r.trace_id`,
    parent_run && sql`r.parent_run_id = ${parent_run}::uuid`,
    reference_examples && sql`r.reference_example_id = any(${uuidArray(reference_examples)})`,
    query.filter && filterCondition(query.filter, runSource('r')),
    query.trace_filter && rootMatches(query.trace_filter),
    query.tree_filter && someRunMatches(query.tree_filter),
  ].filter(condition => typeof condition === 'object')
  const isFiltered = conditions.length > 0
  return { condition: isFiltered ? joinConditions(conditions, 'and') : sql`true`, isFiltered }
}

/** The root is found by its whole primary key, so in one partition. */
const rootMatches = (filter: ResolvedFilter): SQL => sql`(
  select ${filterCondition(filter, runSource('root'))}
  from runs root
  where root.tenant_id = current_tenant()
    and root.id = r.trace_id
    and root.order_time = r.trace_time
    and root.trace_tier = r.trace_tier
) is true`

const someRunMatches = (filter: ResolvedFilter): SQL => sql`(
  select true
  from runs tree
  where ${inTraceOf(sql`tree`, sql`r`)}
    and ${filterCondition(filter, runSource('tree'))}
  limit 1
) is true`

/** Conditions of the filter that every run of the answer meets, where an index can use them. */
export function withConditionsOf(query: RunSelection): Reachable {
  const wanted: Reachable = { ...query }
  for (const condition of requiredConditions(query.filter)) {
    const { operator, field, values } = condition
    const [value] = values
    const isOne = operator === 'eq' && value !== null
    if (isOne && field === 'is_root' && value === true) wanted.is_root = true
    else if (isOne && field === 'thread_id') wanted.thread = String(value)
    else if (isOne && field === 'trace_id') wanted.trace ??= String(value)
    else if ((isOne || operator === 'in') && field === 'id') wanted.ids ??= values.map(String)
    else if ((isOne || operator === 'in') && field === 'reference_example_id')
      wanted.reference_examples ??= values.map(String)
    else if (field === 'start_time' && value !== null) narrowStart(wanted, operator, String(value))
  }
  return wanted
}

function narrowStart(wanted: Reachable, operator: string, time: string): void {
  const { start_time, end_time } = wanted
  const isLater = (a: string, b: string | undefined) => b === undefined || Date.parse(a) > Date.parse(b)
  if (/^(eq|gte?)$/.test(operator) && isLater(time, start_time)) wanted.start_time = time
  if (/^(eq|lte?)$/.test(operator) && (end_time === undefined || isLater(end_time, time))) wanted.end_time = time
}

function requiredConditions(filter: ResolvedFilter | undefined): ResolvedCondition[] {
  if (!filter || 'conditions' in filter) return []
  if (!('parts' in filter)) return [filter]
  return filter.operator === 'and' ? filter.parts.flatMap(requiredConditions) : []
}
