// `npm run bench`: measures the named rows, or all of them, and prints each when it is measured. It asserts nothing.
// `--fresh` makes the kept databases anew. `--release 0.2.0` measures nothing: it adds a line to history.md.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Bench, openSharedResources } from './support/bench-context.ts'
import { recordRelease } from './support/history.ts'
import { MACHINE, readCommit } from './support/machine.ts'
import { openResults } from './support/results.ts'
import { runInTurn, runProgram } from './support/runner.ts'
import { selectByName } from './support/selection.ts'
import { printLine } from './support/terminal.ts'

const benchFolder = import.meta.dirname

/** Every file p*.ts beside this one is a bench. */
async function loadBenches(): Promise<Bench[]> {
  const files = (await readdir(benchFolder)).filter(name => /^p\d+-.*\.ts$/.test(name)).toSorted()
  return Promise.all(files.map(async file => (await import(join(benchFolder, file))).default))
}

await runProgram(async cleanupStack => {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { fresh: { type: 'boolean', default: false }, release: { type: 'string' } },
  })
  if (values.release !== undefined) return recordRelease(benchFolder, values.release)
  const benches = await loadBenches()
  const selected = selectByName(benches, positionals, 'bench')
  const made: { what: string; seconds: number }[] = []
  const ids = benches.map(({ id }) => id)
  const store = await openResults(benchFolder, ids, { commit: readCommit(), machine: MACHINE, made })
  const start = performance.now()
  let prepared = 0
  const shared = openSharedResources(
    cleanupStack,
    { isFresh: values.fresh, onMade: dataset => void made.push(dataset) },
    ms => {
      prepared += ms
    },
  )
  const rows = await runInTurn(selected, runContext => ({ ...shared, ...runContext }), {
    store,
    preparedMs: () => prepared,
    avoidsOthers: true,
  })
  const seconds = Math.round((performance.now() - start) / 1000)
  const seeding = made.reduce((sum, one) => sum + one.seconds, 0)
  const met = rows.filter(row => row.met).length
  printLine(`${met} of ${rows.length} met, in ${seconds - seeding} s, and ${seeding} s to make databases.`)
  const failed = rows.filter(({ error }) => error)
  if (failed.length > 0) throw new Error(`Failed: ${failed.map(({ id, error }) => `${id}: ${error}`).join('\n')}`)
})
