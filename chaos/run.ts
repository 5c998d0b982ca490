// `npm run chaos`: plays the trials that are named, or all of them, and prints one table. SEED repeats a run.
import { chosen } from '../bench/support/chosen.ts'
import { inTurn, program, report } from '../bench/support/run.ts'
import { trials } from './trials.ts'

await program(async () => {
  const seed = Number(process.env.SEED ?? Math.floor(Date.now() / 86_400_000))
  console.log(`SEED=${seed}`)
  const rows = await inTurn(chosen(await trials(), process.argv.slice(2), 'trial'), turn => ({
    ...turn,
    seed,
    share: 1,
  }))
  await report(import.meta.dirname, rows, { seed })
  const failed = rows.filter(({ met }) => !met)
  if (failed.length > 0) throw new Error(failed.map(({ id, error }) => `${id}: ${error ?? 'not met'}`).join('\n'))
})
