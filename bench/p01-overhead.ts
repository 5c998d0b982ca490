// P1: the cost of everything around a request, on a route that does nothing.

import type { Bench, BenchContext } from './support/bench-context.ts'
import { loadTool, measureRps } from './support/load.ts'
import { formatNumber, measureSlices, medianRatio } from './support/statistics.ts'
import { buildWorker, serveWorkers } from './support/workerd.ts'

const SLICES = 11
const SECONDS = 1
const TARGET = 0.75
/** `/healthz` does not use the database. */
const bindings = {
  PUBLIC_URL: 'http://slipway.test',
  DATABASE_URL: 'postgresql://nobody@localhost/none',
  SEALING_KEYS: `a:${'A'.repeat(43)}`,
  RATE_LIMIT_PER_MINUTE: '0',
}

export default {
  id: 'P1',
  what: 'requests per second of /healthz ÷ a bare Worker',
  target: `≥ ${TARGET}`,
  async run(context: BenchContext) {
    const { code } = await context.worker()
    const bare = await buildWorker(context, 'bench/workers/bare.ts')
    const byHand = await buildWorker(context, 'bench/workers/by-hand.ts')
    const { slipway } = (await serveWorkers(context, { slipway: { code, bindings } })).urls
    const response = await fetch(`${slipway}/healthz`)
    const copied = { HEADERS: JSON.stringify(Object.fromEntries(response.headers)), BODY: await response.text() }
    const { urls } = await serveWorkers(context, { bare, byHand: { code: byHand.code, bindings: copied } })
    const load = (url: string) => () => measureRps(context, { url: `${url}/healthz`, seconds: SECONDS })
    const candidates = { slipway: load(slipway), bare: load(urls.bare), byHand: load(urls.byHand) }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const ratio = medianRatio(slices.slipway, slices.bare)
    const byHandRatio = medianRatio(slices.byHand, slices.bare)
    return {
      measured: formatNumber(ratio),
      met: ratio >= TARGET,
      notes: [
        `load by ${loadTool}, ${SLICES} slices of ${SECONDS} s`,
        `a hand-written Worker with the same headers and log line: ${formatNumber(byHandRatio)} of the bare one`,
        `Slipway ÷ the hand-written Worker: ${formatNumber(medianRatio(slices.slipway, slices.byHand))}`,
      ],
      figures: { ratio, byHand: byHandRatio, tool: loadTool, rps: slices },
    }
  },
} satisfies Bench
