// Graph applications, which an issue of their own will run.
import type { Folder } from '../source-files.ts'

export const GRAPH_REFUSAL =
  '`langgraph.json` describes a graph application, which cannot be run yet. To run a server of your own, ' +
  'set `start_command` in slipway.json.'

export const proposeGraph = (app: Folder): string | null => (app.has('langgraph.json') ? GRAPH_REFUSAL : null)
