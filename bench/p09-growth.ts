// P9: the first page of the biggest tenant, in the large database and in one of a thousand rows.
import { fixed, inTurn, median, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { behindTheWalls, listOf, MANY, openSeeded, taken } from './support/seeded.ts'

const SLICES = 9
const TIMES = 150
const TARGET = 1.3

export default {
  id: 'P9',
  what: `the first page at ${MANY} rows ÷ at 1,000`,
  target: `≤ ${TARGET}`,
  async run(lab: Lab) {
    const large = await behindTheWalls(lab, await lab.seeded())
    const small = await behindTheWalls(
      lab,
      await openSeeded(lab, await lab.database(), { tenants: 10, deployments: 1000 }),
    )
    const first = listOf({})
    const things = { large: () => taken(large, first, TIMES), small: () => taken(small, first, TIMES) }
    for (const thing of Object.values(things)) await thing()
    const slices = await inTurn(SLICES, things, lab.progress)
    const figure = ratio(slices.large, slices.small)
    return {
      measured: fixed(figure),
      met: figure <= TARGET,
      notes: [`${fixed(median(slices.large))} ms and ${fixed(median(slices.small))} ms`],
      figures: { ratio: figure, ms: slices },
    }
  },
} satisfies Bench
