// P13: from a fresh isolate to its first answer, above what an empty one takes: compiling and evaluating the bundle, making the app.
import { fixed, inTurn, median } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { build, type Served, serve } from './support/workerd.ts'

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
  async run(lab: Lab) {
    const { code } = await lab.worker()
    const [bare, hello] = [await build(lab, 'bench/workers/bare.ts'), await build(lab, 'bench/workers/hello.ts')]
    const slices = await inTurn(
      SLICES,
      {
        empty: () => starting(lab, bare),
        hello: () => starting(lab, hello),
        slipway: () => starting(lab, { code, bindings }),
      },
      lab.progress,
    )
    const above = (slice: number[]) => median(slice.map((ms, i) => ms - slices.empty[i]!))
    const [ms, helloMs, empty] = [above(slices.slipway), above(slices.hello), median(slices.empty)]
    return {
      measured: `${fixed(ms, 1)} ms; ${fixed(ms / helloMs, 1)}`,
      met: ms < TARGETS.ms && ms / helloMs <= TARGETS.times,
      notes: [
        `above an empty isolate’s ${fixed(empty, 1)} ms; Hono’s hello takes ${fixed(helloMs, 1)} ms`,
        `with the isolate itself it is ${fixed((empty + ms) / (empty + helloMs), 1)} times Hono’s hello`,
      ],
      figures: { ms, times: ms / helloMs, isolates: slices },
    }
  },
} satisfies Bench

/** Milliseconds for each isolate until it has answered. */
async function starting(lab: Lab, worker: Served): Promise<number> {
  const names = Array.from({ length: ISOLATES }, (_, i) => `isolate-${i}`)
  const began = performance.now()
  const { urls, end } = await serve(lab, Object.fromEntries(names.map(name => [name, worker])))
  for (const url of Object.values(urls)) await (await fetch(`${url}/healthz`)).arrayBuffer()
  const ms = performance.now() - began
  await end()
  return ms / ISOLATES
}
