// Actions on a run, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions } from '../../api/client.ts'
import { explainMissingHere } from '../../api/permissions.ts'
import type { Run } from '../../api/runs.ts'

export type NewFeedback = NonNullable<CallOptions<'POST /feedback'>['body']>
type RunRef = Pick<Run, 'id' | 'name'>

export const share = ({ id, name }: RunRef): Action => ({
  label: 'Share',
  request: request('PUT /runs/{run_id}/share', { params: { run_id: id }, body: {} }),
  unavailable: explainMissingHere('runs:share'),
  confirm: {
    title: `Share ${name}?`,
    body:
      'Anyone who has the link can read this run and all runs below it, without signing in: inputs, outputs, errors ' +
      'and metadata. Sharing can be ended at any time.',
  },
  done: `${name} is shared.`,
})

export const unshare = ({ id, name }: RunRef): Action => ({
  label: 'End sharing',
  request: request('DELETE /runs/{run_id}/share', { params: { run_id: id } }),
  unavailable: explainMissingHere('runs:share'),
  done: `The link to ${name} is no longer valid.`,
})

export const giveFeedback = (body: NewFeedback): Action => ({
  label: 'Give feedback',
  request: request('POST /feedback', { body }),
  unavailable: explainMissingHere('feedback:create'),
  done: 'The feedback is stored.',
})

export const deleteFeedback = ({ id, key }: { id: string; key: string }): Action => ({
  label: 'Delete',
  request: request('DELETE /feedback/{feedback_id}', { params: { feedback_id: id } }),
  unavailable: explainMissingHere('feedback:delete'),
  confirm: {
    title: `Delete this feedback “${key}”?`,
    body: 'The feedback is removed from the run and from all averages. The retention of the trace does not change.',
    isDestructive: true,
  },
  done: `The feedback “${key}” is deleted.`,
})

export const deleteTrace = ({ session_id, trace_id, name }: Pick<Run, 'session_id' | 'trace_id' | 'name'>): Action => ({
  label: 'Delete trace',
  request: request('POST /runs/delete', { body: { session_id, trace_ids: [trace_id] } }),
  unavailable: explainMissingHere('runs:delete'),
  confirm: {
    title: `Delete the trace ${name}?`,
    body: 'All its runs, their inputs, outputs, attachments and feedback are deleted. Datasets keep their examples.',
    isDestructive: true,
  },
  done: `The trace ${name} is deleted.`,
})

export const addToDataset = (
  { id, name }: Pick<Run, 'id' | 'name'>,
  dataset: { id: string; name: string },
  split: string,
): Action => ({
  label: 'Add to dataset',
  // The API keeps the body byte for byte, so the types do not describe it.
  request: request('POST /examples', {
    body: {
      dataset_id: dataset.id,
      source_run_id: id,
      use_source_run_io: true,
      ...(split && { split }),
    },
  } as never),
  unavailable: explainMissingHere('datasets:update'),
  done: `${name} is an example of ${dataset.name}.`,
})
