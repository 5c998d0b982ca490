// R8: random operations over many tenants with their ids swapped.

import { runRandomOperations } from './support/random-operations.ts'
import { openTestbed, scaleCount, type Testbed, type Trial, type TrialContext } from './support/testbed.ts'

export default {
  id: 'R8',
  what: '20,000 random operations over 20 tenants, ids swapped',
  target: '0 foreign rows',
  run: async (lab: TrialContext) => measureSwappedIds(lab, await openTestbed(lab)),
} satisfies Trial

export async function measureSwappedIds(lab: TrialContext, { app }: Testbed) {
  const total = scaleCount(lab, 20_000)
  const { foreign, broken, asked, succeeded, swapped } = await runRandomOperations({
    app,
    tenants: 20,
    operations: total,
    seed: lab.seed,
    progress: done => lab.progress(`${done} of ${total}`),
  })
  return {
    measured: `${foreign.length} foreign rows in ${asked} operations`,
    met: foreign.length === 0 && broken.length === 0 && succeeded > asked / 10 && swapped > asked / 3,
    notes: [`${swapped} with swapped ids; ${succeeded} succeeded`, ...foreign.slice(0, 5), ...broken.slice(0, 5)],
    figures: { asked, succeeded, swapped, foreign, broken },
  }
}
