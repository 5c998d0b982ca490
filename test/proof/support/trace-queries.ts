// Queries over many runs, as clients send them: the first page of a project, filters, one trace, one run, statistics.
import type { Ctx } from '../../../src/kernel/http/context.ts'
import { RUN_FIELDS } from '../../../src/tracing/runs/filter/fields.ts'
import { readFilters } from '../../../src/tracing/runs/filter/resolve.ts'
import { columnsOf, DEFAULT_SELECT, FULL_SELECT } from '../../../src/tracing/runs/run-wire.ts'
import { withClient } from './seeded-database.ts'
import type { SeededTraces } from './seeded-traces.ts'
import { formatNumber, median } from './statistics.ts'

const REPEATS = 2
const DAY_MS = 86_400_000

/** The projects that `seedTraces()` makes, the largest first. */
const readProjects = async ({ url, tenant }: SeededTraces): Promise<string[]> => {
  const select = 'select id from projects where tenant_id = $1 order by name'
  const { rows } = await withClient(url, client => client.query(select, [tenant.tenant_id]))
  return rows.map(({ id }) => id)
}

/** Measures of each query, the median milliseconds of a few times. They are warm. */
export async function prepareTraceQueries(
  ctx: Ctx,
  traces: SeededTraces,
): Promise<Record<string, () => Promise<number>>> {
  const reading: Ctx = { ...ctx, permission: 'runs:read' }
  const projects = [(await readProjects(traces))[0]!]
  const page = { order: 'desc', limit: 100, columns: columnsOf(DEFAULT_SELECT) } as const
  const filterOf = (filter: string) => readFilters({ filter }, RUN_FIELDS).filter
  const { runs } = await reading.traces.query(reading, { ...page, projects, is_root: true })
  const ids = runs.map(({ trace_id }) => trace_id)
  if (ids.length === 0) throw new Error('There are no runs to read.')
  let next = 0
  const anyTrace = () => ids[next++ % ids.length]!
  const ofRare = filterOf('and(eq(metadata_key, "user"), eq(metadata_value, "user-77"))')
  const start_time = new Date(traces.madeAt - DAY_MS).toISOString()
  const queries: Record<string, () => Promise<unknown>> = {
    page: () => reading.traces.query(reading, { ...page, projects, is_root: true }),
    errors: () => reading.traces.query(reading, { ...page, projects, has_error: true }),
    metadata: () => reading.traces.query(reading, { ...page, projects, filter: ofRare }),
    trace: () =>
      reading.traces.query(reading, { ...page, order: 'asc', trace: anyTrace(), columns: columnsOf(FULL_SELECT) }),
    run: () => reading.traces.query(reading, { ...page, ids: [anyTrace()], columns: columnsOf(FULL_SELECT) }),
    day: () =>
      reading.traces.stats(reading, {
        projects,
        is_root: true,
        start_time,
        statistics: ['run_count', 'latency_p50', 'latency_p99', 'error_rate', 'total_tokens', 'total_cost'],
      }),
  }
  for (const query of Object.values(queries)) await query()
  return Object.fromEntries(Object.entries(queries).map(([name, query]) => [name, () => measureMedian(query)]))
}

async function measureMedian(query: () => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < REPEATS; i++) {
    const start = performance.now()
    await query()
    times.push(performance.now() - start)
  }
  return median(times)
}

export const medianOf = (slices: Record<string, number[]>, query: string): number => median(slices[query]!)
export const describeQueries = (slices: Record<string, number[]>): string =>
  Object.entries(slices)
    .map(([name, values]) => `${name} ${formatNumber(median(values), 1)}`)
    .join(', ')

/** Traces take the projects as `seedTraces()` says. */
export const QUERIES =
  'page: 100 roots; errors: 100 runs with an error; metadata: 100 runs of one user; trace: its 5 runs with all ' +
  'members; run: one; day: statistics of the last day'
