// Where a report takes a revision: through which states, or nowhere because it is there already. Pure.
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
 * The states that follow from a report, in their order: none where it says what holds already, null where the revision has ended
 * otherwise. Reports may be lost or left out, so the steps between are taken along.
 */
export function findTransitionPath(source: Source, from: RevisionStatus, state: MovingState): RevisionStatus[] | null {
  if (state === 'failed') {
    const [failure] = FAILURE_STATUSES.filter(to => canFollow(source, from, to))
    return failure ? [failure] : FAILURE_STATUSES.includes(from) ? [] : null
  }
  const to = REPORTED_STATUS[state]
  // A listener that was silent for too long, heard of again.
  if (from === 'UNKNOWN') return to === 'DEPLOYED' ? ['DEPLOYED'] : []
  const [at, goal] = [STATUS_ORDER.indexOf(from), STATUS_ORDER.indexOf(to)]
  return at < 0 ? null : STATUS_ORDER.slice(at + 1, goal + 1)
}

type Transition = { source: Source; status: RevisionStatus; state: MovingState; path: RevisionStatus[] }
/** All of them, for the statement that asks. Where a revision without a build stands, the way has no build before it. */
export const TRANSITIONS: Transition[] = sources.flatMap(source =>
  revisionStatuses.flatMap(status =>
    movingStates.flatMap(state => {
      const path = findTransitionPath(source, status, state)
      return path ? [{ source, status, state, path }] : []
    }),
  ),
)
