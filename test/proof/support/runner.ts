// Runs benches and trials one after another, each with a cleanup of its own. A row is printed and stored when it is
// measured.
import type { Measurement } from './bench-context.ts'
import { readLoad, watchOthers } from './machine.ts'
import type { Cleanup } from './processes.ts'
import { printRow, showProgress } from './terminal.ts'

type Experiment<Context> = {
  id: string
  what: string
  target: string
  /** Another program on the machine does not change it. */
  isCount?: boolean
  run(context: Context): Promise<Measurement>
}
export type ResultRow = Pick<Experiment<never>, 'id' | 'what' | 'target'> &
  Partial<Measurement> & {
    error?: string
    /** Without what was prepared for this row and others. */
    seconds: number
    /** The load average before it. */
    load: number
    /** The share of the machine's CPU time that other programs took. */
    others: number
    /** Others took so much, also the second time, that the row cannot be trusted. */
    busy?: boolean
  }
type RunContext = Cleanup & { progress(text: string): void }
type Options = {
  store(row: ResultRow): Promise<void>
  /** The milliseconds so far that belong to no row. */
  preparedMs?: () => number
  /** Measure a row again, once, if others took too much of the machine. */
  avoidsOthers?: boolean
}

const PROGRESS_INTERVAL_MS = 100
const MAX_OTHERS = Number(process.env.BENCH_MAX_OTHERS || 0.1)

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
  { store, preparedMs = () => 0, avoidsOthers = false }: Options,
): Promise<ResultRow[]> {
  const rows: ResultRow[] = []
  for (const experiment of experiments) {
    const measure = () => measureOnce(experiment, makeContext, preparedMs)
    let row = await measure()
    if (avoidsOthers && !experiment.isCount && row.others > MAX_OTHERS && !row.error) {
      showProgress(`${experiment.id}  ${experiment.what}`, 'again: others used the machine')
      const again = await measure()
      if (again.others < row.others || again.error) row = again
      if (row.others > MAX_OTHERS) row.busy = true
    }
    showProgress()
    printRow(row, experiments)
    await store(row)
    rows.push(row)
  }
  return rows
}

async function measureOnce<Context>(
  { id, what, target, run }: Experiment<Context>,
  makeContext: (runContext: RunContext) => Context,
  preparedMs: () => number,
): Promise<ResultRow> {
  const name = `${id}  ${what}`
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
  const [load, readOthers, start, prepared] = [readLoad(), watchOthers(), performance.now(), preparedMs()]
  const outcome = await run(context).catch((error: Error) => ({ error: error.message }))
  // The signal's own handler ends the process.
  if (isInterrupted) await new Promise(() => {})
  const ms = performance.now() - start - (preparedMs() - prepared)
  const others = Math.round(readOthers() * 1000) / 1000
  await ownCleanup.disposeAsync()
  return { id, what, target, ...outcome, seconds: Math.round(ms / 100) / 10, load, others }
}
