// A plan before any agent has the source: its result or the sentence that refuses it. An agent plans again, and knows
// whether it can build a Dockerfile.
import { applicationRoot, configurationPathOf } from './application-root.ts'
import { type BuildPlan, PlanRefused } from './build-plan.ts'
import { readExplicitStart } from './explicit-start.ts'
import { planBuild } from './plan-build.ts'
import type { SourceFiles } from './source-files.ts'

/** Members of a deployment that decide with the files. */
export type SourceSettings = {
  root_directory?: string | null | undefined
  platform_config_path?: string | null | undefined
  install_command?: string | null | undefined
  build_command?: string | null | undefined
}
type Outcome = { plan: BuildPlan } | { refusal: PlanRefused }
/** `withoutImages`: what an agent that builds no images does with a source that has a Dockerfile. */
export type PlanOutcome = { plan: BuildPlan; withoutImages?: Outcome } | { refusal: PlanRefused }

/** The faults of a parsed configuration file, as a sentence. A page has no schemas, so it checks none. */
export type CheckConfiguration = (path: string, value: unknown) => string | null

export function previewPlan(files: SourceFiles, settings: SourceSettings, check?: CheckConfiguration): PlanOutcome {
  const path = configurationPathOf(settings)
  try {
    const text = files.read(path)
    const configuration = readConfiguration(path, text)
    const faults = text === null ? null : check?.(path, JSON.parse(text))
    if (faults) throw new PlanRefused(faults)
    const root = applicationRoot(settings.root_directory, settings.platform_config_path ?? configuration.path)
    const install_command = settings.install_command ?? configuration.install_command ?? null
    const build_command = settings.build_command ?? configuration.build_command ?? null
    const options = { root, configuration, install_command, build_command }
    const plan = planBuild(files, { ...options, buildsImages: true })
    if (plan.provider !== 'dockerfile') return { plan }
    const withoutImages = tryPlan(() => planBuild(files, { ...options, buildsImages: false }))
    plan.warnings.unshift(describeWithoutImages(withoutImages))
    return { plan, withoutImages }
  } catch (error) {
    if (error instanceof PlanRefused) return { refusal: error }
    throw error
  }
}

function tryPlan(work: () => BuildPlan): Outcome {
  try {
    return { plan: work() }
  } catch (error) {
    if (error instanceof PlanRefused) return { refusal: error }
    throw error
  }
}

function describeWithoutImages(outcome: Outcome): string {
  const agent = 'An agent that runs processes, such as that of `npm run dev`,'
  if ('refusal' in outcome)
    return `${agent} cannot build a Dockerfile, and nothing else here says how the application starts.`
  const { start } = outcome.plan
  return `${agent} does not use the Dockerfile. It ${start ? `starts \`${start}\`` : 'serves the files'}.`
}

function readConfiguration(path: string, text: string | null) {
  try {
    return readExplicitStart(path, text)
  } catch (error) {
    throw new PlanRefused(`\`${path}\` is not valid JSON: ${(error as Error).message}.`)
  }
}
