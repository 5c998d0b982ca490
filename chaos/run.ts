// `npm run chaos`: plays the trials that are named, or all of them, and prints one table. SEED repeats a run.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Row } from '../bench/run.ts'
import { chosen } from '../bench/support/chosen.ts'
import { progress, table } from '../bench/support/terminal.ts'
import { trials } from './trials.ts'

const here = import.meta.dirname
const everything = new AsyncDisposableStack()
let interrupted = false

async function main() {
  const seed = Number(process.env.SEED ?? Math.floor(Date.now() / 86_400_000))
  console.log(`SEED=${seed}`)
  const rows: Row[] = []
  for (const { run, ...trial } of chosen(await trials(), process.argv.slice(2), 'trial')) {
    progress(`${trial.id}  ${trial.what}`)
    const own = everything.use(new AsyncDisposableStack())
    const defer = (end: () => unknown) => own.defer(async () => void (await end()))
    let told = 0
    const tell = (text: string) => {
      // Far more often than anyone reads.
      if (Date.now() - told < 100) return
      told = Date.now()
      progress(`${trial.id}  ${trial.what}`, text)
    }
    const outcome = await run({ defer, seed, share: 1, progress: tell }).catch((error: Error) => ({
      error: error.message,
    }))
    if (interrupted) return
    await own.disposeAsync()
    rows.push({ ...trial, ...outcome })
  }
  progress()
  console.log(table(rows))
  const results = { at: new Date().toISOString(), node: process.version, seed, results: rows }
  await writeFile(join(here, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
  const failed = rows.filter(({ met }) => !met)
  if (failed.length > 0) throw new Error(failed.map(({ id, error }) => `${id}: ${error ?? 'not met'}`).join('\n'))
}

if (import.meta.main) {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, async () => {
      interrupted = true
      progress()
      await everything.disposeAsync().catch(() => {})
      process.exit(130)
    })
  }
  try {
    await main()
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  } finally {
    await everything.disposeAsync()
  }
}
