// P9: the first page of the biggest tenant, in the large database and in one of a thousand rows.

import type { Bench, BenchContext } from '../support/bench-context.ts'
import {
  connectAsTenant,
  makeListStatement,
  measureStatement,
  openSeededDatabase,
  ROWS_TEXT,
} from '../support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'

const REPEATS = 200
const TARGET = 1.3

export default {
  id: 'P9',
  what: `latency of the first page at ${ROWS_TEXT} rows ÷ at 1,000 rows`,
  target: `≤ ${TARGET}`,
  async run(context: BenchContext) {
    const large = await connectAsTenant(context, await context.deployments())
    const small = await connectAsTenant(
      context,
      await openSeededDatabase(context, await context.database(), { tenants: 10, deployments: 1000 }),
    )
    const first = makeListStatement({})
    const candidates = {
      large: () => measureStatement(large, first, REPEATS),
      small: () => measureStatement(small, first, REPEATS),
    }
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
    const ratio = medianRatio(slices.large, slices.small)
    return {
      measured: formatNumber(ratio),
      met: ratio <= TARGET,
      notes: [`${formatNumber(median(slices.large))} ms and ${formatNumber(median(slices.small))} ms`],
      figures: { ratio, ms: slices },
    }
  },
} satisfies Bench
