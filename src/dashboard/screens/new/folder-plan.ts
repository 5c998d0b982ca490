// Plans how a chosen folder is built and started, as the command line and the agents do.
import { describePlan } from '../../../build-plan/describe-plan.ts'
import { type PlanOutcome, previewPlan, type SourceSettings } from '../../../build-plan/plan-preview.ts'
import { MAX_FILE_BYTES } from '../../../build-plan/source-files.ts'

export type FolderPlan = {
  refusal: string | null
  /** Folders of which one could be the root. */
  roots: string[]
  certain: string[]
  guessed: string[]
  warnings: string[]
  steps: [name: string, text: string][]
}

/** Plans until no text of a file is missing: a page reads files only with a wait, and a plan asks for few. */
export async function planFolder(
  files: { path: string; file: File }[],
  settings: SourceSettings = {},
): Promise<FolderPlan> {
  const byPath = new Map(files.map(({ path, file }) => [path, file]))
  const texts = new Map<string, string | null>()
  const paths = new Set(byPath.keys())
  for (;;) {
    const wanted = new Set<string>()
    const read = (path: string) => {
      if (paths.has(path) && !texts.has(path)) wanted.add(path)
      return texts.get(path) ?? null
    }
    const outcome = previewPlan({ paths, read }, settings)
    if (wanted.size === 0) return describe(outcome)
    for (const path of wanted) {
      const file = byPath.get(path)!
      texts.set(path, file.size <= MAX_FILE_BYTES ? await file.text() : null)
    }
  }
}

function describe(outcome: PlanOutcome): FolderPlan {
  const nothing = { refusal: null, roots: [], certain: [], guessed: [], warnings: [], steps: [] }
  if ('refusal' in outcome) {
    const { message, remedy } = outcome.refusal
    return { ...nothing, refusal: message, roots: remedy.roots ?? [] }
  }
  const { certain, guessed, warnings } = outcome.plan
  return { ...nothing, certain, guessed, warnings, steps: describePlan(outcome.plan) }
}
