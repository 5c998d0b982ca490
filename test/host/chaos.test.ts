// A short version of each trial of `npm run chaos`: the same code with smaller counts.
import { afterEach, expect, it } from 'vitest'
import { trials } from '../../chaos/trials.ts'

const SEED = Math.floor(Date.now() / 86_400_000)
let own = new AsyncDisposableStack()
afterEach(async () => {
  const ending = own
  own = new AsyncDisposableStack()
  await ending.disposeAsync()
})

/** Of the full counts; an outage shorter than a trip's time would show nothing. */
const shares: Record<string, number> = { R5: 0.2, R7: 0.02, R13: 0.55 }

it.each((await trials()).map(trial => [trial.id, trial.what, trial] as const))(
  `%s: %s (seed ${SEED})`,
  async (id, _, { run }) => {
    const defer = (end: () => unknown) => own.defer(async () => void (await end()))
    const { met, ...outcome } = await run({ defer, seed: SEED, share: shares[id] ?? 0.04, progress: () => {} })
    expect(met, JSON.stringify(outcome, null, 2)).toBe(true)
  },
  90_000,
)
