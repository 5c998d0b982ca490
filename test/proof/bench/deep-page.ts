// P7: a page from the middle of the biggest tenant, found in the index alone, against reading all rows before it.

import type { Bench, BenchContext } from '../support/bench-context.ts'
import { connectAsTenant, explainStatement, makeListStatement, measureStatement } from '../support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'

const TARGETS = { ratio: 0.25, buffers: 1500 }

export default {
  id: 'P7',
  what: 'a page from the middle of 100,000 rows ÷ the same with a naive offset; buffers read',
  target: `≤ ${TARGETS.ratio}; ≤ ${TARGETS.buffers}`,
  async run(context: BenchContext) {
    const seeded = await context.deployments()
    const client = await connectAsTenant(context, seeded)
    const offset = Math.floor(seeded.counts.largest / 2)
    const slipway = makeListStatement({ offset: String(offset) })
    const naive = {
      query: 'select * from deployments where tenant_id = $1 order by created_at desc, id desc limit 21 offset $2',
      params: [seeded.tenant_id, offset],
    }
    for (const one of [slipway, naive]) await measureStatement(client, one, 2)
    const candidates = {
      slipway: () => measureStatement(client, slipway, 5),
      naive: () => measureStatement(client, naive, 3),
    }
    const slices = await measureSlices(candidates, context.progress)
    const ratio = medianRatio(slices.slipway, slices.naive)
    const { buffers } = await explainStatement(client, slipway)
    return {
      measured: `${formatNumber(ratio)}; ${buffers}`,
      met: ratio <= TARGETS.ratio && buffers <= TARGETS.buffers,
      notes: [
        `offset ${offset}: ${formatNumber(median(slices.slipway), 1)} ms`,
        `naive offset: ${formatNumber(median(slices.naive), 1)} ms`,
      ],
      figures: { ratio, buffers, ms: slices },
    }
  },
} satisfies Bench
