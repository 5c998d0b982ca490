// P19: a batch of a hundred runs through the trace store, against pgbench with the same SQL; and a page of runs where a
// workspace has many, against one where it has few. The batches have post and patch of each run, as clients send them.
import { migrate } from '../../../src/host/migrate.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { makeTenant, WITHOUT_LIMITS } from '../support/database.ts'
import { hasPgbench, PGBENCH_MISSING, preparePgbench } from '../support/pgbench.ts'
import { createDatabase, inlineParameters } from '../support/seeded-database.ts'
import { RUNS_TEXT, type SeededTraces, seedTraces } from '../support/seeded-traces.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { makeOperations, measureIngestion, openTraceStore } from '../support/trace-operations.ts'
import { prepareTraceQueries } from '../support/trace-queries.ts'

const [BATCH, BYTES, SMALL_BYTES] = [100, 2400, 300]
const [FEW_RUNS, SECONDS] = [10_000, 1]
const TARGETS = { ratio: 0.5, growth: 2 }
/** The ids of a batch that pgbench sends, whose beginning is another one each time. */
const PREFIX = 'cafecafe'

export default {
  id: 'P19',
  what:
    `batches of ${BATCH} runs ÷ pgbench of the same SQL; ` +
    `a page of roots at ${RUNS_TEXT} runs ÷ at ${FEW_RUNS.toLocaleString('en')}`,
  target: `≥ ${TARGETS.ratio}; ≤ ${TARGETS.growth}`,
  async run(context: BenchContext) {
    if (!hasPgbench) return PGBENCH_MISSING
    const { url } = await context.database()
    const tenant = await makeTenant(url, { organization: 'Bench', workspace: 'Ingestion' })
    let last: { query: string; params: unknown[] }[] = []
    const { ctx, close } = openTraceStore(url, tenant)
    context.defer(close)
    const uncounted = openTraceStore(url, tenant, {
      settings: WITHOUT_LIMITS,
      onTrip: statements => {
        last = statements
      },
    })
    context.defer(uncounted.close)
    const newId = (i: number) => `${PREFIX}-0000-4000-8000-${String(i).padStart(12, '0')}`
    await uncounted.ctx.traces.append(uncounted.ctx, makeOperations(BATCH, BYTES, newId))
    const runPgbench = await preparePgbench(context, url, toScript(last))
    const ofPgbench = (clients: number) => async () => BATCH * (await runPgbench(SECONDS, { clients }))
    const ingest = (connections: number, bytes: number) => () =>
      measureIngestion(ctx, { connections, bytes, batch: BATCH, seconds: SECONDS })
    const candidates = {
      one: ingest(1, BYTES),
      pgbenchOne: ofPgbench(1),
      eight: ingest(8, BYTES),
      pgbenchEight: ofPgbench(8),
      smallEight: ingest(8, SMALL_BYTES),
    }
    context.progress('warming up')
    for (const candidate of [candidates.one, candidates.pgbenchOne]) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ratio = medianRatio(slices.one, slices.pgbenchOne)
    const perSecond = (name: keyof typeof slices) => Math.round(median(slices[name])).toLocaleString('en')

    context.progress('pages')
    const pages = await measurePages(context)
    const growth = medianRatio(pages.many, pages.few)
    return {
      measured: `${formatNumber(ratio)}; ${formatNumber(growth)}`,
      met: ratio >= TARGETS.ratio && growth <= TARGETS.growth,
      notes: [
        `runs of about ${BYTES} bytes a second, on one connection and on eight: ` +
          `${perSecond('one')} and ${perSecond('eight')}, pgbench ${perSecond('pgbenchOne')} and ` +
          `${perSecond('pgbenchEight')}; of ${SMALL_BYTES} bytes on eight ${perSecond('smallEight')}`,
        `a page: ${formatNumber(median(pages.many), 1)} and ${formatNumber(median(pages.few), 1)} ms`,
      ],
      figures: { ratio, growth, runs_per_second: slices, page_ms: pages },
    }
  },
} satisfies Bench

async function measurePages(context: BenchContext): Promise<Record<'many' | 'few', number[]>> {
  const server = await context.database()
  const url = await createDatabase(server.url)
  await migrate(url, { log: () => {} })
  const tenant = await makeTenant(url, { organization: 'Bench', workspace: 'Few' })
  await seedTraces(url, tenant, FEW_RUNS)
  const preparePage = async (traces: SeededTraces) => {
    const { ctx, close } = openTraceStore(traces.url, traces.tenant, { madeAt: traces.madeAt })
    context.defer(close)
    return (await prepareTraceQueries(ctx, traces)).page!
  }
  const many = await preparePage(await context.traces())
  const few = await preparePage({ url, tenant, madeAt: Date.now() })
  return measureSlices({ many, few }, context.progress)
}

/** A transaction whose runs are new each time: their ids begin with a random number. */
function toScript(statements: { query: string; params: unknown[] }[]): string {
  const newPrefix = `lpad(to_hex(:prefix), 8, '0')`
  const texts = statements.map(statement => `${inlineParameters(statement, { [PREFIX]: newPrefix })};`)
  return ['\\set prefix random(1, 2000000000)', 'begin;', ...texts, 'commit;', ''].join('\n')
}
