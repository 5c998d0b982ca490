// P13: from a fresh isolate to its first answer, above what an empty one takes: compiling and evaluating the bundle, making the app.

import type { Bench, BenchContext } from './support/bench-context.ts'
import { formatNumber, measureSlices, median } from './support/statistics.ts'
import { buildWorker, serveWorkers, type WorkerDefinition } from './support/workerd.ts'

/** A workerd starts with so many isolates of the same Worker, so that its own start and the clock's grain weigh little. */
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
  what: 'a fresh isolate to its first answer; ÷ Hono’s hello',
  target: `< ${TARGETS.ms} ms; ≤ ${TARGETS.times}`,
  async run(lab: BenchContext) {
    const { code } = await lab.worker()
    const [bare, hello] = [
      await buildWorker(lab, 'bench/workers/bare.ts'),
      await buildWorker(lab, 'bench/workers/hello.ts'),
    ]
    const slices = await measureSlices(
      SLICES,
      {
        empty: () => measureColdStart(lab, bare),
        hello: () => measureColdStart(lab, hello),
        slipway: () => measureColdStart(lab, { code, bindings }),
      },
      lab.progress,
    )
    const above = (slice: number[]) => median(slice.map((ms, i) => ms - slices.empty[i]!))
    const [ms, helloMs, empty] = [above(slices.slipway), above(slices.hello), median(slices.empty)]
    return {
      measured: `${formatNumber(ms, 1)} ms; ${formatNumber(ms / helloMs, 1)}`,
      met: ms < TARGETS.ms && ms / helloMs <= TARGETS.times,
      notes: [
        `above an empty isolate’s ${formatNumber(empty, 1)} ms; Hono’s hello takes ${formatNumber(helloMs, 1)} ms`,
        `with the isolate itself it is ${formatNumber((empty + ms) / (empty + helloMs), 1)} times Hono’s hello`,
      ],
      figures: { ms, times: ms / helloMs, isolates: slices },
    }
  },
} satisfies Bench

/** Milliseconds for each isolate until it has answered. */
async function measureColdStart(lab: BenchContext, worker: WorkerDefinition): Promise<number> {
  const names = Array.from({ length: ISOLATES }, (_, i) => `isolate-${i}`)
  const began = performance.now()
  const { urls, end } = await serveWorkers(lab, Object.fromEntries(names.map(name => [name, worker])))
  for (const url of Object.values(urls)) await (await fetch(`${url}/healthz`)).arrayBuffer()
  const ms = performance.now() - began
  await end()
  return ms / ISOLATES
}
