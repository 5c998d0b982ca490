// `npm run faults`: runs the named trials, or all of them, and prints a row for each. SEED repeats a run.
import { formatCounts } from '../support/counts.ts'
import { loadExperiments } from '../support/experiments.ts'
import { openResults } from '../support/results.ts'
import { runInTurn, runProgram } from '../support/runner.ts'
import { selectByName } from '../support/selection.ts'
import type { Trial } from '../support/testbed.ts'

await runProgram(async () => {
  const seed = Number(process.env.SEED ?? Math.floor(Date.now() / 86_400_000))
  console.log(`SEED=${seed}`)
  const trials = await loadExperiments<Trial>('faults')
  const selected = selectByName(trials, process.argv.slice(2), 'trial')
  const ids = trials.map(({ id }) => id)
  const store = await openResults('faults', ids, { seed })
  const rows = await runInTurn(selected, runContext => ({ ...runContext, seed, share: 1 }), { store })
  const failed = rows.filter(({ met }) => !met)
  console.log(formatCounts({ passed: rows.length - failed.length, failed: failed.length, skipped: 0 }))
  if (failed.length > 0) throw new Error(failed.map(({ id, error }) => `${id}: ${error ?? 'not met'}`).join('\n'))
})
