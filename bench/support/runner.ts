// How `npm run bench` and `npm run chaos` run: what was asked for in turn, each with an ending of its own, then one table and a file.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Measurement } from './bench-context.ts'
import type { Cleanup } from './processes.ts'
import { formatTable, showProgress } from './terminal.ts'

type Experiment<Lab> = { id: string; what: string; target: string; run(lab: Lab): Promise<Measurement> }
export type ResultRow = Omit<Experiment<never>, 'run'> & Partial<Measurement> & { error?: string }
type RunContext = Cleanup & { progress(text: string): void }

/** Far more often than anyone reads. */
const PROGRESS_INTERVAL_MS = 100

const cleanupStack = new AsyncDisposableStack()
let isInterrupted = false

/** Ends with what `main` does, or with a signal; either way all that was started is ended. */
export async function runProgram(main: (everything: AsyncDisposableStack) => Promise<void>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, async () => {
      isInterrupted = true
      showProgress()
      await cleanupStack.disposeAsync().catch(() => {})
      process.exit(130)
    })
  }
  try {
    await main(cleanupStack)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  } finally {
    await cleanupStack.disposeAsync()
  }
}

export async function runInTurn<Lab>(
  pieces: Experiment<Lab>[],
  labOf: (turn: RunContext) => Lab,
): Promise<ResultRow[]> {
  const rows: ResultRow[] = []
  for (const { run, ...piece } of pieces) {
    const name = `${piece.id}  ${piece.what}`
    showProgress(name)
    // Nested, so that an interrupt in the middle of one ends what it has started, too.
    const own = cleanupStack.use(new AsyncDisposableStack())
    let told = 0
    const tell = (text: string) => {
      if (Date.now() - told < PROGRESS_INTERVAL_MS) return
      told = Date.now()
      showProgress(name, text)
    }
    const lab = labOf({ defer: end => own.defer(async () => void (await end())), progress: tell })
    const outcome = await run(lab).catch((error: Error) => ({ error: error.message }))
    // The signal's own handler ends the process.
    if (isInterrupted) await new Promise(() => {})
    await own.disposeAsync()
    rows.push({ ...piece, ...outcome })
  }
  showProgress()
  return rows
}

/** The table, and the same in `results.json`. */
export async function writeReport(folder: string, rows: ResultRow[], about: Record<string, unknown>): Promise<void> {
  console.log(formatTable(rows))
  const results = { at: new Date().toISOString(), node: process.version, ...about, results: rows }
  await writeFile(join(folder, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
}
