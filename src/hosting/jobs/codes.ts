// Error codes of jobs and schedules.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const jobsCodes = {
  job_not_found: {
    status: 404,
    title: 'Job not found',
    problem: 'This deployment has no such job.',
    remedy: 'GET /v2/deployments/{deployment_id}/jobs lists its jobs.',
  },
  schedule_not_found: {
    status: 404,
    title: 'Schedule not found',
    problem: 'This deployment has no such schedule.',
    remedy: 'GET /v2/deployments/{deployment_id}/schedules lists its schedules.',
  },
  schedule_name_taken: {
    status: 409,
    title: 'Schedule name taken',
    problem: 'This deployment already has a schedule with this `name`.',
    remedy: 'Choose another name, or change that schedule.',
  },
  nothing_serves: {
    status: 409,
    title: 'Nothing serves',
    problem: 'No revision of the deployment serves, so there is no environment to run a job in.',
    remedy: 'Deploy it, and wait until a revision is DEPLOYED.',
  },
  jobs_not_supported: {
    status: 409,
    title: 'Jobs not supported',
    problem: 'The agent that serves the deployment has not said that it can run jobs.',
    remedy: 'Have its operator update the agent and restart it.',
  },
  job_queue_full: {
    status: 409,
    title: 'Too many jobs',
    problem: 'The workspace has as many jobs that wait or run as it may have.',
    remedy: 'Wait until some have ended, or cancel some.',
  },
  job_ended: {
    status: 409,
    title: 'Job has ended',
    problem: 'A job that has ended cannot be cancelled.',
    remedy: 'Read the job to see how it ended.',
  },
  schedule_declared: {
    status: 409,
    title: 'Schedule of the source',
    problem: 'The configuration file of the source has this schedule, so it changes with the revision that serves.',
    remedy: 'Change the file and deploy it. `enabled` alone can be changed here, too.',
  },
  process_not_supported: {
    status: 409,
    title: 'Process not supported',
    problem: 'The agent that serves the deployment has not said that it can run jobs as a process.',
    remedy: 'Have its operator update the agent and restart it, or leave `process` out.',
  },
  process_unknown: {
    status: 409,
    title: 'Process not found',
    problem: 'The revision that serves has no process of this name.',
    remedy: 'Leave `process` out, or take one of the `processes` in the plan of the revision.',
  },
  schedule_running: {
    status: 409,
    title: 'Schedule is running',
    problem: 'A run of the schedule has not ended, and its `overlap` is `skip`.',
    remedy: 'Wait for its end or cancel it, or change `overlap`.',
  },
} as const satisfies ErrorCodes
