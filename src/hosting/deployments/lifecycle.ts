// The states of a revision in groups, and the deadline of each. Pure. The database moves revisions from state to state.
import type { RevisionStatus } from '../../protocol/parts.schema.ts'

// ---- one revision

/** The states of a revision in the queue are those of is_in_queue() in drizzle/functions/deployments.sql. */
export const waitingStates: RevisionStatus[] = ['CREATING', 'QUEUED']
export const inFlightStates: RevisionStatus[] = ['AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING']
/** A revision that is UNKNOWN has not ended: the next report of its listener decides. */
export const terminalStates: RevisionStatus[] = [
  'DEPLOYED',
  'CREATE_FAILED',
  'BUILD_FAILED',
  'DEPLOY_FAILED',
  'SKIPPED',
  'INTERRUPTED',
]

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
