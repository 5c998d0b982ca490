// Actions on datasets and their examples, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions, Reply } from '../../api/client.ts'
import { explainMissingHere } from '../../api/permissions.ts'

export type Dataset = Reply<'GET /datasets/{dataset_id}'>
export type Example = Reply<'GET /examples'>[number]
export type NewDataset = NonNullable<CallOptions<'POST /datasets'>['body']>

export const createDataset = (body: NewDataset): Action => ({
  label: 'Create dataset',
  request: request('POST /datasets', { body }),
  unavailable: explainMissingHere('datasets:create'),
  done: `The dataset ${body.name} is created.`,
})

export const changeDataset = ({ id }: Dataset, body: { name: string; description: string | null }): Action => ({
  label: 'Save dataset',
  request: request('PATCH /datasets/{dataset_id}', { params: { dataset_id: id }, body }),
  unavailable: explainMissingHere('datasets:update'),
  done: `The dataset ${body.name} is saved.`,
})

export const deleteDataset = ({ id, name, example_count }: Dataset): Action => ({
  label: 'Delete dataset',
  request: request('DELETE /datasets/{dataset_id}', { params: { dataset_id: id } }),
  unavailable: explainMissingHere('datasets:delete'),
  confirm: {
    title: `Delete the dataset ${name}?`,
    body:
      `Its ${example_count === 1 ? 'example is' : `${example_count} examples are`} deleted in all versions, with ` +
      'their attachments. The source runs and the experiments stay.',
    isDestructive: true,
    ...(example_count > 0 && { typed: name }),
  },
  done: `The dataset ${name} is deleted.`,
})

export const addExample = (dataset: Dataset, body: { inputs: unknown; outputs?: unknown; split?: string }): Action => ({
  label: 'Add example',
  // The API keeps the body byte for byte, so the types do not describe it.
  request: request('POST /examples', { body: { dataset_id: dataset.id, ...body } } as never),
  unavailable: explainMissingHere('datasets:update'),
  done: `${dataset.name} has one more example.`,
})

export const deleteExample = ({ id }: Example): Action => ({
  label: 'Delete example',
  request: request('DELETE /examples/{example_id}', { params: { example_id: id } }),
  unavailable: explainMissingHere('datasets:update'),
  confirm: {
    title: 'Delete this example?',
    body: 'The next version of the dataset will not include it. Earlier versions keep it.',
    isDestructive: true,
  },
  done: 'The example is deleted. Earlier versions keep it.',
})
