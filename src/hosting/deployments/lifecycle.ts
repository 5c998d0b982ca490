// The states of a revision, which may follow which, and the deadline of each. Pure.
import type { RevisionStatus, Source } from '../../protocol/parts.schema.ts'
import { SOURCE_RULES } from './source-rules.ts'

// ---- one revision

const NEXT_STATES: Record<RevisionStatus, readonly RevisionStatus[]> = {
  CREATING: ['QUEUED', 'CREATE_FAILED', 'SKIPPED', 'INTERRUPTED'],
  QUEUED: ['AWAITING_BUILD', 'AWAITING_DEPLOY', 'SKIPPED', 'INTERRUPTED'],
  AWAITING_BUILD: ['BUILDING', 'BUILD_FAILED', 'INTERRUPTED'],
  BUILDING: ['AWAITING_DEPLOY', 'BUILD_FAILED', 'INTERRUPTED'],
  AWAITING_DEPLOY: ['DEPLOYING', 'DEPLOY_FAILED', 'INTERRUPTED'],
  DEPLOYING: ['DEPLOYED', 'DEPLOY_FAILED', 'INTERRUPTED', 'UNKNOWN'],
  // Its listener fell silent. The listener's next report decides.
  UNKNOWN: ['DEPLOYED', 'DEPLOY_FAILED'],
  DEPLOYED: [],
  CREATE_FAILED: [],
  BUILD_FAILED: [],
  DEPLOY_FAILED: [],
  SKIPPED: [],
  INTERRUPTED: [],
}
const revisionStates = Object.keys(NEXT_STATES) as RevisionStatus[]
const BUILD_STATES = ['AWAITING_BUILD', 'BUILDING'] as RevisionStatus[]

export const inFlightStates = [...BUILD_STATES, 'AWAITING_DEPLOY', 'DEPLOYING'] as RevisionStatus[]
export const waitingStates = ['CREATING', 'QUEUED'] as RevisionStatus[]
export const terminalStates = revisionStates.filter(state => NEXT_STATES[state].length === 0)

/** A revision of a source without a build skips the build states. */
export function nextStates(source: Source, state: RevisionStatus): readonly RevisionStatus[] {
  const { builds } = SOURCE_RULES[source]
  if (state === 'QUEUED') return NEXT_STATES.QUEUED.filter(to => to !== (builds ? 'AWAITING_DEPLOY' : 'AWAITING_BUILD'))
  return !builds && BUILD_STATES.includes(state) ? [] : NEXT_STATES[state]
}
export const canFollow = (source: Source, from: RevisionStatus, to: RevisionStatus) =>
  nextStates(source, from).includes(to)
/** The first state of a revision in flight. */
export const startState = (source: Source): RevisionStatus =>
  SOURCE_RULES[source].builds ? 'AWAITING_BUILD' : 'AWAITING_DEPLOY'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

type Deadline = { after: number; becomes: RevisionStatus; message: string }
/** QUEUED has no deadline: the revision before it has one. */
export const DEADLINES: Partial<Record<RevisionStatus, Deadline>> = {
  CREATING: { after: DAY, becomes: 'CREATE_FAILED', message: 'No image or archive arrived within 24 hours.' },
  AWAITING_BUILD: { after: 10 * MINUTE, becomes: 'BUILD_FAILED', message: 'No builder started it within 10 minutes.' },
  BUILDING: { after: 30 * MINUTE, becomes: 'BUILD_FAILED', message: 'The build did not finish within 30 minutes.' },
  AWAITING_DEPLOY: {
    after: 15 * MINUTE,
    becomes: 'DEPLOY_FAILED',
    message: 'No listener started to deploy it within 15 minutes.',
  },
  DEPLOYING: { after: 15 * MINUTE, becomes: 'DEPLOY_FAILED', message: 'It did not become healthy within 15 minutes.' },
}
export const LISTENER_LOST = {
  becomes: 'UNKNOWN',
  message: 'The listener stopped polling during the deploy. It continues the deploy when it is back.',
} as const

// ---- the deployment

export const LISTENER_SILENT_AFTER = 5 * MINUTE
export const UNUSED_AFTER = 28 * DAY
