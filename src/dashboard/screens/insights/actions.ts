// What can be done with insights, each as one request.
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

export const createJob = (session_id: string, body: NewJob): Action => ({
  label: 'Start job',
  request: request('POST /sessions/{session_id}/insights', { params: { session_id }, body }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The job has started.',
})

export const createConfig = (session_id: string, body: NewConfig): Action => ({
  label: 'Save config',
  request: request('POST /sessions/{session_id}/insights/configs', { params: { session_id }, body }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The config is saved.',
})

export const startConfig = (session_id: string, config: Config): Action => ({
  label: 'Start now',
  request: request('POST /sessions/{session_id}/insights', { params: { session_id }, body: { config_id: config.id } }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The job has started.',
})

export const deleteConfig = (session_id: string, { id, name }: Config): Action => ({
  label: 'Delete',
  request: request('DELETE /sessions/{session_id}/insights/configs/{config_id}', {
    params: { session_id, config_id: id },
  }),
  unavailable: explainMissingHere('rules:create'),
  confirm: {
    title: `Delete the config ${name}?`,
    body: 'It and its schedule are deleted. Its jobs and what they found stay.',
    isDestructive: true,
  },
  done: `The config ${name} is deleted.`,
})

export const deleteJob = (session_id: string, { id, name }: Pick<Job, 'id' | 'name'>): Action => ({
  label: 'Delete job',
  request: request('DELETE /sessions/{session_id}/insights/{job_id}', { params: { session_id, job_id: id } }),
  unavailable: explainMissingHere('rules:create'),
  confirm: {
    title: `Delete the job ${name}?`,
    body: 'It is deleted with its clusters, summaries and report. The traces stay.',
    isDestructive: true,
  },
  done: `The job ${name} is deleted.`,
})
