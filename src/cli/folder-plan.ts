// Shows how a folder will be built and started, before anything is uploaded.
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { BuildPlan } from '../build-plan/build-plan.ts'
import { describeConfigurationFaults } from '../build-plan/configuration-faults.ts'
import { describePlan } from '../build-plan/describe-plan.ts'
import { type PlanOutcome, previewPlan, type SourceSettings } from '../build-plan/plan-preview.ts'
import { MAX_FILE_BYTES } from '../build-plan/source-files.ts'
import type { AddedFiles } from './archive.ts'
import { shellWord, usageError } from './failure.ts'
import type { Session } from './session.ts'

export type FolderPlan = Exclude<PlanOutcome, { refusal: unknown }>
type PackedFiles = { files: string[]; added?: AddedFiles }

/** `files`: those of the archive, with `added` in place of what the folder has. */
export function tryToPlan(
  folder: string,
  { files, added = {} }: PackedFiles,
  settings: SourceSettings = {},
): PlanOutcome {
  const paths = new Set(files)
  const read = (path: string) => {
    if (added[path] !== undefined) return added[path]
    const file = join(folder, path)
    const stat = paths.has(path) ? statSync(file, { throwIfNoEntry: false }) : undefined
    return stat?.isFile() && stat.size <= MAX_FILE_BYTES ? readFileSync(file, 'utf8') : null
  }
  return previewPlan({ paths, read }, settings, describeConfigurationFaults)
}

/** `argument`: the folder as the command has it, after a space. */
export function planFolder(
  folder: string,
  packed: PackedFiles,
  settings: SourceSettings = {},
  argument = '',
): FolderPlan {
  const outcome = tryToPlan(folder, packed, settings)
  if (!('refusal' in outcome)) return outcome
  const { message, remedy } = outcome.refusal
  const [root] = remedy.roots ?? []
  if (root !== undefined) throw usageError(message, `slipway deploy${argument} --root ${shellWord(root)}`)
  const start = shellWord(exampleStart(packed.files))
  throw usageError(message, remedy.lacksStart ? `slipway init${argument} --start ${start}` : undefined)
}

/** For a command that a person can run as it is. */
export function exampleStart(files: string[]): string {
  const python = files.find(file => /^\w+\.py$/.test(file))
  return python ? `python ${python}` : 'node server.js'
}

export function showBuildPlan({ out }: Session, plan: BuildPlan): void {
  out.emit({ type: 'build_plan', ...plan })
  for (const sentence of plan.certain) out.note(sentence)
  for (const [name, text] of describePlan(plan)) out.note(`  ${name.padEnd(8)} ${text}`)
  for (const sentence of plan.guessed) out.note(`Guessed: ${sentence}`)
  for (const sentence of plan.warnings) out.note(`Warning: ${sentence}`)
}
