// P9: the first page of the biggest tenant, in the large database and in one of a thousand rows.

import type { Bench, BenchContext } from './support/bench-context.ts'
import {
  connectAsTenant,
  makeListStatement,
  measureStatement,
  openSeededDatabase,
  ROWS_TEXT,
} from './support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from './support/statistics.ts'

const SLICES = 9
const REPEATS = 150
const TARGET = 1.3

export default {
  id: 'P9',
  what: `the first page at ${ROWS_TEXT} rows ÷ at 1,000`,
  target: `≤ ${TARGET}`,
  async run(lab: BenchContext) {
    const large = await connectAsTenant(lab, await lab.seeded())
    const small = await connectAsTenant(
      lab,
      await openSeededDatabase(lab, await lab.database(), { tenants: 10, deployments: 1000 }),
    )
    const first = makeListStatement({})
    const things = {
      large: () => measureStatement(large, first, REPEATS),
      small: () => measureStatement(small, first, REPEATS),
    }
    for (const thing of Object.values(things)) await thing()
    const slices = await measureSlices(SLICES, things, lab.progress)
    const figure = medianRatio(slices.large, slices.small)
    return {
      measured: formatNumber(figure),
      met: figure <= TARGET,
      notes: [`${formatNumber(median(slices.large))} ms and ${formatNumber(median(slices.small))} ms`],
      figures: { ratio: figure, ms: slices },
    }
  },
} satisfies Bench
