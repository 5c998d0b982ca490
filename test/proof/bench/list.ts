// P2: the list through workerd and the gateway, and on Node, against pgbench running the same statements, which counts
// no requests.
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { readChildCpuMs, readCpuMs } from '../support/cpu.ts'
import { WITHOUT_LIMITS } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'
import { describeCpu, loadTool, measureLoad, rpsOf } from '../support/load.ts'
import { hasPgbench, PGBENCH_MISSING, preparePgbench } from '../support/pgbench.ts'
import { captureStatements, inlineParameters } from '../support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { serveWorkers } from '../support/workerd.ts'

const SECONDS = 1
const TARGETS = { workerd: 0.4, node: 0.6 }

export default {
  id: 'P2',
  what: 'requests per second of GET /v2/deployments (20 of 100,000) ÷ pgbench of the same SQL: on workerd; Node',
  target: `≥ ${formatNumber(TARGETS.workerd)}; ≥ ${formatNumber(TARGETS.node)}`,
  async run(context: BenchContext) {
    if (!hasPgbench) return PGBENCH_MISSING
    const large = await context.deployments()
    const statements = (await captureStatements(large, '/v2/deployments')).map(one => `${inlineParameters(one)};\n`)
    const runPgbench = await preparePgbench(context, large.url, `begin;\n${statements.join('')}commit;\n`)
    const { modules } = await context.worker()
    const bindings = large.bindings()
    const serve = async (settings: Record<string, string> = {}) => {
      const { urls, pid } = await serveWorkers(context, {
        slipway: { modules, bindings: { ...bindings, ...settings } },
      })
      return { url: urls.slipway, pid }
    }
    const load =
      ({ url, pid }: { url: string; pid: number }, gateway: () => number) =>
      () =>
        measureLoad(
          context,
          { url: `${url}/v2/deployments`, seconds: SECONDS, headers: { 'X-Api-Key': large.api_key } },
          { server: () => readCpuMs(pid), gateway, Postgres: () => readChildCpuMs(large.pid) },
        )
    const ofGateway = () => readCpuMs(process.pid)
    const ofNone = () => 0
    const ofPgbench = (protocol: 'simple' | 'prepared') => async () => ({
      rps: await runPgbench(SECONDS, { protocol }),
      cpu: { server: 0, gateway: 0, Postgres: 0 },
    })
    const candidates = {
      workerd: load(await serve(), ofGateway),
      node: load(await startInstance(context, large.url), ofNone),
      workerdWithoutLimits: load(await serve(WITHOUT_LIMITS), ofGateway),
      nodeWithoutLimits: load(await startInstance(context, large.url, 'node', WITHOUT_LIMITS), ofNone),
      database: ofPgbench('simple'),
      prepared: ofPgbench('prepared'),
    }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ratioOf = (name: keyof typeof slices, base: 'database' | 'prepared' = 'database') =>
      medianRatio(rpsOf(slices[name]), rpsOf(slices[base]))
    const ratios = { workerd: ratioOf('workerd'), node: ratioOf('node') }
    const withoutLimits = { workerd: ratioOf('workerdWithoutLimits'), node: ratioOf('nodeWithoutLimits') }
    const toPrepared = { workerd: ratioOf('workerd', 'prepared'), node: ratioOf('node', 'prepared') }
    const both = ({ workerd, node }: typeof ratios) => `${formatNumber(workerd)}; ${formatNumber(node)}`
    const rate = (name: keyof typeof slices) => formatNumber(median(rpsOf(slices[name])), 0)
    return {
      measured: both(ratios),
      met: ratios.workerd >= TARGETS.workerd && ratios.node >= TARGETS.node,
      notes: [
        `without limits: ${both(withoutLimits)}`,
        `workerd ${rate('workerd')} requests per second: ${describeCpu(slices.workerd)}`,
        `Node ${rate('node')} requests per second: ${describeCpu(slices.node)}`,
        `load by ${loadTool}, 8 connections`,
        `${rate('database')} transactions per second by pgbench, 8 connections`,
        `${rate('prepared')} with prepared statements, of which ours are ${both(toPrepared)}`,
      ],
      figures: { ratios, without_limits: withoutLimits, to_prepared: toPrepared, tool: loadTool, slices },
    }
  },
} satisfies Bench
