// Reads a page of runs, in the order of their start: their places from ClickHouse, then their columns, and
// related columns from Postgres.

import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { join, name, type Sql, sql, time, uuid } from '../../../kernel/clickhouse/sql.ts'
import { fromClickHouseTime } from '../../../kernel/clickhouse/times.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { PLACE_COLUMNS, type RunCursor, type RunPage, type RunQuery, type StoredRun } from '../queries.ts'
import { addDetails } from './run-details.ts'
import { columnsOf } from './run-fields.ts'
import { endOf, isDescending, type RunSource, selectSource } from './run-source.ts'
import { readScope, type Scope } from './workspace.ts'

/**
 * The number of writes that one page reads: more, as long as it is not full. Payloads are long, and parsed for a
 * filter.
 */
const SCANS = [4000, 40_000, 400_000]
const PAYLOAD_SCANS = [2000, 20_000]
const PAYLOADS = ['inputs', 'outputs']

export async function query(
  clickHouse: ClickHouse,
  ctx: Ctx,
  request: RunQuery,
  scans = readsPayloads(request) ? PAYLOAD_SCANS : SCANS,
): Promise<RunPage> {
  const { projects, filter, trace_filter, tree_filter, columns } = request
  const scope = await readScope(ctx, projects ?? [], [filter, trace_filter, tree_filter])
  const hasAllProjects = scope.projects.length === new Set(projects).size
  if (projects && scope.projects.length === 0) return { runs: [], next: null, previous: null, hasAllProjects }
  const { places, reach } = await readPlaces(clickHouse, ctx, request, scope, scans)
  const runs = places.slice(0, request.limit)
  const page = toPage(runs, places.length > request.limit ? placeOf(runs.at(-1)) : reach, request.cursor)
  const detailed = await addDetails(clickHouse, ctx, scope, page.runs, { columns, hasProjects: projects !== undefined })
  return { ...page, runs: detailed, hasAllProjects }
}

type Place = Pick<StoredRun, (typeof PLACE_COLUMNS)[number]>

const SELECTED = join(
  PLACE_COLUMNS.map(column => sql`toString(r.${name(column)})`),
  ', ',
)

const readsPayloads = ({ filter, trace_filter, tree_filter }: RunQuery): boolean =>
  [filter, trace_filter, tree_filter].some(one => columnsOf(one).some(column => PAYLOADS.includes(column)))

async function readPlaces(clickHouse: ClickHouse, ctx: Ctx, request: RunQuery, scope: Scope, sizes: number[]) {
  const source = selectSource(request, scope, ctx.platform.clock.now())
  const direction = isDescending(request) ? sql`desc` : sql`asc`
  const read = async (reach?: Sql): Promise<Place[]> => {
    const rows = await clickHouse.query(sql`
    select ${SELECTED} ${source.select(PLACE_COLUMNS, { reach })}
    order by r.order_time ${direction}, toString(r.id) ${direction}
    limit ${name(String(request.limit + 1))}`)
    return rows.map(toPlace)
  }
  if (source.isLookup) return { places: await read(), reach: null }
  for (const size of sizes) {
    const reach = await findReach(clickHouse, scope, source, request, size)
    const places = await read(
      reach ? sql`w.order_time ${isDescending(request) ? sql`>=` : sql`<=`} ${time(reach)}` : undefined,
    )
    const end = reach && endOf(request, reach)
    if (places.length > request.limit || !end || size === sizes.at(-1)) return { places, reach: end || null }
  }
  throw new Error('unreachable')
}

/** The time up to which a scan of so many writes reads, if there are more. Of several projects, the nearest. */
async function findReach(
  clickHouse: ClickHouse,
  { tenant, projects }: Scope,
  source: RunSource,
  request: RunQuery,
  size: number,
) {
  const isDesc = isDescending(request)
  const share = Math.ceil(size / projects.length)
  const ends = projects.map(
    ({ id }) => sql`
      select order_time
      from (
        select w.order_time as order_time
        from runs_of(tenant = ${uuid(tenant)}) w
        where w.session_id = ${uuid(id)} and ${source.writes}
        order by w.order_time ${isDesc ? sql`desc` : sql`asc`}
        limit 1 offset ${name(String(share))}
      )`,
  )
  const [row] = await clickHouse.query<[string, string]>(sql`
    select count(), toString(${isDesc ? sql`max` : sql`min`}(order_time))
    from (${join(ends, '\n      union all')}
    )`)
  return row![0] === '0' ? undefined : fromClickHouseTime(row![1])!
}

const TIMES = ['order_time', 'trace_time', 'start_time']
function toPlace(row: (string | null)[]): Place {
  return Object.fromEntries(
    PLACE_COLUMNS.map((column, i) => [column, TIMES.includes(column) ? fromClickHouseTime(row[i]!) : row[i]]),
  ) as Place
}

function toPage(runs: Place[], onward: RunCursor | null, cursor: RunCursor | undefined) {
  if (!cursor?.backwards) return { runs, next: onward, previous: cursor ? backwards(placeOf(runs[0])) : null }
  const turned = runs.toReversed()
  return { runs: turned, next: placeOf(turned.at(-1)), previous: backwards(onward) }
}
const placeOf = (run: Place | undefined): RunCursor | null => (run ? { time: run.order_time, id: run.id } : null)
const backwards = (cursor: RunCursor | null): RunCursor | null => cursor && { ...cursor, backwards: true }
