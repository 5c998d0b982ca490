// Plans how a chosen folder is built and started, as the command line and the agents do.
import { type BuildPlan, PlanRefused } from '../../../build-plan/build-plan.ts'
import { describePlan } from '../../../build-plan/describe-plan.ts'
import { readExplicitStart } from '../../../build-plan/explicit-start.ts'
import { planBuild } from '../../../build-plan/plan-build.ts'
import { MAX_FILE_BYTES } from '../../../build-plan/source-files.ts'
import { CONFIGURATION } from '../../../client/archive-rules.ts'

/** `sentences`: what was found, then what to know. `steps`: pairs of a name and a command or folder. */
export type FolderPlan = { refusal: string | null; sentences: string[]; steps: [name: string, text: string][] }

/** Plans until no text of a file is missing: a page reads files only with a wait, and a plan asks for few. */
export async function planFolder(files: { path: string; file: File }[]): Promise<FolderPlan> {
  const byPath = new Map(files.map(({ path, file }) => [path, file]))
  const texts = new Map<string, string | null>()
  const paths = new Set(byPath.keys())
  for (;;) {
    const wanted = new Set<string>()
    const read = (path: string) => {
      if (paths.has(path) && !texts.has(path)) wanted.add(path)
      return texts.get(path) ?? null
    }
    const plan = attempt(() => {
      const configuration = readExplicitStart(CONFIGURATION, read(CONFIGURATION))
      return planBuild({ paths, read }, { configuration, buildsImages: true })
    })
    if (wanted.size === 0) return plan
    for (const path of wanted) {
      const file = byPath.get(path)!
      texts.set(path, file.size <= MAX_FILE_BYTES ? await file.text() : null)
    }
  }
}

function attempt(plan: () => BuildPlan): FolderPlan {
  try {
    const found = plan()
    const guesses = found.guessed.map(sentence => `Guessed: ${sentence}`)
    return {
      refusal: null,
      sentences: [...found.certain, ...guesses, ...found.warnings],
      steps: describePlan(found),
    }
  } catch (error) {
    if (error instanceof PlanRefused) return { refusal: error.message, sentences: [], steps: [] }
    if (error instanceof SyntaxError)
      return { refusal: `${CONFIGURATION} is not JSON: ${error.message}. Correct it.`, sentences: [], steps: [] }
    throw error
  }
}
