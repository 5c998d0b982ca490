// Runs benches and trials one after another, each with a cleanup of its own, then prints one table and writes
// results.json.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Measurement } from './bench-context.ts'
import type { Cleanup } from './processes.ts'
import { formatTable, showProgress } from './terminal.ts'

type Experiment<Context> = { id: string; what: string; target: string; run(context: Context): Promise<Measurement> }
export type ResultRow = Omit<Experiment<never>, 'run'> & Partial<Measurement> & { error?: string }
type RunContext = Cleanup & { progress(text: string): void }

const PROGRESS_INTERVAL_MS = 100

const cleanupStack = new AsyncDisposableStack()
let isInterrupted = false

/** Everything that `main` starts ends with it, or with a signal. */
export async function runProgram(main: (cleanupStack: AsyncDisposableStack) => Promise<void>): Promise<void> {
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

export async function runInTurn<Context>(
  experiments: Experiment<Context>[],
  makeContext: (runContext: RunContext) => Context,
): Promise<ResultRow[]> {
  const rows: ResultRow[] = []
  for (const { run, ...experiment } of experiments) {
    const name = `${experiment.id}  ${experiment.what}`
    showProgress(name)
    // Nested, so that a signal in the middle of an experiment also ends what that has started.
    const ownCleanup = cleanupStack.use(new AsyncDisposableStack())
    let lastShown = 0
    const progress = (text: string) => {
      if (Date.now() - lastShown < PROGRESS_INTERVAL_MS) return
      lastShown = Date.now()
      showProgress(name, text)
    }
    const context = makeContext({ defer: end => ownCleanup.defer(async () => void (await end())), progress })
    const outcome = await run(context).catch((error: Error) => ({ error: error.message }))
    // The signal's own handler ends the process.
    if (isInterrupted) await new Promise(() => {})
    await ownCleanup.disposeAsync()
    rows.push({ ...experiment, ...outcome })
  }
  showProgress()
  return rows
}

export async function writeReport(folder: string, rows: ResultRow[], about: Record<string, unknown>): Promise<void> {
  console.log(formatTable(rows))
  const results = { at: new Date().toISOString(), node: process.version, ...about, results: rows }
  await writeFile(join(folder, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
}
