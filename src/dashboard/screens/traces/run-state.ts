// Describes the type and the state of a run (pure).
import type { Run } from '../../api/runs.ts'
import type { State } from '../../format/state.ts'

export const RUN_TYPES = ['llm', 'chain', 'tool', 'retriever', 'embedding', 'prompt', 'parser'] as const
export type RunType = Run['run_type']

export const TYPE_WORDS: Record<RunType, string> = {
  llm: 'Model',
  chain: 'Chain',
  tool: 'Tool',
  retriever: 'Retriever',
  embedding: 'Embedding',
  prompt: 'Prompt',
  parser: 'Parser',
}

const STATES: Record<Run['status'], State> = {
  success: { word: 'Succeeded', tone: 'ok', shape: 'check' },
  error: { word: 'Failed', tone: 'bad', shape: 'octagon' },
  pending: { word: 'Running', tone: 'busy', shape: 'arc' },
}
export const stateOfRun = ({ status }: Pick<Run, 'status'>): State =>
  STATES[status] ?? { word: 'State unknown', tone: 'warn', shape: 'diamond' }

/** In seconds. Undefined while it runs. */
export function latencyOf({ start_time, end_time }: Pick<Run, 'start_time' | 'end_time'>): number | undefined {
  if (!start_time || !end_time) return undefined
  const seconds = (Date.parse(end_time) - Date.parse(start_time)) / 1000
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined
}

/** The first line of an error is what happened; the rest is often a stack. */
export const firstLine = (text: string): string => /^\s*(.*)/.exec(text)?.[1] ?? ''
