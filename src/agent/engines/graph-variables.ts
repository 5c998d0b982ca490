// The variables of an application that serves graphs. Its own win.
import type { Artifact, RevisionSpec } from '../engine.ts'

export const servesGraphs = ({ build_plan }: Pick<Artifact, 'build_plan'>): boolean => build_plan?.kind === 'graphs'

export const graphVariables = (
  { application_key }: Pick<RevisionSpec, 'application_key'>,
  artifact: Pick<Artifact, 'build_plan'>,
): Record<string, string> => (servesGraphs(artifact) && application_key ? { GRAPHS_API_KEY: application_key } : {})
