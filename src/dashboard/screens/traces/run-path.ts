// The address of a run within its trace (pure).
import type { Run } from '../../api/runs.ts'

export const runPath = ({ session_id, trace_id, id }: Pick<Run, 'session_id' | 'trace_id' | 'id'>): string =>
  `/traces/${session_id}/${trace_id}${id === trace_id ? '' : `?run=${id}`}`
