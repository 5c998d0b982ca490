// `npm run bench`: measures the named rows, or all of them, and prints each when it is measured. It
// ends with status 1 if one failed or missed its target.
// `--fresh` makes the kept databases anew.
import { parseArgs } from 'node:util'
import { type Bench, openSharedResources } from '../support/bench-context.ts'
import { formatCounts } from '../support/counts.ts'
import { loadExperiments } from '../support/experiments.ts'
import { MACHINE, readCommit } from '../support/machine.ts'
import { openResults } from '../support/results.ts'
import { runInTurn, runProgram } from '../support/runner.ts'
import { selectByName } from '../support/selection.ts'
import { printLine } from '../support/terminal.ts'

await runProgram(async cleanupStack => {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { fresh: { type: 'boolean', default: false } },
  })
  const benches = await loadExperiments<Bench>('bench')
  const selected = selectByName(benches, positionals, 'bench')
  const made: { what: string; seconds: number }[] = []
  const ids = benches.map(({ id }) => id)
  const store = await openResults('bench', ids, { commit: readCommit(), machine: MACHINE, made })
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
  const missed = rows.filter(row => !row.met && !row.busy && !row.skipped)
  for (const row of rows.filter(row => row.skipped || (row.busy && !row.met)))
    printLine(`skipped ${row.id}: ${row.busy ? 'others used the machine' : row.measured}`)
  const counts = { passed: met, failed: missed.length, skipped: rows.length - met - missed.length }
  printLine(formatCounts(counts))
  if (missed.length > 0) process.exitCode = 1
  const failed = rows.filter(({ error }) => error)
  if (failed.length > 0) throw new Error(`Failed: ${failed.map(({ id, error }) => `${id}: ${error}`).join('\n')}`)
})
