// Reads a page of runs, in the order of their start.
import { type SQL, sql } from 'drizzle-orm'
import { runWithinTime } from '../../../kernel/db/bounded-time.ts'
import type { Row } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import type { RunCursor, RunPage, RunQuery, StoredRun } from '../queries.ts'
import { runColumns, toStoredRun } from './answer-columns.ts'
import { toIso } from './iso-time.ts'
import { hasAllProjects, MAX_SCANNED, selectSource } from './run-source.ts'

const HEADER_COLUMNS = 3

export async function query(ctx: Ctx, request: RunQuery, maxScanned = MAX_SCANNED): Promise<RunPage> {
  const rows = await runWithinTime(ctx, pageStatement(request, maxScanned))
  return toPage(rows, request)
}

/**
 * The first columns of every row are about the page, so that they come back even if it is empty: whether all projects
 * were found, and where the scan ended if it read its share and the page is not full.
 */
function pageStatement(request: RunQuery, maxScanned: number): SQL<Row> {
  const { limit, cursor, projects, columns: details } = request
  const isDescending = (request.order === 'desc') !== (cursor?.backwards ?? false)
  const direction = isDescending ? sql`desc` : sql`asc`
  const order = (alias: SQL) => sql`${alias}.order_time ${direction}, ${alias}.id ${direction}`
  const { source, condition, reach } = selectSource(request, { isDescending, pageSize: limit + 1, maxScanned })
  const { columns, joins } = runColumns(details)
  return sql`
    with page as (
      select r.*
      from ${source} r
      where ${condition}
      order by ${order(sql`r`)}
      limit ${limit + 1}
    ),
    header as (
      select ${hasAllProjects(projects)} as has_all_projects, reach.order_time, reach.id
      from (select) one
      left join lateral (${reach ?? NOWHERE}) reach on (select count(*) from page) <= ${limit}
    )
    select header.has_all_projects, ${toIso(sql`header.order_time`)}, header.id, ${columns}
    from header
    left join page r on true
    ${joins}
    order by ${order(sql`r`)}` as SQL<Row>
}

const NOWHERE = sql`select null::timestamptz as order_time, null::uuid as id where false`

function toPage(rows: Row[], { limit, cursor, columns }: RunQuery): RunPage {
  const [isComplete, reachTime, reachId] = rows[0]!
  const found = rows.map(row => row.slice(HEADER_COLUMNS)).filter(([id]) => id !== null)
  const runs = found.slice(0, limit).map(row => toStoredRun(row, columns))
  const reach = reachId === null ? null : { time: reachTime as string, id: reachId as string }
  const onward = found.length > limit ? placeOf(runs.at(-1)) : reach
  const page = { runs, hasAllProjects: isComplete === true }
  if (!cursor?.backwards) return { ...page, next: onward, previous: cursor ? backwards(placeOf(runs[0])) : null }
  runs.reverse()
  return { ...page, next: placeOf(runs.at(-1)), previous: backwards(onward) }
}

const placeOf = (run: StoredRun | undefined): RunCursor | null => (run ? { time: run.order_time, id: run.id } : null)
const backwards = (cursor: RunCursor | null): RunCursor | null => cursor && { ...cursor, backwards: true }
