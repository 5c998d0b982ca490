// Files of results have the newest figures of every row. A file is written after each, so an interrupted run keeps what
// it has, and a run of some rows leaves the others as they are.
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ResultRow } from './runner.ts'

/** A row names the run that it is from. */
export type StoredRow = ResultRow & { run: string }
type Results = {
  /** The newest run. */
  run: { at: string } & Record<string, unknown>
  /** Rows of runs before the newest one. */
  older: string[]
  /** Earlier runs, by their time. */
  older_runs: Record<string, Results['run']>
  rows: StoredRow[]
}

const FOLDER = join(import.meta.dirname, '../results')

async function readResults(name: string): Promise<Results | undefined> {
  const text = await readFile(join(FOLDER, `${name}.json`), 'utf8').catch(() => '')
  try {
    const results = JSON.parse(text) as Results
    return results.run && Array.isArray(results.rows) ? results : undefined
  } catch {
    // There is none, or one of another release.
    return undefined
  }
}

/** Returns a function that writes one more row. `ids` are all that there are, in their order. */
export async function openResults(name: string, ids: string[], about: Record<string, unknown>) {
  const run = { at: new Date().toISOString(), node: process.version, ...about }
  const before = await readResults(name)
  const runs: Record<string, Results['run']> = { ...before?.older_runs, ...(before && { [before.run.at]: before.run }) }
  const rows = new Map((before?.rows ?? []).map(row => [row.id, row]))
  return async (row: ResultRow): Promise<void> => {
    rows.set(row.id, { ...row, run: run.at })
    const stored = ids.flatMap(id => rows.get(id) ?? [])
    const older = stored.filter(one => one.run !== run.at)
    const results: Results = {
      run,
      older: older.map(({ id }) => id),
      older_runs: Object.fromEntries(older.map(one => [one.run, runs[one.run] ?? { at: one.run }])),
      rows: stored,
    }
    const file = join(FOLDER, `${name}.json`)
    await mkdir(FOLDER, { recursive: true })
    await writeFile(`${file}.part`, `${JSON.stringify(results, null, 2)}\n`)
    await rename(`${file}.part`, file)
  }
}
