// Members of an application that serves graphs: its variables, of which its own win, and where it is asked to sleep.
import type { Artifact, RevisionSpec } from '../engine.ts'

export const servesGraphs = ({ build_plan }: Pick<Artifact, 'build_plan'>): boolean => build_plan?.kind === 'graphs'

export const graphVariables = (
  { application_key }: Pick<RevisionSpec, 'application_key'>,
  artifact: Pick<Artifact, 'build_plan'>,
): Record<string, string> => (servesGraphs(artifact) && application_key ? { GRAPHS_API_KEY: application_key } : {})

/** Plans of earlier agents have none. Their servers refuse the question, and stay awake. */
export const sleepPathOf = (artifact: Pick<Artifact, 'build_plan' | 'sleep_path'>): string | null =>
  artifact.sleep_path ??
  (servesGraphs(artifact) ? `${artifact.build_plan?.health_path?.replace(/\/ok$/, '')}/internal/sleep` : null)
