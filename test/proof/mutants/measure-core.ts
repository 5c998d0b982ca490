// Measures one core, in a process of its own that `run.ts` starts: a process has one Vitest.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Core, cores } from './cores.ts'
import { equivalents } from './equivalent.ts'
import { countScopes, listMutants, type Mutant } from './mutants.ts'
import { type CoreResult, describeChange, describeMutant, type Result } from './report.ts'
import { startVitest, type TestRun, type WarmVitest } from './warm-vitest.ts'

const BASELINE_LIMIT_MS = 300_000
/** A mutant may loop forever. */
const limitOf = ({ ms }: TestRun) => 5_000 + 5 * ms
const pathOf = (file: string) => fileURLToPath(new URL(`../../../${file}`, import.meta.url))

type Candidate = { test: string; baseline: TestRun; runs: number; kills: number }

/** Its expected time for a mutant that it notices: a slow test that notices most costs less than a fast one of few. */
const priceOf = ({ baseline, runs, kills }: Candidate) => (baseline.ms * (runs + 1)) / (kills + 1)

/** Runs each test without mutants, to learn which functions it reaches. */
async function runBaselines(vitest: WarmVitest, { files, tests }: Core) {
  const baselines: [string, TestRun][] = []
  for (const test of tests) {
    for (const file of files) vitest.replace(file, countScopes(file, readFileSync(pathOf(file), 'utf8')))
    // The first run also loads what the test imports.
    await vitest.run(test, BASELINE_LIMIT_MS)
    for (const file of files) vitest.replace(file, countScopes(file, readFileSync(pathOf(file), 'utf8')))
    const baseline = await vitest.run(test, BASELINE_LIMIT_MS)
    if (!baseline.isPassed) throw new Error(`${test} fails without a mutant.`)
    baselines.push([test, baseline])
  }
  for (const file of files) vitest.replace(file)
  return baselines
}

async function findKiller(vitest: WarmVitest, { file, scope }: Mutant, candidates: Candidate[]) {
  for (const candidate of candidates.toSorted((a, b) => priceOf(a) - priceOf(b))) {
    const { test, baseline } = candidate
    if (!baseline.reached.includes(`${file}#${scope}`)) continue
    candidate.runs++
    const { isPassed, isTimeout } = await vitest.run(test, limitOf(baseline))
    if (isPassed) continue
    candidate.kills++
    return isTimeout ? `${test}, by its time limit` : test
  }
  return null
}

const findReason = (mutant: Mutant) =>
  equivalents.find(
    ({ file, code, changes }) =>
      file === mutant.file && mutant.code.startsWith(code) && changes.includes(describeChange(mutant)),
  )?.reason

async function measureCore(vitest: WarmVitest, core: Core): Promise<CoreResult> {
  const started = performance.now()
  const baselines = await runBaselines(vitest, core)
  for (const [test, { ms }] of baselines) console.log(`${core.id}: ${test} takes ${Math.round(ms)} ms`)
  const results: Result[] = []
  for (const file of core.files) {
    const code = readFileSync(pathOf(file), 'utf8')
    const mutants = listMutants(file, code)
    console.log(`${core.id}: ${file} has ${mutants.length} mutants`)
    const candidates = baselines.map(([test, baseline]) => ({ test, baseline, runs: 0, kills: 0 }))
    for (const mutant of mutants) {
      const reason = findReason(mutant)
      if (reason !== undefined) {
        results.push({ mutant, killedBy: null, reason })
        continue
      }
      vitest.replace(file, code.slice(0, mutant.start) + mutant.after + code.slice(mutant.end))
      const killedBy = await findKiller(vitest, mutant, candidates)
      results.push({ mutant, killedBy })
      if (killedBy === null) console.log(`survived  ${describeMutant(mutant)}`)
    }
    vitest.replace(file)
  }
  // State that a mutant leaves in the process must not kill those after it.
  for (const [test] of baselines)
    if (!(await vitest.run(test, BASELINE_LIMIT_MS)).isPassed) throw new Error(`${test} fails after the mutants.`)
  return { name: core.id, results, seconds: (performance.now() - started) / 1000 }
}

const core = cores.find(({ id }) => id === process.argv[2])!
const vitest = await startVitest()
const result = await measureCore(vitest, core).finally(() => vitest.close())
process.send!(result, () => process.disconnect())
