// `npm run chaos`: runs the named trials, or all of them, and prints a row for each. SEED repeats a run.

import { openResults } from '../bench/support/results.ts'
import { runInTurn, runProgram } from '../bench/support/runner.ts'
import { selectByName } from '../bench/support/selection.ts'
import { loadTrials } from './trials.ts'

await runProgram(async () => {
  const seed = Number(process.env.SEED ?? Math.floor(Date.now() / 86_400_000))
  console.log(`SEED=${seed}`)
  const trials = await loadTrials()
  const selected = selectByName(trials, process.argv.slice(2), 'trial')
  const ids = trials.map(({ id }) => id)
  const store = await openResults(import.meta.dirname, ids, { seed })
  const rows = await runInTurn(selected, runContext => ({ ...runContext, seed, share: 1 }), { store })
  const failed = rows.filter(({ met }) => !met)
  if (failed.length > 0) throw new Error(failed.map(({ id, error }) => `${id}: ${error ?? 'not met'}`).join('\n'))
})
