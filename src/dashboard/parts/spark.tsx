// The outcome of a revision, as charts mark it.
import type { Revision } from '../format/state.ts'

export type Outcome = 'deployed' | 'failed' | 'skipped' | 'in flight'

export function outcomeOf(status: Revision['status']): Outcome {
  if (status === 'DEPLOYED') return 'deployed'
  if (status.endsWith('_FAILED')) return 'failed'
  return status === 'SKIPPED' || status === 'INTERRUPTED' || status === 'UNKNOWN' ? 'skipped' : 'in flight'
}
