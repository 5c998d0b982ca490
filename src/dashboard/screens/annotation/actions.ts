// Actions on annotation queues and their items, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions, Reply } from '../../api/client.ts'
import { explainMissingHere } from '../../api/permissions.ts'

export type Queue = Reply<'GET /annotation-queues/{queue_id}'>
export type ReviewedRun = Reply<'GET /annotation-queues/{queue_id}/run/{index}'>
export type NewQueue = NonNullable<CallOptions<'POST /annotation-queues'>['body']>

export const createQueue = (body: NewQueue): Action => ({
  label: 'Create queue',
  request: request('POST /annotation-queues', { body }),
  unavailable: explainMissingHere('annotation-queues:create'),
  done: `The queue ${body.name} is created.`,
})

export const deleteQueue = ({ id, name, total_runs }: Queue): Action => ({
  label: 'Delete queue',
  request: request('DELETE /annotation-queues/{queue_id}', { params: { queue_id: id } }),
  unavailable: explainMissingHere('annotation-queues:delete'),
  confirm: {
    title: `Delete the queue ${name}?`,
    body: `The progress of the reviewers is deleted. The ${total_runs} runs and their feedback stay.`,
    isDestructive: true,
  },
  done: `The queue ${name} is deleted.`,
})

export const addToQueue = (runs: string[], { id, name }: Pick<Queue, 'id' | 'name'>): Action => ({
  label: 'Add to queue',
  request: request('POST /annotation-queues/{queue_id}/runs', { params: { queue_id: id }, body: runs as never }),
  unavailable: explainMissingHere('annotation-queues:update'),
  done: runs.length === 1 ? `The run is in ${name}.` : `The runs are in ${name}.`,
})

export const complete = ({ queue_run_id, name }: ReviewedRun): Action => ({
  label: 'Complete and next',
  request: request('POST /annotation-queues/status/{queue_run_id}', {
    params: { queue_run_id },
    body: { status: 'completed' },
  }),
  unavailable: explainMissingHere('annotation-queues:update'),
  done: `${name} is reviewed.`,
})

export const postpone = ({ queue_run_id, name }: ReviewedRun, now = new Date()): Action => ({
  label: 'Skip for now',
  request: request('POST /annotation-queues/status/{queue_run_id}', {
    params: { queue_run_id },
    body: { override_added_at: now.toISOString() },
  }),
  unavailable: explainMissingHere('annotation-queues:update'),
  done: `${name} is now last.`,
})

export const removeFromQueue = (queue_id: string, { queue_run_id, name }: ReviewedRun): Action => ({
  label: 'Remove from queue',
  request: request('DELETE /annotation-queues/{queue_id}/runs/{queue_run_id}', { params: { queue_id, queue_run_id } }),
  unavailable: explainMissingHere('annotation-queues:update'),
  done: `${name} is removed from the queue.`,
})
