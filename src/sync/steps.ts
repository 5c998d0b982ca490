// Where a report takes a revision: through which states, or nowhere because it is there already. Pure.
import { mayFollow } from '../deployments/lifecycle.ts'
import { type RevisionStatus, revisionStatuses, type Source, sources } from '../deployments/parts.schema.ts'
import type { ReportState } from './report.schema.ts'

const TARGET = {
  building: 'BUILDING',
  built: 'AWAITING_DEPLOY',
  deploying: 'DEPLOYING',
  deployed: 'DEPLOYED',
} as const satisfies Partial<Record<ReportState, RevisionStatus>>
export type Moving = keyof typeof TARGET | 'failed'
export const moving = [...Object.keys(TARGET), 'failed'] as Moving[]

const WAY: RevisionStatus[] = ['AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED']
const FAILED: RevisionStatus[] = ['BUILD_FAILED', 'DEPLOY_FAILED']

/**
 * The states that follow from a report, in their order: none where it says what holds already, null where the revision has ended
 * otherwise. Reports may be lost or left out, so the steps between are taken along.
 */
export function steps(source: Source, from: RevisionStatus, state: Moving): RevisionStatus[] | null {
  if (state === 'failed') {
    const [failure] = FAILED.filter(to => mayFollow(source, from, to))
    return failure ? [failure] : FAILED.includes(from) ? [] : null
  }
  const to = TARGET[state]
  // A listener that was silent for too long, heard of again.
  if (from === 'UNKNOWN') return to === 'DEPLOYED' ? ['DEPLOYED'] : []
  const [at, goal] = [WAY.indexOf(from), WAY.indexOf(to)]
  return at < 0 ? null : WAY.slice(at + 1, goal + 1)
}

type Step = { source: Source; status: RevisionStatus; state: Moving; path: RevisionStatus[] }
/** All of them, for the statement that asks. Where a revision without a build stands, the way has no build before it. */
export const STEPS: Step[] = sources.flatMap(source =>
  revisionStatuses.flatMap(status =>
    moving.flatMap(state => {
      const path = steps(source, status, state)
      return path ? [{ source, status, state, path }] : []
    }),
  ),
)
