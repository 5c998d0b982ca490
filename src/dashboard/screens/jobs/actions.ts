// Actions on jobs and schedules, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { Job, Schedule, Snapshot } from './job-state.ts'

type Unavailable = string | undefined

export const cancelJob = ({ id, deployment_id }: Job, unavailable: Unavailable): Action => ({
  label: 'Cancel job',
  request: request('POST /v2/deployments/{deployment_id}/jobs/{job_id}/cancel', {
    params: { deployment_id, job_id: id },
  }),
  unavailable,
  done: 'The job is cancelled.',
})

/** Replaces what is there, of which a snapshot is kept. */
export const restoreSnapshot = ({ id, deployment_id, store }: Snapshot, unavailable: Unavailable): Action => ({
  label: 'Restore',
  request: request('POST /v2/deployments/{deployment_id}/restores', {
    params: { deployment_id },
    body: { store, snapshot_id: id },
  }),
  unavailable,
  confirm: {
    title: `Restore ${store}?`,
    body: 'It replaces the data that are there, of which a snapshot is kept for 7 days. Copies stop for a moment.',
  },
  done: `A job restores ${store}.`,
})

const refOf = ({ id, deployment_id }: Schedule) => ({ params: { deployment_id, schedule_id: id } })

export const runSchedule = (schedule: Schedule, unavailable: Unavailable): Action => ({
  label: 'Run now',
  request: request('POST /v2/deployments/{deployment_id}/schedules/{schedule_id}/run', refOf(schedule)),
  unavailable,
  done: `${schedule.name} runs.`,
})

export const switchSchedule = (schedule: Schedule, unavailable: Unavailable): Action => ({
  label: schedule.enabled ? 'Disable' : 'Enable',
  request: request('PATCH /v2/deployments/{deployment_id}/schedules/{schedule_id}', {
    ...refOf(schedule),
    body: { enabled: !schedule.enabled },
  }),
  unavailable,
  done: schedule.enabled ? `${schedule.name} is disabled.` : `${schedule.name} is enabled.`,
})
