// R8: random operations of many tenants with each other's ids.

import type { StreamLimits } from '../../../src/platform.ts'
import { runRandomOperations } from '../support/random-operations.ts'
import { openTestbed, scaleCount, type Testbed, type Trial, type TrialContext } from '../support/testbed.ts'

/** Streams and waits end at once. */
export const BRIEF_STREAMS: StreamLimits = {
  seconds: 0,
  trips: 45,
  perKey: 1000,
  lookMs: [10, 20],
  keyCheckMs: 15_000,
}

export default {
  id: 'R8',
  what: '20,000 random operations of 20 tenants with swapped ids',
  target: '0 rows of another tenant',
  run: async (context: TrialContext) =>
    measureSwappedIds(context, await openTestbed(context, { overrides: { liveStreams: BRIEF_STREAMS } })),
} satisfies Trial

export async function measureSwappedIds(context: TrialContext, { app }: Testbed) {
  const total = scaleCount(context, 20_000)
  const { foreign, broken, sent, succeeded, swapped } = await runRandomOperations({
    app,
    tenants: 20,
    operations: total,
    seed: context.seed,
    progress: done => context.progress(`${done} of ${total}`),
  })
  return {
    measured: `${foreign.length} rows of another tenant in ${sent} operations`,
    met: foreign.length === 0 && broken.length === 0 && succeeded > sent / 10 && swapped > sent / 3,
    notes: [
      `${swapped} operations with swapped ids; ${succeeded} succeeded`,
      ...foreign.slice(0, 5),
      ...broken.slice(0, 5),
    ],
    figures: { sent, succeeded, swapped, foreign, broken },
  }
}
