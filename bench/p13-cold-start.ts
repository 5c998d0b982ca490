// P13: from a fresh isolate to its first answer, above what an empty one takes: compiling and evaluating the bundle and
// creating the app.

import type { Bench, BenchContext } from './support/bench-context.ts'
import { formatNumber, measureSlices, median } from './support/statistics.ts'
import { buildWorker, serveWorkers, type WorkerDefinition } from './support/workerd.ts'

/** Isolates of the same Worker per workerd, so that its own start and the clock's resolution weigh little. */
const ISOLATES = 10
const SLICES = 9
const TARGETS = { ms: 100, times: 8 }
const bindings = {
  PUBLIC_URL: 'http://slipway.test',
  DATABASE_URL: 'postgresql://nobody@localhost/none',
  SEALING_KEYS: `a:${'A'.repeat(43)}`,
}

export default {
  id: 'P13',
  what: 'time of a fresh isolate to its first answer; ÷ that of Hono’s hello world',
  target: `< ${TARGETS.ms} ms; ≤ ${TARGETS.times}`,
  async run(context: BenchContext) {
    const { code } = await context.worker()
    const [bare, hello] = [
      await buildWorker(context, 'bench/workers/bare.ts'),
      await buildWorker(context, 'bench/workers/hello.ts'),
    ]
    const slices = await measureSlices(
      SLICES,
      {
        empty: () => measureColdStart(context, bare),
        hello: () => measureColdStart(context, hello),
        slipway: () => measureColdStart(context, { code, bindings }),
      },
      context.progress,
    )
    const above = (slice: number[]) => median(slice.map((ms, i) => ms - slices.empty[i]!))
    const [ms, helloMs, empty] = [above(slices.slipway), above(slices.hello), median(slices.empty)]
    return {
      measured: `${formatNumber(ms, 1)} ms; ${formatNumber(ms / helloMs, 1)}`,
      met: ms < TARGETS.ms && ms / helloMs <= TARGETS.times,
      notes: [
        `without the ${formatNumber(empty, 1)} ms of an empty isolate`,
        `Hono’s hello world: ${formatNumber(helloMs, 1)} ms`,
        `the empty isolate included: ${formatNumber((empty + ms) / (empty + helloMs), 1)} times Hono’s hello world`,
      ],
      figures: { ms, times: ms / helloMs, isolates: slices },
    }
  },
} satisfies Bench

/** Milliseconds per isolate until it has answered. */
async function measureColdStart(context: BenchContext, worker: WorkerDefinition): Promise<number> {
  const names = Array.from({ length: ISOLATES }, (_, i) => `isolate-${i}`)
  const start = performance.now()
  const { urls, end } = await serveWorkers(context, Object.fromEntries(names.map(name => [name, worker])))
  for (const url of Object.values(urls)) await (await fetch(`${url}/healthz`)).arrayBuffer()
  const ms = performance.now() - start
  await end()
  return ms / ISOLATES
}
