// P13: the CPU time of a fresh isolate to its first answer, above that of an empty one: compiling and evaluating the
// bundle, and creating the app.

import type { Bench, BenchContext } from '../support/bench-context.ts'
import { CPU_TIMES_MISSING, hasCpuTimes, readCpuMs } from '../support/cpu.ts'
import { formatNumber, measureSlices, median } from '../support/statistics.ts'
import { buildWorker, serveWorkers, type WorkerDefinition } from '../support/workerd.ts'

/** Isolates of the same Worker per workerd, so that its own start weighs little. */
const ISOLATES = 10
const TARGETS = { health: 25, list: 35 }

export default {
  id: 'P13',
  what: 'CPU of a fresh isolate to its first answer ÷ of Hono’s hello, without an empty one’s: /healthz; a list',
  target: `≤ ${TARGETS.health}; ≤ ${TARGETS.list}`,
  async run(context: BenchContext) {
    if (!hasCpuTimes) return CPU_TIMES_MISSING
    const { modules } = await context.worker()
    const { bindings, tenant } = await context.database()
    const slipway = { modules, bindings: bindings() }
    const [bare, hello] = [
      await buildWorker(context, 'test/proof/bench/workers/bare.ts'),
      await buildWorker(context, 'test/proof/bench/workers/hello.ts'),
    ]
    const who = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id }
    const candidates = {
      empty: () => measureStart(context, bare, '/healthz'),
      hello: () => measureStart(context, hello, '/healthz'),
      health: () => measureStart(context, slipway, '/healthz'),
      list: () => measureStart(context, slipway, '/v2/deployments', who),
    }
    // The first reads of the files.
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const above = (name: keyof typeof slices) => median(slices[name].map((ms, i) => ms - slices.empty[i]!))
    const [helloMs, health, list] = [above('hello'), above('health'), above('list')]
    const empty = median(slices.empty)
    const times = { health: health / helloMs, list: list / helloMs }
    return {
      measured: `${formatNumber(times.health, 1)}; ${formatNumber(times.list, 1)}`,
      met: times.health <= TARGETS.health && times.list <= TARGETS.list,
      notes: [
        `above an empty isolate: Hono’s hello ${formatNumber(helloMs, 1)} ms, ` +
          `/healthz ${formatNumber(health, 1)} ms, list ${formatNumber(list, 1)} ms`,
        `with the ${formatNumber(empty, 1)} ms of an empty isolate in both: ` +
          `${formatNumber((health + empty) / (helloMs + empty), 1)}; ` +
          `${formatNumber((list + empty) / (helloMs + empty), 1)}`,
      ],
      figures: { times, ms: { hello: helloMs, health, list }, isolates: slices },
    }
  },
} satisfies Bench

/** CPU milliseconds per isolate until it has answered. */
async function measureStart(
  context: BenchContext,
  worker: WorkerDefinition,
  path: string,
  headers: Record<string, string> = {},
): Promise<number> {
  const names = Array.from({ length: ISOLATES }, (_, i) => `isolate-${i}`)
  const { urls, pid, end } = await serveWorkers(context, Object.fromEntries(names.map(name => [name, worker])))
  for (const url of Object.values(urls)) {
    const response = await fetch(url + path, { headers })
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`${path} answers ${response.status}`)
  }
  const ms = readCpuMs(pid)
  await end()
  return ms / ISOLATES
}
