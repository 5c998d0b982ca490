// P1: what all that surrounds a request costs, in requests that are not answered meanwhile.

import type { Bench, BenchContext } from './support/bench-context.ts'
import { loadTool, measureRps } from './support/load.ts'
import { formatNumber, measureSlices, medianRatio } from './support/statistics.ts'
import { buildWorker, serveWorkers } from './support/workerd.ts'

const SLICES = 11
const SECONDS = 1
const TARGET = 0.75
/** Nothing here asks the database. */
const bindings = {
  PUBLIC_URL: 'http://slipway.test',
  DATABASE_URL: 'postgresql://nobody@localhost/none',
  SEALING_KEYS: `a:${'A'.repeat(43)}`,
  RATE_LIMIT_PER_MINUTE: '0',
}

export default {
  id: 'P1',
  what: '/healthz through all middleware ÷ a bare handler, rps',
  target: `≥ ${TARGET}`,
  async run(lab: BenchContext) {
    const { code } = await lab.worker()
    const bare = await buildWorker(lab, 'bench/workers/bare.ts')
    const byHand = await buildWorker(lab, 'bench/workers/by-hand.ts')
    const { slipway } = (await serveWorkers(lab, { slipway: { code, bindings } })).urls
    const answer = await fetch(`${slipway}/healthz`)
    const same = { HEADERS: JSON.stringify(Object.fromEntries(answer.headers)), BODY: await answer.text() }
    const { urls } = await serveWorkers(lab, { bare, byHand: { code: byHand.code, bindings: same } })
    const load = (url: string) => () => measureRps(lab, { url: `${url}/healthz`, seconds: SECONDS })
    const things = { slipway: load(slipway), bare: load(urls.bare), byHand: load(urls.byHand) }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const figure = medianRatio(slices.slipway, slices.bare)
    const hand = medianRatio(slices.byHand, slices.bare)
    return {
      measured: formatNumber(figure),
      met: figure >= TARGET,
      notes: [
        `by ${loadTool}, ${SLICES} slices of ${SECONDS} s; the same headers and line of log, written by hand, reach ${formatNumber(hand)}`,
        `÷ that: ${formatNumber(medianRatio(slices.slipway, slices.byHand))}`,
      ],
      figures: { ratio: figure, byHand: hand, tool: loadTool, rps: slices },
    }
  },
} satisfies Bench
