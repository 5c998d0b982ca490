// Shows how a folder will be built and started, before anything is uploaded.
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type BuildPlan, PlanRefused } from '../build-plan/build-plan.ts'
import { describePlan } from '../build-plan/describe-plan.ts'
import { readExplicitStart } from '../build-plan/explicit-start.ts'
import { planBuild } from '../build-plan/plan-build.ts'
import { MAX_FILE_BYTES } from '../build-plan/source-files.ts'
import { CONFIGURATION } from '../client/archive-rules.ts'
import { usageError } from './failure.ts'
import type { Session } from './session.ts'

type Outcome = { plan: BuildPlan } | { refusal: string }

/** `files`: those of the archive, with `added` in place of what the folder has. The agent plans again, and knows whether it can build a Dockerfile. */
export function tryToPlan(folder: string, files: string[], added: Record<string, string> = {}): Outcome {
  const paths = new Set(files)
  const read = (path: string) => {
    if (added[path] !== undefined) return added[path]
    const file = join(folder, path)
    const stat = paths.has(path) ? statSync(file, { throwIfNoEntry: false }) : undefined
    return stat?.isFile() && stat.size <= MAX_FILE_BYTES ? readFileSync(file, 'utf8') : null
  }
  try {
    const configuration = readExplicitStart(CONFIGURATION, read(CONFIGURATION))
    return { plan: planBuild({ paths, read }, { configuration, buildsImages: true }) }
  } catch (error) {
    if (error instanceof PlanRefused) return { refusal: error.message }
    if (error instanceof SyntaxError) return { refusal: `${CONFIGURATION} is not JSON: ${error.message}. Correct it.` }
    throw error
  }
}

export function planFolder(folder: string, files: string[], added: Record<string, string> = {}): BuildPlan {
  const outcome = tryToPlan(folder, files, added)
  if ('refusal' in outcome) throw usageError(outcome.refusal, "slipway init --start 'node server.js'")
  return outcome.plan
}

export function showBuildPlan({ out }: Session, plan: BuildPlan): void {
  out.emit({ type: 'build_plan', ...plan })
  for (const sentence of plan.certain) out.note(sentence)
  for (const [name, text] of describePlan(plan)) out.note(`  ${name.padEnd(8)} ${text}`)
  for (const sentence of plan.guessed) out.note(`Guessed: ${sentence}`)
  for (const sentence of plan.warnings) out.note(`Warning: ${sentence}`)
}
