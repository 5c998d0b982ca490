// `npm run chaos`: runs the named trials, or all of them, and prints one table. SEED repeats a run.

import { runInTurn, runProgram, writeReport } from '../bench/support/runner.ts'
import { selectByName } from '../bench/support/selection.ts'
import { loadTrials } from './trials.ts'

await runProgram(async () => {
  const seed = Number(process.env.SEED ?? Math.floor(Date.now() / 86_400_000))
  console.log(`SEED=${seed}`)
  const rows = await runInTurn(selectByName(await loadTrials(), process.argv.slice(2), 'trial'), runContext => ({
    ...runContext,
    seed,
    share: 1,
  }))
  await writeReport(import.meta.dirname, rows, { seed })
  const failed = rows.filter(({ met }) => !met)
  if (failed.length > 0) throw new Error(failed.map(({ id, error }) => `${id}: ${error ?? 'not met'}`).join('\n'))
})
