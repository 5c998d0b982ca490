// The states that a report takes a revision through. Pure.
import { canFollow } from '../deployments/lifecycle.ts'
import { type RevisionStatus, revisionStatuses, type Source, sources } from '../protocol/parts.schema.ts'
import type { ReportState } from '../protocol/report.schema.ts'

const REPORTED_STATUS = {
  building: 'BUILDING',
  built: 'AWAITING_DEPLOY',
  deploying: 'DEPLOYING',
  deployed: 'DEPLOYED',
} as const satisfies Partial<Record<ReportState, RevisionStatus>>
export type MovingState = keyof typeof REPORTED_STATUS | 'failed'
export const movingStates = [...Object.keys(REPORTED_STATUS), 'failed'] as MovingState[]

const STATUS_ORDER: RevisionStatus[] = ['AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED']
const FAILURE_STATUSES: RevisionStatus[] = ['BUILD_FAILED', 'DEPLOY_FAILED']

/**
 * The states that follow from a report, in their order: none when the revision has that state already, null when it has
 * ended otherwise. Agents may skip reports, so the states in between are included.
 */
export function findTransitionPath(source: Source, from: RevisionStatus, state: MovingState): RevisionStatus[] | null {
  if (state === 'failed') {
    const [failure] = FAILURE_STATUSES.filter(to => canFollow(source, from, to))
    return failure ? [failure] : FAILURE_STATUSES.includes(from) ? [] : null
  }
  const to = REPORTED_STATUS[state]
  // The listener was silent for too long and is back.
  if (from === 'UNKNOWN') return to === 'DEPLOYED' ? ['DEPLOYED'] : []
  const [start, end] = [STATUS_ORDER.indexOf(from), STATUS_ORDER.indexOf(to)]
  return start < 0 ? null : STATUS_ORDER.slice(start + 1, end + 1)
}

type Transition = { source: Source; status: RevisionStatus; state: MovingState; path: RevisionStatus[] }
/** All transitions, for the statement of `report`. A revision without a build starts after the build states. */
export const TRANSITIONS: Transition[] = sources.flatMap(source =>
  revisionStatuses.flatMap(status =>
    movingStates.flatMap(state => {
      const path = findTransitionPath(source, status, state)
      return path ? [{ source, status, state, path }] : []
    }),
  ),
)
