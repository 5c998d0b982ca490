// Routes of jobs.
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef, DryRun } from '../deployments/schema.ts'
import { readJobLogs, streamJobLogs } from './job-logs.ts'
import * as jobs from './jobs.ts'
import * as s from './schema.ts'

const CREATION_ERRORS = [
  ...(['deployment_not_found', 'deployment_deleting', 'nothing_serves', 'jobs_not_supported'] as const),
  ...(['job_queue_full', 'process_unknown', 'process_not_supported'] as const),
] as const
const COMMANDS = 'It also requires the permission `deployments:change-commands`.'

export const jobRoutes = slice('Jobs', 'Commands that run once in the environment of a deployment.')
  .get('/v2/deployments/{deployment_id}/jobs', {
    id: 'listJobs',
    summary: 'List the jobs of a deployment, newest first',
    description: 'With `schedule_id`, the history of a schedule. Jobs are kept for JOB_RETENTION_DAYS after their end.',
    params: DeploymentRef,
    query: s.JobQuery,
    reply: s.JobList,
    errors: ['deployment_not_found'],
    verb: jobs.listJobs,
  })
  .post('/v2/deployments/{deployment_id}/jobs', {
    id: 'createJob',
    summary: 'Run a command once, in the environment of the revision that serves',
    description: [
      'It has the files, variables, resources and disks of the revision, and no port. It never runs twice.',
      'A workspace runs a limited number at once: the others are `QUEUED`.',
      'With `dry_run=true`, the answer is the plan and nothing runs.',
      COMMANDS,
    ].join(' '),
    params: DeploymentRef,
    query: DryRun,
    body: s.NewJob,
    status: 201,
    reply: s.Job,
    variant: { on: 'dry_run', reply: s.JobPlan, verb: jobs.planJob },
    errors: [...CREATION_ERRORS, 'plan_stale'],
    location: job => `/v2/deployments/${job.deployment_id}/jobs/${job.id}`,
    verb: jobs.createJob,
  })
  .get('/v2/deployments/{deployment_id}/jobs/{job_id}', {
    id: 'readJob',
    summary: 'Read a job',
    description: 'To wait for its end, read its lines with `wait`: each answer has the job.',
    params: s.JobRef,
    reply: s.Job,
    errors: ['job_not_found'],
    verb: jobs.readJob,
  })
  .post('/v2/deployments/{deployment_id}/jobs/{job_id}/cancel', {
    id: 'cancelJob',
    summary: 'Cancel a job that has not ended',
    description: 'One that waits is `CANCELLED` at once. One that runs is stopped by its agent, and then `CANCELLED`.',
    params: s.JobRef,
    reply: s.Job,
    errors: ['job_not_found', 'job_ended'],
    verb: jobs.cancelJob,
  })
  .get('/v2/deployments/{deployment_id}/jobs/{job_id}/logs', {
    id: 'readJobLogs',
    summary: 'Read what a job writes, and how it ends',
    description: [
      'To follow it, send the `next_after` of each answer as the `after` of the next request, with `wait`,',
      'until the job has ended and there are no further lines.',
    ].join(' '),
    params: s.JobRef,
    query: s.JobLogQuery,
    reply: s.JobLogPage,
    errors: ['job_not_found'],
    verb: readJobLogs,
  })
  .get('/v2/deployments/{deployment_id}/jobs/{job_id}/logs/stream', {
    id: 'streamJobLogs',
    summary: 'Stream what a job writes, until it has ended',
    description: [
      'Server-sent events, or one JSON object per line with `Accept: application/x-ndjson`.',
      'The `id` of each is the `number` of the line. An event `job` has the job as it is now: first, and after each',
      'change of its status. The one whose status is final comes last. Before, the stream may end after some minutes:',
      'resume it after the last `id`. An event `dropped` has the number of `lines` that are no longer kept.',
    ].join(' '),
    params: s.JobRef,
    query: s.JobStreamQuery,
    kind: 'liveStream',
    errors: ['job_not_found'],
    verb: streamJobLogs,
  })
