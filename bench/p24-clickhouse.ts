// P24: traces in ClickHouse: how many runs a second its store takes, as P19 sends them to Postgres, and the queries of
// P23. The engine is chdb behind HTTP, in a process of its own, which runs one statement at a time: a server does more.
import { join } from 'node:path'
import { bootstrap } from '../src/access/bootstrap.ts'
import { createHost } from '../src/host/node.ts'
import { connectClickHouse } from '../src/traces/clickhouse/client.ts'
import { sql } from '../src/traces/clickhouse/sql.ts'
import { startClickHouse } from '../test/support/clickhouse.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { SEALING_KEYS } from './support/database.ts'
import { seedClickHouse } from './support/seeded-clickhouse.ts'
import { formatNumber, measureSlices, median } from './support/statistics.ts'
import { makeOperations, openTraceStore } from './support/trace-operations.ts'
import { measureTraceQueries, QUERIES, RUNS, RUNS_TEXT, readProjects } from './support/trace-queries.ts'
import { makeTempFolder } from './support/workerd.ts'

const [BATCH, BYTES, SMALL_BYTES] = [100, 2400, 300]
const [SLICES, SECONDS] = [5, 2]
const TARGET_MS = 100
const SIZE = sql`
  select toString(sum(bytes_on_disk) / (select uniqExact(id) from runs)), toString(sum(rows))
  from system.parts
  where active and database = currentDatabase() and table in ('runs', 'places')`

export default {
  id: 'P24',
  what: `P19 and P23 in ClickHouse: a page of roots and one trace, of ${RUNS_TEXT} runs, p50`,
  target: `≤ ${TARGET_MS} ms each`,
  async run(context: BenchContext) {
    const { url } = await context.database()
    const clickHouse = await startClickHouse(join(await makeTempFolder(context), 'clickhouse')).catch(error => error)
    if (clickHouse instanceof Error)
      return { measured: 'not measured', met: false, skipped: true, notes: [clickHouse.message] }
    context.defer(clickHouse.stop)
    const host = createHost({ PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: url }, { log: () => {} })
    const open = async (workspace: string) => {
      const tenant = await bootstrap(host.app.database, { organization: 'Bench', workspace })
      const { ctx, close } = openTraceStore(url, tenant, undefined, clickHouse.url)
      context.defer(close)
      return { tenant, ctx }
    }
    const seeded = await open('Traces in ClickHouse')
    await seedClickHouse(url, clickHouse.url, seeded.tenant, RUNS, done =>
      context.progress(`${done.toLocaleString('en')} of ${RUNS_TEXT} runs`),
    )
    const [size] = await connectClickHouse(clickHouse.url).query<[string]>(SIZE)
    const projects = await readProjects(url, seeded.tenant.tenant_id)
    const queries = await measureTraceQueries(seeded.ctx, projects, context.progress)
    const { ctx } = await open('Ingestion into ClickHouse')
    await host.close()
    const ingest =
      (connections: number, bytes: number, batch = BATCH) =>
      async () => {
        const start = performance.now()
        let stored = 0
        const work = async () => {
          while (performance.now() < start + SECONDS * 1000) {
            await ctx.traces.append(ctx, makeOperations(batch, bytes))
            stored += batch
          }
        }
        await Promise.all(Array.from({ length: connections }, work))
        return (stored * 1000) / (performance.now() - start)
      }
    const slices = await measureSlices(
      SLICES,
      {
        ...{ one: ingest(1, BYTES), eight: ingest(8, BYTES) },
        ...{ smallOne: ingest(1, SMALL_BYTES), smallEight: ingest(8, SMALL_BYTES) },
        ...{ largeBatches: ingest(8, BYTES, 1000) },
      },
      context.progress,
    )
    const perSecond = (candidate: keyof typeof slices) => Math.round(median(slices[candidate])).toLocaleString('en')
    const [page, trace] = [queries.median('page'), queries.median('trace')]
    return {
      measured: `${formatNumber(page, 1)} and ${formatNumber(trace, 1)} ms`,
      met: page <= TARGET_MS && trace <= TARGET_MS,
      notes: [
        `ms: ${queries.note}`,
        QUERIES,
        `runs a second on one connection and on eight: ` +
          `${perSecond('one')} and ${perSecond('eight')} of ${BYTES} bytes, ` +
          `${perSecond('smallOne')} and ${perSecond('smallEight')} of ${SMALL_BYTES}; ` +
          `${perSecond('largeBatches')} of ${BYTES} on eight in batches of 1,000`,
        `${Math.round(Number(size![0]))} bytes a run on disk, each as a post and a patch`,
      ],
      figures: { queries: queries.slices, runs_per_second: slices, bytes_per_run: Number(size![0]) },
    }
  },
} satisfies Bench
