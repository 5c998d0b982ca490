// P14: the CPU time that a list costs in the Worker, against a Worker written by hand that fetches the same rows.
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { CPU_TIMES_MISSING, hasCpuTimes, readCpuMs } from '../support/cpu.ts'
import { cpuOf, measureLoad } from '../support/load.ts'
import { captureStatements, type LargeDatabase } from '../support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { buildWorker, serveWorkers, type WorkerDefinition } from '../support/workerd.ts'

const SECONDS = 1
const LIMITS = [20, 100] as const
const TARGET = 1.15
/** Headers that workerd sets. */
const OF_BODY = /^(content-length|transfer-encoding)$/

export default {
  id: 'P14',
  what: 'CPU of workerd per request ÷ of a hand-written Worker that fetches the same rows: list 20; list 100',
  target: `≤ ${TARGET} each`,
  async run(context: BenchContext) {
    if (!hasCpuTimes) return CPU_TIMES_MISSING
    const large = await context.deployments()
    const { modules } = await context.worker()
    const bindings = large.bindings()
    const slipway = await serve(context, { modules, bindings }, large)
    const [twenty, hundred] = [
      await serveByHand(context, large, slipway.url, LIMITS[0]),
      await serveByHand(context, large, slipway.url, LIMITS[1]),
    ]
    const candidates = {
      slipway20: slipway.load(LIMITS[0]),
      byHand20: twenty.load(LIMITS[0]),
      slipway100: slipway.load(LIMITS[1]),
      byHand100: hundred.load(LIMITS[1]),
    }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ms = (name: keyof typeof slices) => cpuOf(slices[name], 'workerd')
    const ratios = LIMITS.map(limit => medianRatio(ms(`slipway${limit}`), ms(`byHand${limit}`)))
    const describe = (limit: 20 | 100) =>
      `${formatNumber(median(ms(`slipway${limit}`)))} ÷ ${formatNumber(median(ms(`byHand${limit}`)))} ms`
    return {
      measured: ratios.map(ratio => formatNumber(ratio)).join('; '),
      met: ratios.every(ratio => ratio <= TARGET),
      notes: [`list 20: ${describe(20)}; list 100: ${describe(100)}`],
      figures: { ratios, slices },
    }
  },
} satisfies Bench

/** In a process of its own. */
async function serve(context: BenchContext, worker: WorkerDefinition, { api_key }: LargeDatabase) {
  const { urls, pid } = await serveWorkers(context, { worker })
  const headers = { 'X-Api-Key': api_key }
  const load = (limit: number) => () =>
    measureLoad(
      context,
      { url: `${urls.worker}/v2/deployments?limit=${limit}`, seconds: SECONDS, connections: 4, headers },
      { workerd: () => readCpuMs(pid) },
    )
  return { url: urls.worker, load }
}

async function serveByHand(context: BenchContext, large: LargeDatabase, slipway: string, limit: number) {
  const path = `/v2/deployments?limit=${limit}`
  const headers = { 'X-Api-Key': large.api_key }
  const answer = await fetch(slipway + path, { headers })
  const expected = (await answer.json()) as { resources: unknown[] }
  const queries = await captureStatements(large, path)
  const worker = await serve(
    context,
    {
      modules: (await buildWorker(context, 'test/proof/bench/workers/list-by-hand.ts')).modules,
      bindings: {
        ...large.bindings(),
        DATABASE_GATEWAY_URL: large.gateway,
        STATEMENTS: JSON.stringify({ queries }),
        KEY_HASH: await hashKey(large.api_key),
        HEADERS: JSON.stringify(Object.fromEntries([...answer.headers].filter(([name]) => !OF_BODY.test(name)))),
      },
    },
    large,
  )
  const listed = (await (await fetch(worker.url + path, { headers })).json()) as { resources: unknown[] }
  if (listed.resources.length !== expected.resources.length) throw new Error('The hand-written Worker lists others.')
  return worker
}

async function hashKey(key: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(key))).toString('hex')
}
