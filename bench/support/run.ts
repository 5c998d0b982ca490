// How `npm run bench` and `npm run chaos` run: what was asked for in turn, each with an ending of its own, then one table and a file.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Measured } from './lab.ts'
import type { Ending } from './processes.ts'
import { progress, table } from './terminal.ts'

type Piece<Lab> = { id: string; what: string; target: string; run(lab: Lab): Promise<Measured> }
export type Row = Omit<Piece<never>, 'run'> & Partial<Measured> & { error?: string }
type Turn = Ending & { progress(text: string): void }

/** Far more often than anyone reads. */
const READABLE_MS = 100

const everything = new AsyncDisposableStack()
let interrupted = false

/** Ends with what `main` does, or with a signal; either way all that was started is ended. */
export async function program(main: (everything: AsyncDisposableStack) => Promise<void>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, async () => {
      interrupted = true
      progress()
      await everything.disposeAsync().catch(() => {})
      process.exit(130)
    })
  }
  try {
    await main(everything)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  } finally {
    await everything.disposeAsync()
  }
}

export async function inTurn<Lab>(pieces: Piece<Lab>[], labOf: (turn: Turn) => Lab): Promise<Row[]> {
  const rows: Row[] = []
  for (const { run, ...piece } of pieces) {
    const name = `${piece.id}  ${piece.what}`
    progress(name)
    // Nested, so that an interrupt in the middle of one ends what it has started, too.
    const own = everything.use(new AsyncDisposableStack())
    let told = 0
    const tell = (text: string) => {
      if (Date.now() - told < READABLE_MS) return
      told = Date.now()
      progress(name, text)
    }
    const lab = labOf({ defer: end => own.defer(async () => void (await end())), progress: tell })
    const outcome = await run(lab).catch((error: Error) => ({ error: error.message }))
    // The signal's own handler ends the process.
    if (interrupted) await new Promise(() => {})
    await own.disposeAsync()
    rows.push({ ...piece, ...outcome })
  }
  progress()
  return rows
}

/** The table, and the same in `results.json`. */
export async function report(folder: string, rows: Row[], about: Record<string, unknown>): Promise<void> {
  console.log(table(rows))
  const results = { at: new Date().toISOString(), node: process.version, ...about, results: rows }
  await writeFile(join(folder, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
}
