// P23: reading traces where a workspace has many: the store on Postgres.
import { bootstrap } from '../src/access/bootstrap.ts'
import { migrate } from '../src/host/migrate.ts'
import { createHost } from '../src/host/node.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { SEALING_KEYS } from './support/database.ts'
import { withClient } from './support/seeded-database.ts'
import { seedTraces } from './support/seeded-traces.ts'
import { formatNumber } from './support/statistics.ts'
import { openTraceStore } from './support/trace-operations.ts'
import { measureTraceQueries, QUERIES, RUNS, RUNS_TEXT, readProjects } from './support/trace-queries.ts'

const TARGET_MS = 100
const SIZE = `
  select sum(pg_total_relation_size(oid)) / (select count(*) from runs) as bytes
  from pg_class
  where relkind = 'r' and relname ~ '^runs_'`

export default {
  id: 'P23',
  what: `a page of roots and one trace, of ${RUNS_TEXT} runs in Postgres, p50`,
  target: `≤ ${TARGET_MS} ms each`,
  async run(context: BenchContext) {
    const server = await context.database()
    const name = `traces_${crypto.randomUUID().replaceAll('-', '')}`
    await withClient(server.url, client => client.query(`create database ${name}`))
    const url = Object.assign(new URL(server.url), { pathname: `/${name}` }).href
    await migrate(url, { log: () => {} })
    const host = createHost({ PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: url }, { log: () => {} })
    const tenant = await bootstrap(host.app.database, { organization: 'Bench', workspace: 'Traces' })
    await host.close()
    await seedTraces(url, tenant, RUNS, done => context.progress(`${done.toLocaleString('en')} of ${RUNS_TEXT} runs`))
    const { ctx, close } = openTraceStore(url, tenant)
    context.defer(close)
    const queries = await measureTraceQueries(ctx, await readProjects(url, tenant.tenant_id), context.progress)
    const { rows } = await withClient(url, client => client.query(SIZE))
    const [page, trace] = [queries.median('page'), queries.median('trace')]
    return {
      measured: `${formatNumber(page, 1)} and ${formatNumber(trace, 1)} ms`,
      met: page <= TARGET_MS && trace <= TARGET_MS,
      notes: [`ms: ${queries.note}`, QUERIES, `${Math.round(Number(rows[0].bytes))} bytes a run, with indexes`],
      figures: { queries: queries.slices, bytes_per_run: Number(rows[0].bytes) },
    }
  },
} satisfies Bench
