// P7: a page from the middle of the big tenant, found in the index alone, against reading all rows that it passes over.

import type { Bench, BenchContext } from './support/bench-context.ts'
import { connectAsTenant, explainStatement, makeListStatement, measureStatement } from './support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from './support/statistics.ts'

const SLICES = 7
const TARGETS = { ratio: 0.25, buffers: 1500 }

export default {
  id: 'P7',
  what: 'a page from the middle of 100,000 ÷ naive offset; buffers touched',
  target: `≤ ${TARGETS.ratio}; ≤ ${TARGETS.buffers}`,
  async run(lab: BenchContext) {
    const seeded = await lab.seeded()
    const client = await connectAsTenant(lab, seeded)
    const offset = Math.floor(seeded.counts.largest / 2)
    const ours = makeListStatement({ offset: String(offset) })
    const naive = {
      query: 'select * from deployments where tenant_id = $1 order by created_at desc, id desc limit 21 offset $2',
      params: [seeded.tenant_id, offset],
    }
    for (const one of [ours, naive]) await measureStatement(client, one, 2)
    const things = { ours: () => measureStatement(client, ours, 5), naive: () => measureStatement(client, naive, 3) }
    const slices = await measureSlices(SLICES, things, lab.progress)
    const figure = medianRatio(slices.ours, slices.naive)
    const { buffers } = await explainStatement(client, ours)
    return {
      measured: `${formatNumber(figure)}; ${buffers}`,
      met: figure <= TARGETS.ratio && buffers <= TARGETS.buffers,
      notes: [
        `offset ${offset}: ${formatNumber(median(slices.ours), 1)} ms, naive ${formatNumber(median(slices.naive), 1)} ms`,
      ],
      figures: { ratio: figure, buffers, ms: slices },
    }
  },
} satisfies Bench
