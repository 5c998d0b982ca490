// P19: a batch of a hundred runs through the trace store, against pgbench with the same SQL; and how many runs a second
// the store takes. The batches have post and patch of each run, as clients send them.
import { bootstrap } from '../src/access/bootstrap.ts'
import { createHost } from '../src/host/node.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { SEALING_KEYS } from './support/database.ts'
import { hasPgbench, preparePgbench } from './support/pgbench.ts'
import { inlineParameters, withClient } from './support/seeded-database.ts'
import { formatNumber, measureSlices, median } from './support/statistics.ts'
import { makeOperations, openTraceStore } from './support/trace-operations.ts'

const [BATCH, BYTES, SMALL_BYTES] = [100, 2400, 300]
const [SLICES, SECONDS] = [5, 2]
const TARGET = 3000
/** The ids of a batch that pgbench sends, whose beginning is another one each time. */
const PREFIX = 'cafecafe'
const SIZE = `
  select sum(pg_total_relation_size(oid)) / (select count(*) from runs) as bytes
  from pg_class
  where relkind = 'r' and relname ~ '^runs_'`

export default {
  id: 'P19',
  what: `runs a second, on one connection and on eight: batches of ${BATCH}, about ${BYTES} bytes a run`,
  target: `≥ ${TARGET.toLocaleString('en')} small runs on eight`,
  async run(context: BenchContext) {
    const { url } = await context.database()
    const host = createHost({ PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: url }, { log: () => {} })
    const tenant = await bootstrap(host.app.database, { organization: 'Bench', workspace: 'Traces' })
    await host.close()
    let last: { query: string; params: unknown[] }[] = []
    const { ctx, close } = openTraceStore(url, tenant, statements => {
      last = statements
    })
    context.defer(close)

    const ingest = (connections: number, bytes: number) => async () => {
      const end = performance.now() + SECONDS * 1000
      const start = performance.now()
      let stored = 0
      const work = async () => {
        while (performance.now() < end) {
          await ctx.traces.append(ctx, makeOperations(BATCH, bytes))
          stored += BATCH
        }
      }
      await Promise.all(Array.from({ length: connections }, work))
      return (stored * 1000) / (performance.now() - start)
    }
    await ctx.traces.append(
      ctx,
      makeOperations(BATCH, BYTES, i => `${PREFIX}-0000-4000-8000-${String(i).padStart(12, '0')}`),
    )
    const pgbench = hasPgbench ? await preparePgbench(context, url, toScript(last)) : undefined
    const ofPgbench = (connections: number) => async () =>
      BATCH * ((await pgbench?.(SECONDS, connections)) ?? Number.NaN)
    const candidates = {
      one: ingest(1, BYTES),
      eight: ingest(8, BYTES),
      smallOne: ingest(1, SMALL_BYTES),
      smallEight: ingest(8, SMALL_BYTES),
      pgbenchOne: ofPgbench(1),
      pgbenchEight: ofPgbench(8),
    }
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const perSecond = (name: keyof typeof slices) => Math.round(median(slices[name])).toLocaleString('en')
    const { rows } = await withClient(url, client => client.query(SIZE))
    const ratio = median(slices.pgbenchOne) / median(slices.one)
    return {
      measured: `${perSecond('one')} and ${perSecond('eight')}`,
      met: median(slices.smallEight) >= TARGET,
      notes: [
        `${SMALL_BYTES} bytes a run: ${perSecond('smallOne')} and ${perSecond('smallEight')}`,
        pgbench
          ? `pgbench with the same SQL: ${perSecond('pgbenchOne')} and ${perSecond('pgbenchEight')}; ` +
            `a batch takes ${formatNumber(ratio)} of its time there`
          : 'pgbench is not installed',
        `${Math.round(Number(rows[0].bytes))} bytes a run on disk, with indexes`,
      ],
      figures: { ratio, runs_per_second: slices, bytes_per_run: Number(rows[0].bytes) },
    }
  },
} satisfies Bench

/** A transaction whose runs are new each time: their ids begin with a random number. */
function toScript(statements: { query: string; params: unknown[] }[]): string {
  const literal = new RegExp(`( E)?'(?:[^']|'')*${PREFIX}(?:[^']|'')*'`, 'g')
  const withNewIds = (text: string) =>
    text.replace(literal, found => `replace(${found}, '${PREFIX}', lpad(to_hex(:prefix), 8, '0'))`)
  const texts = statements.map(statement => `${withNewIds(inlineParameters(statement))};`)
  return ['\\set prefix random(1, 2000000000)', 'begin;', ...texts, 'commit;', ''].join('\n')
}
