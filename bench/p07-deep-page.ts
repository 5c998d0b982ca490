// P7: a page from the middle of the big tenant, found in the index alone, against reading all rows that it passes over.
import { fixed, inTurn, median, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { behindTheWalls, explained, listOf, taken } from './support/seeded.ts'

const SLICES = 7
const TARGETS = { ratio: 0.25, buffers: 1500 }

export default {
  id: 'P7',
  what: 'a page from the middle of 100,000 ÷ naive offset; buffers touched',
  target: `≤ ${TARGETS.ratio}; ≤ ${TARGETS.buffers}`,
  async run(lab: Lab) {
    const seeded = await lab.seeded()
    const client = await behindTheWalls(lab, seeded)
    const offset = Math.floor(seeded.counts.largest / 2)
    const ours = listOf({ offset: String(offset) })
    const naive = {
      query: 'select * from deployments where tenant_id = $1 order by created_at desc, id desc limit 21 offset $2',
      params: [seeded.tenant_id, offset],
    }
    for (const one of [ours, naive]) await taken(client, one, 2)
    const things = { ours: () => taken(client, ours, 5), naive: () => taken(client, naive, 3) }
    const slices = await inTurn(SLICES, things, lab.progress)
    const figure = ratio(slices.ours, slices.naive)
    const { buffers } = await explained(client, ours)
    return {
      measured: `${fixed(figure)}; ${buffers}`,
      met: figure <= TARGETS.ratio && buffers <= TARGETS.buffers,
      notes: [`offset ${offset}: ${fixed(median(slices.ours), 1)} ms, naive ${fixed(median(slices.naive), 1)} ms`],
      figures: { ratio: figure, buffers, ms: slices },
    }
  },
} satisfies Bench
