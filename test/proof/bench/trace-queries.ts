// P25: reading traces where a workspace has many: the store on Postgres.
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { withClient } from '../support/seeded-database.ts'
import { RUNS_TEXT } from '../support/seeded-traces.ts'
import { formatNumber, measureSlices } from '../support/statistics.ts'
import { openTraceStore } from '../support/trace-operations.ts'
import { describeQueries, medianOf, prepareTraceQueries, QUERIES } from '../support/trace-queries.ts'

const TARGET_MS = 100
const SIZE = `
  select sum(pg_total_relation_size(oid)) / (select count(*) from runs) as bytes
  from pg_class
  where relkind = 'r' and relname ~ '^runs_'`

export default {
  id: 'P25',
  what: `a page of roots and one trace, of ${RUNS_TEXT} runs in Postgres, p50`,
  target: `≤ ${TARGET_MS} ms each`,
  async run(context: BenchContext) {
    const traces = await context.traces()
    const { ctx, close } = openTraceStore(traces.url, traces.tenant, { madeAt: traces.madeAt })
    context.defer(close)
    const slices = await measureSlices(await prepareTraceQueries(ctx, traces), context.progress)
    const { rows } = await withClient(traces.url, client => client.query(SIZE))
    const [page, trace] = [medianOf(slices, 'page'), medianOf(slices, 'trace')]
    return {
      measured: `${formatNumber(page, 1)} and ${formatNumber(trace, 1)} ms`,
      met: page <= TARGET_MS && trace <= TARGET_MS,
      notes: [
        `ms: ${describeQueries(slices)}`,
        QUERIES,
        `${Math.round(Number(rows[0].bytes))} bytes a run, with indexes`,
      ],
      figures: { queries: slices, bytes_per_run: Number(rows[0].bytes) },
    }
  },
} satisfies Bench
