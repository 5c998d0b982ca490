// Jobs and schedules in words (pure).
import type { Reply } from '../../api/client.ts'
import type { State } from '../../format/state.ts'

export type Job = Reply<'GET /v2/deployments/{deployment_id}/jobs/{job_id}'>
export type Schedule = Reply<'GET /v2/deployments/{deployment_id}/schedules/{schedule_id}'>
export type Snapshot = Reply<'GET /v2/snapshots/{snapshot_id}'>

const JOB_STATES: Record<Job['status'], State> = {
  QUEUED: { word: 'Queued', tone: 'busy', shape: 'queued' },
  RUNNING: { word: 'Running', tone: 'busy', shape: 'arc' },
  SUCCEEDED: { word: 'Succeeded', tone: 'ok', shape: 'check' },
  FAILED: { word: 'Failed', tone: 'bad', shape: 'octagon' },
  TIMED_OUT: { word: 'Timed out', tone: 'bad', shape: 'octagon' },
  CANCELLED: { word: 'Cancelled', tone: 'idle', shape: 'minus' },
  LOST: { word: 'Lost', tone: 'warn', shape: 'diamond' },
  MISSED: { word: 'Missed', tone: 'warn', shape: 'triangle' },
  SKIPPED: { word: 'Skipped', tone: 'idle', shape: 'struck' },
}

export const stateOfJob = ({ status }: Pick<Job, 'status'>): State => JOB_STATES[status]
export const isOpen = (job: Pick<Job, 'status'>): boolean => stateOfJob(job).tone === 'busy'

export const describeCommand = ({ command }: Pick<Job, 'command'>): string =>
  typeof command === 'string' ? command : command.join(' ')
