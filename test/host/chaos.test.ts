// A short version of each trial of `npm run chaos` that counts: the same code with smaller counts. R13 measures time, and stays there.
import { afterEach, expect, inject, it } from 'vitest'
import { loadTrials } from '../../chaos/trials.ts'

const { seed } = inject('fuzz')
let own = new AsyncDisposableStack()
afterEach(async () => {
  const ending = own
  own = new AsyncDisposableStack()
  await ending.disposeAsync()
})

/** Of the full counts. */
const shares: Record<string, number> = { R5: 0.2, R7: 0.02 }
const counting = (await loadTrials()).filter(({ id }) => id !== 'R13')

it.each(counting.map(trial => [trial.id, trial.what, trial] as const))(
  `%s: %s (seed ${seed})`,
  async (id, _, { run }) => {
    const defer = (end: () => unknown) => own.defer(async () => void (await end()))
    const { met, ...outcome } = await run({ defer, seed, share: shares[id] ?? 0.04, progress: () => {} })
    expect(met, JSON.stringify(outcome, null, 2)).toBe(true)
  },
  180_000,
)
