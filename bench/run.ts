// `npm run bench`: runs the named benches, or all of them, and prints one table. It measures; it asserts nothing.
import { readdir } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { type Bench, openSharedResources } from './support/bench-context.ts'
import { runInTurn, runProgram, writeReport } from './support/runner.ts'
import { selectByName } from './support/selection.ts'

const benchFolder = import.meta.dirname

/** Every file p*.ts beside this one is a bench. */
async function loadBenches(): Promise<Bench[]> {
  const files = (await readdir(benchFolder)).filter(name => /^p\d+-.*\.ts$/.test(name)).toSorted()
  return Promise.all(files.map(async file => (await import(join(benchFolder, file))).default))
}

await runProgram(async cleanupStack => {
  const shared = openSharedResources(cleanupStack)
  const benches = selectByName(await loadBenches(), process.argv.slice(2), 'bench')
  const rows = await runInTurn(benches, runContext => ({ ...shared, ...runContext }))
  await writeReport(benchFolder, rows, { machine: `${cpus().length} × ${cpus()[0]?.model.trim()}` })
  const failed = rows.filter(({ error }) => error)
  if (failed.length > 0) throw new Error(`Failed: ${failed.map(({ id, error }) => `${id}: ${error}`).join('\n')}`)
})
