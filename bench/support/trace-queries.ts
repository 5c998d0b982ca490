// Queries over many runs, as clients send them: the first page of a project, filters, one trace, one run, statistics.
import pg from 'pg'
import type { Ctx } from '../../src/kernel/context.ts'
import { RUN_FIELDS } from '../../src/traces/filter/fields.ts'
import { readFilters } from '../../src/traces/filter/resolve.ts'
import { columnsOf, DEFAULT_SELECT, FULL_SELECT } from '../../src/traces/run-wire.ts'
import { formatNumber, measureSlices, median } from './statistics.ts'

export const RUNS = Number(process.env.BENCH_RUNS || 2_000_000)
export const RUNS_TEXT = RUNS.toLocaleString('en')

const [SLICES, REPEATS] = [5, 5]
const DAY_MS = 86_400_000

/** The projects that `seedTraces()` makes, the largest first. */
export async function readProjects(url: string, tenant_id: string): Promise<string[]> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query('select id from projects where tenant_id = $1 order by name', [tenant_id])
  await client.end()
  return rows.map(({ id }) => id)
}

/** The median times of each, in milliseconds. */
export async function measureTraceQueries(ctx: Ctx, projects: string[], progress: (text: string) => void) {
  const reading: Ctx = { ...ctx, permission: 'runs:read' }
  const sessions = [projects[0]!]
  const page = { order: 'desc', limit: 100, columns: columnsOf(DEFAULT_SELECT) } as const
  const filterOf = (filter: string) => readFilters({ filter }, RUN_FIELDS).filter
  const { runs } = await reading.traces.query(reading, { ...page, sessions, is_root: true })
  const traces = runs.map(({ trace_id }) => trace_id)
  if (traces.length === 0) throw new Error('There are no runs to read.')
  let next = 0
  const anyTrace = () => traces[next++ % traces.length]!
  const ofRare = filterOf('and(eq(metadata_key, "user"), eq(metadata_value, "user-77"))')
  const start_time = new Date(Date.now() - DAY_MS).toISOString()
  const queries: Record<string, () => Promise<unknown>> = {
    page: () => reading.traces.query(reading, { ...page, sessions, is_root: true }),
    errors: () => reading.traces.query(reading, { ...page, sessions, has_error: true }),
    metadata: () => reading.traces.query(reading, { ...page, sessions, filter: ofRare }),
    trace: () =>
      reading.traces.query(reading, { ...page, order: 'asc', trace: anyTrace(), columns: columnsOf(FULL_SELECT) }),
    run: () => reading.traces.query(reading, { ...page, ids: [anyTrace()], columns: columnsOf(FULL_SELECT) }),
    day: () =>
      reading.traces.stats(reading, {
        ...{ sessions, is_root: true, start_time },
        statistics: ['run_count', 'latency_p50', 'latency_p99', 'error_rate', 'total_tokens', 'total_cost'],
      }),
  }
  const candidates = Object.fromEntries(
    Object.entries(queries).map(([name, query]) => [name, () => measureMedian(query)]),
  )
  progress('warming up')
  for (const query of Object.values(queries)) await query()
  const slices = await measureSlices(SLICES, candidates, progress)
  return {
    slices,
    note: Object.entries(slices)
      .map(([name, values]) => `${name} ${formatNumber(median(values), 1)}`)
      .join(', '),
    median: (name: string) => median(slices[name]!),
  }
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

/** Traces take the projects as `seedTraces()` says. */
export const QUERIES =
  'page: 100 roots; errors: 100 runs with an error; metadata: 100 runs of one user; trace: its 5 runs with all ' +
  'members; run: one; day: statistics of the last day'
