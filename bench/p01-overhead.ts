// P1: what all that surrounds a request costs, in requests that are not answered meanwhile.
import { fixed, inTurn, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { rps, tool } from './support/load.ts'
import { build, serve } from './support/workerd.ts'

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
  async run(lab: Lab) {
    const { code } = await lab.worker()
    const bare = await build(lab, 'bench/workers/bare.ts')
    const byHand = await build(lab, 'bench/workers/by-hand.ts')
    const { slipway } = (await serve(lab, { slipway: { code, bindings } })).urls
    const answer = await fetch(`${slipway}/healthz`)
    const same = { HEADERS: JSON.stringify(Object.fromEntries(answer.headers)), BODY: await answer.text() }
    const { urls } = await serve(lab, { bare, byHand: { code: byHand.code, bindings: same } })
    const load = (url: string) => () => rps(lab, { url: `${url}/healthz`, seconds: SECONDS })
    const things = { slipway: load(slipway), bare: load(urls.bare), byHand: load(urls.byHand) }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const slices = await inTurn(SLICES, things, lab.progress)
    const figure = ratio(slices.slipway, slices.bare)
    const hand = ratio(slices.byHand, slices.bare)
    return {
      measured: fixed(figure),
      met: figure >= TARGET,
      notes: [
        `by ${tool}, ${SLICES} slices of ${SECONDS} s; the same headers and line of log, written by hand, reach ${fixed(hand)}`,
        `÷ that: ${fixed(ratio(slices.slipway, slices.byHand))}`,
      ],
      figures: { ratio: figure, byHand: hand, tool, rps: slices },
    }
  },
} satisfies Bench
