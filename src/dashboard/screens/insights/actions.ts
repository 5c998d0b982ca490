// Actions on insights, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions, Reply } from '../../api/client.ts'
import { explainMissingHere } from '../../api/permissions.ts'

export type Job = Reply<'GET /sessions/{session_id}/insights'>['clustering_jobs'][number]
export type JobDetails = Reply<'GET /sessions/{session_id}/insights/{job_id}'>
export type Cluster = JobDetails['clusters'][number]
export type JobRun = Reply<'GET /sessions/{session_id}/insights/{job_id}/runs'>['runs'][number]
export type Config = Reply<'GET /sessions/{session_id}/insights/configs'>['configs'][number]
export type NewJob = NonNullable<CallOptions<'POST /sessions/{session_id}/insights'>['body']>
export type NewConfig = NonNullable<CallOptions<'POST /sessions/{session_id}/insights/configs'>['body']>

export const createJob = (project: string, body: NewJob): Action => ({
  label: 'Start job',
  request: request('POST /sessions/{session_id}/insights', { params: { session_id: project }, body }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The job has started.',
})

export const createConfig = (project: string, body: NewConfig): Action => ({
  label: 'Save config',
  request: request('POST /sessions/{session_id}/insights/configs', { params: { session_id: project }, body }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The config is saved.',
})

export const startConfig = (project: string, config: Config): Action => ({
  label: 'Start now',
  request: request('POST /sessions/{session_id}/insights', {
    params: { session_id: project },
    body: { config_id: config.id },
  }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The job has started.',
})

export const deleteConfig = (project: string, { id, name }: Config): Action => ({
  label: 'Delete',
  request: request('DELETE /sessions/{session_id}/insights/configs/{config_id}', {
    params: { session_id: project, config_id: id },
  }),
  unavailable: explainMissingHere('rules:create'),
  confirm: {
    title: `Delete the config ${name}?`,
    body: 'The config and its schedule are deleted. The jobs and their results stay.',
    isDestructive: true,
  },
  done: `The config ${name} is deleted.`,
})

export const deleteJob = (project: string, { id, name }: Pick<Job, 'id' | 'name'>): Action => ({
  label: 'Delete job',
  request: request('DELETE /sessions/{session_id}/insights/{job_id}', { params: { session_id: project, job_id: id } }),
  unavailable: explainMissingHere('rules:create'),
  confirm: {
    title: `Delete the job ${name}?`,
    body: 'The clusters, summaries and the report of the job are deleted. The traces stay.',
    isDestructive: true,
  },
  done: `The job ${name} is deleted.`,
})
