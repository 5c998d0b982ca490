// What can be done with insights jobs, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions } from '../../api/client.ts'
import { explainMissingHere } from '../../api/permissions.ts'
import type { InsightJob } from './insight-state.ts'

export type NewInsightJob = NonNullable<CallOptions<'POST /sessions/{session_id}/insights'>['body']>

export const startInsights = (session_id: string, body: NewInsightJob): Action => ({
  label: 'Start job',
  request: request('POST /sessions/{session_id}/insights', { params: { session_id }, body }),
  unavailable: explainMissingHere('rules:create'),
  done: 'The job runs in the background.',
})

export const deleteInsights = (session_id: string, { id, name }: InsightJob): Action => ({
  label: 'Delete job',
  request: request('DELETE /sessions/{session_id}/insights/{job_id}', { params: { session_id, job_id: id } }),
  unavailable: explainMissingHere('rules:create'),
  confirm: {
    title: `Delete the insights ${name}?`,
    body: 'Its clusters and its report are deleted. The traces stay. A job that runs ends.',
    isDestructive: true,
  },
  done: `The insights ${name} are deleted.`,
})
