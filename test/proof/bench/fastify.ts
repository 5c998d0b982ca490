// P3: the list against what a Node team would write: Fastify and node-postgres, with the same SQL and Postgres. On
// each runtime. Fastify is always on Node, and counts no requests. Beside it, Fastify that pipelines prepared
// statements.
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { readChildCpuMs, readCpuMs } from '../support/cpu.ts'
import { WITHOUT_LIMITS } from '../support/database.ts'
import { fetchFirst, type Instance, RUNTIME_NAMES, RUNTIMES, startInstance } from '../support/instance.ts'
import { describeCpu, loadTool, measureLoad, rpsOf } from '../support/load.ts'
import { startProcess } from '../support/processes.ts'
import { captureStatements } from '../support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'
import { serveWorkers } from '../support/workerd.ts'

const SECONDS = 1
const TARGETS = { workerd: 0.9, node: 1.5 }
const NAMES = { workerd: 'workerd', ...RUNTIME_NAMES, withoutLimits: 'Node without limits' }
const BASELINE = fileURLToPath(new URL('baselines/fastify-list.ts', import.meta.url))

export default {
  id: 'P3',
  what: 'requests per second of the same list ÷ Fastify with node-postgres: on workerd; Node; Deno; Bun',
  target: `≥ ${TARGETS.workerd}; ≥ ${TARGETS.node}; argued`,
  async run(context: BenchContext) {
    const large = await context.deployments()
    const { modules } = await context.worker()
    const workerd = await serveWorkers(context, { slipway: { modules, bindings: large.bindings() } })
    const instances = await Promise.all(RUNTIMES.map(runtime => startInstance(context, large.url, runtime)))
    const [node, deno, bun] = instances as [Instance, Instance, Instance]
    const withoutLimits = await startInstance(context, large.url, 'node', WITHOUT_LIMITS)
    const { headers } = await fetch(`${node.url}/v2/deployments`, { headers: { 'X-Api-Key': large.api_key } })
    if (!headers.has('RateLimit-Policy')) throw new Error('The requests are not counted.')
    const statements = await captureStatements(large, '/v2/deployments')
    const startFastify = (isPipelined: boolean) => startBaseline(context, { url: large.url, statements, isPipelined })
    const [fastify, pipelined] = [await startFastify(false), await startFastify(true)]
    const list = (server: string, server_pid: number, gateway_pid?: number) => () =>
      measureLoad(
        context,
        { url: `${server}/v2/deployments`, seconds: SECONDS, headers: { 'X-Api-Key': large.api_key } },
        {
          server: () => readCpuMs(server_pid),
          gateway: () => (gateway_pid ? readCpuMs(gateway_pid) : 0),
          Postgres: () => readChildCpuMs(large.pid),
        },
      )
    const candidates = {
      workerd: list(workerd.urls.slipway, workerd.pid, process.pid),
      node: list(node.url, node.pid),
      deno: list(deno.url, deno.pid),
      bun: list(bun.url, bun.pid),
      withoutLimits: list(withoutLimits.url, withoutLimits.pid),
      fastify: list(fastify.url, fastify.pid),
      pipelined: list(pipelined.url, pipelined.pid),
    }
    context.progress('warming up')
    // In two slices all have compiled what is hot.
    await measureSlices(candidates, () => {}, 2)
    const slices = await measureSlices(candidates, context.progress)
    const ratioTo = (baseline: 'fastify' | 'pipelined') => (name: keyof typeof slices) =>
      medianRatio(rpsOf(slices[name]), rpsOf(slices[baseline]))
    const ratioOf = ratioTo('fastify')
    const ratios = { workerd: ratioOf('workerd'), node: ratioOf('node'), deno: ratioOf('deno'), bun: ratioOf('bun') }
    const others = { withoutLimits: ratioOf('withoutLimits'), pipelined: ratioOf('pipelined') }
    const toPipelined = (['workerd', 'node'] as const).map(ratioTo('pipelined'))
    const describe = (name: keyof typeof slices) =>
      `${formatNumber(median(rpsOf(slices[name])), 0)} requests per second; CPU of each: ${describeCpu(slices[name])}`
    return {
      measured: Object.values(ratios)
        .map(ratio => formatNumber(ratio))
        .join('; '),
      met: ratios.workerd >= TARGETS.workerd && ratios.node >= TARGETS.node,
      notes: [
        `÷ Fastify that pipelines prepared statements: ${toPipelined.map(ratio => formatNumber(ratio)).join('; ')}`,
        `Node without limits ÷ Fastify: ${formatNumber(others.withoutLimits)}`,
        ...(['workerd', ...RUNTIMES, 'withoutLimits'] as const).map(name => `${NAMES[name]} ${describe(name)}`),
        `Fastify ${describe('fastify')}`,
        `pipelined Fastify ${describe('pipelined')}`,
        `load by ${loadTool}, 8 connections`,
      ],
      figures: { ratios, others, to_pipelined: toPipelined, tool: loadTool, slices },
    }
  },
} satisfies Bench

async function startBaseline(context: BenchContext, settings: object): Promise<{ url: string; pid: number }> {
  const port = await findFreePort()
  const { broken, child } = startProcess(context, process.execPath, [BASELINE, JSON.stringify({ port, ...settings })])
  const url = `http://127.0.0.1:${port}`
  await fetchFirst({ url, broken }, '/healthz')
  return { url, pid: child.pid! }
}
