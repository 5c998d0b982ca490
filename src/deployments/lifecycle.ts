// Which state of a revision may follow which, and for how long anything may be silent.
import type { RevisionStatus, Source } from '../protocol/parts.schema.ts'
import { SOURCE_RULES } from './source-rules.ts'

// ---- one revision

const NEXT_STATES: Record<RevisionStatus, readonly RevisionStatus[]> = {
  CREATING: ['QUEUED', 'CREATE_FAILED', 'SKIPPED', 'INTERRUPTED'],
  QUEUED: ['AWAITING_BUILD', 'AWAITING_DEPLOY', 'SKIPPED', 'INTERRUPTED'],
  AWAITING_BUILD: ['BUILDING', 'BUILD_FAILED', 'INTERRUPTED'],
  BUILDING: ['AWAITING_DEPLOY', 'BUILD_FAILED', 'INTERRUPTED'],
  AWAITING_DEPLOY: ['DEPLOYING', 'DEPLOY_FAILED', 'INTERRUPTED'],
  DEPLOYING: ['DEPLOYED', 'DEPLOY_FAILED', 'INTERRUPTED', 'UNKNOWN'],
  // Its listener fell silent; once that is back, its report settles it.
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

/** What may follow a state of a revision from this source: its turn takes it straight to what it needs first. */
export function nextStates(source: Source, state: RevisionStatus): readonly RevisionStatus[] {
  const { builds } = SOURCE_RULES[source]
  if (state === 'QUEUED') return NEXT_STATES.QUEUED.filter(to => to !== (builds ? 'AWAITING_DEPLOY' : 'AWAITING_BUILD'))
  return !builds && BUILD_STATES.includes(state) ? [] : NEXT_STATES[state]
}
export const canFollow = (source: Source, from: RevisionStatus, to: RevisionStatus) =>
  nextStates(source, from).includes(to)
/** Where a revision goes when its turn comes. */
export const startState = (source: Source): RevisionStatus =>
  SOURCE_RULES[source].builds ? 'AWAITING_BUILD' : 'AWAITING_DEPLOY'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

type Deadline = { after: number; becomes: RevisionStatus; message: string }
/** How long a state may last. QUEUED has no deadline of its own: those before it have theirs. */
export const DEADLINES: Partial<Record<RevisionStatus, Deadline>> = {
  CREATING: { after: DAY, becomes: 'CREATE_FAILED', message: 'What it is made from did not arrive within 24 hours.' },
  AWAITING_BUILD: { after: 10 * MINUTE, becomes: 'BUILD_FAILED', message: 'No builder took it within 10 minutes.' },
  BUILDING: { after: 30 * MINUTE, becomes: 'BUILD_FAILED', message: 'The build did not end within 30 minutes.' },
  AWAITING_DEPLOY: {
    after: 15 * MINUTE,
    becomes: 'DEPLOY_FAILED',
    message: 'No listener took it within 15 minutes.',
  },
  DEPLOYING: { after: 15 * MINUTE, becomes: 'DEPLOY_FAILED', message: 'It was not healthy within 15 minutes.' },
}
export const LISTENER_LOST = {
  becomes: 'UNKNOWN',
  message: 'Its listener fell silent while deploying it, and goes on with it when it is back.',
} as const

// ---- the deployment

export const LISTENER_SILENT_AFTER = 5 * MINUTE
export const UNUSED_AFTER = 28 * DAY
