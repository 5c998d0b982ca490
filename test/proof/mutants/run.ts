// `npm run mutation`: changes the pure cores in one place at a time, and counts how many changes the tests notice.
// `-- plan lifecycle` measures some cores. Without names it measures all, and writes a report.
import { fork } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { formatCounts } from '../support/counts.ts'
import { selectByName } from '../support/selection.ts'
import { type Core, cores } from './cores.ts'
import { type CoreResult, summarize, writeReport } from './report.ts'

const MIN_TARGET = 80
const RESULTS = join(import.meta.dirname, '../results')

const measure = ({ id }: Core) =>
  new Promise<CoreResult>((resolve, reject) => {
    fork(join(import.meta.dirname, 'measure-core.ts'), [id], { serialization: 'advanced' })
      .once('message', resolve)
      .once('exit', code => reject(new Error(`${id} was not measured: its process ended with ${code}.`)))
  })

/** Measures one core on each processor. */
async function measureAll(selected: Core[]): Promise<CoreResult[]> {
  const measured = new Map<Core, CoreResult>()
  const waiting = [...selected]
  const work = async () => {
    for (let core = waiting.shift(); core; core = waiting.shift()) {
      const result = await measure(core)
      measured.set(core, result)
      const { name, score, killed, survived, equivalent, seconds } = summarize(result)
      const counts = `${killed} killed, ${survived} survived, ${equivalent} equivalent`
      console.log(`${name}: ${score.toFixed(1)} % (${counts}, ${seconds} s)`)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work))
  return selected.map(core => measured.get(core)!)
}

async function main(): Promise<void> {
  const names = process.argv.slice(2)
  const measured = await measureAll(selectByName(cores, names, 'core'))
  if (names.length === 0) {
    mkdirSync(RESULTS, { recursive: true })
    writeFileSync(join(RESULTS, 'mutants.md'), writeReport(measured))
  }
  const { length: failed } = measured.filter(core => summarize(core).score < MIN_TARGET)
  console.log(`A core passes with ${MIN_TARGET} % of its mutants killed.`)
  console.log(formatCounts({ passed: measured.length - failed, failed, skipped: 0 }))
  process.exitCode = failed > 0 ? 1 : 0
}

try {
  await main()
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
}
