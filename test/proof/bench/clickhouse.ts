// P26: traces in ClickHouse: how many runs a second its store takes, as P19 sends them to Postgres, and the queries of
// P25. The engine is chdb behind HTTP, in a process of its own, which runs one statement at a time: a server does more.
import { join } from 'node:path'
import { connectClickHouse } from '../../../src/kernel/clickhouse/client.ts'
import { sql } from '../../../src/kernel/clickhouse/sql.ts'
import { startClickHouse } from '../../support/clickhouse.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { makeTenant } from '../support/database.ts'
import { RUNS, RUNS_TEXT } from '../support/seeded-traces.ts'
import { formatNumber, measureSlices, median } from '../support/statistics.ts'
import { measureIngestion, openTraceStore } from '../support/trace-operations.ts'
import { describeQueries, medianOf, prepareTraceQueries, QUERIES } from '../support/trace-queries.ts'
import { makeTempFolder } from '../support/workerd.ts'

const [BATCH, BYTES, SMALL_BYTES] = [100, 2400, 300]
const SECONDS = 1
const TARGET_MS = 100
const SIZE = sql`
  select toString(sum(bytes_on_disk))
  from system.parts
  where active and database = currentDatabase() and table in ('runs', 'places')`

export default {
  id: 'P26',
  what: `P19 and P25 in ClickHouse: a page of roots and one trace, of ${RUNS_TEXT} runs, p50`,
  target: `≤ ${TARGET_MS} ms each`,
  async run(context: BenchContext) {
    const seeded = await context.clickHouse().catch((error: Error) => error)
    if (seeded instanceof Error) return { measured: 'not measured', met: false, skipped: true, notes: [seeded.message] }
    const { url, tenant, madeAt, clickHouseUrl } = seeded
    const [size] = await connectClickHouse(clickHouseUrl).query<[string]>(SIZE)
    const bytes = Number(size![0]) / RUNS
    const reader = openTraceStore(url, tenant, { clickHouse: clickHouseUrl, madeAt })
    context.defer(reader.close)
    const queries = await measureSlices(await prepareTraceQueries(reader.ctx, seeded), context.progress)

    // Another engine, because nothing may be written into the kept one.
    const clickHouse = await startClickHouse(join(await makeTempFolder(context), 'clickhouse'))
    context.defer(clickHouse.stop)
    const { url: postgres } = await context.database()
    const workspace = await makeTenant(postgres, { organization: 'Bench', workspace: 'Ingestion into ClickHouse' })
    const writer = openTraceStore(postgres, workspace, { clickHouse: clickHouse.url })
    context.defer(writer.close)
    const ingest =
      (connections: number, batch = BATCH, bytes = BYTES) =>
      () =>
        measureIngestion(writer.ctx, { connections, bytes, batch, seconds: SECONDS })
    const slices = await measureSlices(
      {
        one: ingest(1),
        eight: ingest(8),
        smallEight: ingest(8, BATCH, SMALL_BYTES),
        largeBatches: ingest(8, 1000),
      },
      context.progress,
    )
    const perSecond = (candidate: keyof typeof slices) => Math.round(median(slices[candidate])).toLocaleString('en')
    const [page, trace] = [medianOf(queries, 'page'), medianOf(queries, 'trace')]
    return {
      measured: `${formatNumber(page, 1)} and ${formatNumber(trace, 1)} ms`,
      met: page <= TARGET_MS && trace <= TARGET_MS,
      notes: [
        `ms: ${describeQueries(queries)}`,
        QUERIES,
        `runs a second on one connection and on eight: ` +
          `${perSecond('one')} and ${perSecond('eight')} of ${BYTES} bytes; ` +
          `${perSecond('smallEight')} of ${SMALL_BYTES} on eight; ` +
          `${perSecond('largeBatches')} on eight in batches of 1,000`,
        `${Math.round(bytes)} bytes a run on disk, each as a post and a patch`,
      ],
      figures: { queries, runs_per_second: slices, bytes_per_run: bytes },
    }
  },
} satisfies Bench
