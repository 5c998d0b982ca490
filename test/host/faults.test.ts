// A short run of each trial of `npm run faults` that counts something. R13 measures times, and R19 and R20 start
// processes, which take minutes, so they run only there.
import { afterEach, expect, inject, it } from 'vitest'
import { loadExperiments } from '../proof/support/experiments.ts'
import type { Trial } from '../proof/support/testbed.ts'
import { copyPostgresTemplate, createMigratedDatabase } from '../support/migrated-postgres.ts'

const { seed } = inject('fuzz')
/** The fraction of the full number of operations. */
const DEFAULT_SHARE = 0.04
// Short R8 and R9 are enough: the tests of isolation try for every route what these try at random.
const SHARES: Record<string, number> = { R21: 0.05, R5: 0.2, R7: 0.02, R8: 0.02, R9: 0.02, R17: 0.1, schedules: 0.02 }
const LONG = ['R13', 'R19', 'R20']
const trials = (await loadExperiments<Trial>('faults')).filter(({ id }) => !LONG.includes(id))

let cleanup = new AsyncDisposableStack()
afterEach(async () => {
  const finished = cleanup
  cleanup = new AsyncDisposableStack()
  await finished.disposeAsync()
})

it.each(trials.map(trial => [trial.id, trial.what, trial] as const))(
  `%s: %s (seed ${seed})`,
  async (id, _, { run }) => {
    const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
    const context = { defer, seed, share: SHARES[id] ?? DEFAULT_SHARE, progress: () => {} }
    const databases = { createDatabase: createMigratedDatabase, createDataDir: copyPostgresTemplate }
    const { met, ...outcome } = await run({ ...context, ...databases })
    expect(met, JSON.stringify(outcome, null, 2)).toBe(true)
  },
  180_000,
)
