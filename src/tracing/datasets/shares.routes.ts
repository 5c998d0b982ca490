// Routes of shared datasets: sharing them, and reading them without a key.
import type { Code } from '../../kernel/http/codes.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import { type OpenOperation, type Services, slice } from '../../kernel/http/routes.ts'
import { ExampleCount, ExampleList } from './examples.schema.ts'
import { DatasetRef, Deleted } from './schema.ts'
import * as s from './shares.schema.ts'
import * as shares from './shares.ts'

type RouteContext = Parameters<OpenOperation['open']>[0]

const ERRORS: Code[] = [
  'share_not_found',
  'invalid_request',
  'address_rate_limited',
  'link_rate_limited',
  'answers_busy',
  'database_unavailable',
]
const LISTS = ['splits', 'full_text_contains', 'select']
const datasetInput = { params: s.ShareRef }
const listInput = { params: s.ShareRef, query: s.SharedExampleQuery, repeatable: ['id'], lists: LISTS }
const countInput = { params: s.ShareRef, query: s.SharedExampleFilter, repeatable: ['id'], lists: LISTS.slice(0, 2) }

/** Guesses of tokens are limited by address, and requests with a token that exists by its budget. */
const answer = <Input extends s.Share>(
  c: RouteContext,
  services: Services,
  input: Input,
  read: (input: Input) => Promise<unknown>,
): Promise<Response> => {
  const link = { route: 'shared-dataset', token: input.share_token, refusal: 'share_not_found' } as const
  return c.var.limits.answerLink(c, services, link, () => read(input))
}
const originOf = (c: RouteContext, { config }: Services) => requestOrigin(config, c.req.url)

export const shareRoutes = slice('Shared datasets', 'Datasets that everyone who has a link can read, without a key.')
  .get('/datasets/{dataset_id}/share', {
    id: 'readDatasetShare',
    summary: 'Read the link of a dataset, or null',
    description: 'Null means that the dataset is not shared.',
    toleratesUnknown: true,
    params: DatasetRef,
    reply: s.DatasetShare.nullable(),
    errors: ['dataset_not_found'],
    verb: shares.readShare,
  })
  .put('/datasets/{dataset_id}/share', {
    id: 'shareDataset',
    summary: 'Share a dataset with everyone who has the link',
    description: 'Sharing it again answers the same link. A body is ignored.',
    toleratesUnknown: true,
    untypedBody: true,
    params: DatasetRef,
    reply: s.DatasetShare,
    errors: ['dataset_not_found'],
    verb: shares.shareDataset,
  })
  .delete('/datasets/{dataset_id}/share', {
    id: 'unshareDataset',
    summary: 'End the link of a dataset',
    description: 'The link stops working at once. Sharing the dataset again makes another link.',
    toleratesUnknown: true,
    params: DatasetRef,
    reply: Deleted,
    errors: ['dataset_not_found'],
    verb: shares.unshareDataset,
  })
  .get('/public/{share_token}/datasets', {
    id: 'readSharedDataset',
    summary: 'Read a shared dataset',
    description: 'Takes no API key.',
    ...datasetInput,
    reply: s.SharedDataset,
    errors: ERRORS,
    open: (c, services) =>
      answer(c, services, validateInput(c.req, datasetInput, '', []) as s.Share, input =>
        shares.readSharedDataset(services, input),
      ),
  })
  .get('/public/{share_token}/examples', {
    id: 'listSharedExamples',
    summary: 'List the examples of a shared dataset',
    description: 'Takes no API key.',
    ...listInput,
    reply: ExampleList,
    errors: [...ERRORS, 'dataset_version_not_found', 'query_too_slow'],
    open: (c, services) =>
      answer(c, services, validateInput(c.req, listInput, '', []) as s.Share & s.SharedExampleQuery, input =>
        shares.listSharedExamples(services, originOf(c, services), input),
      ),
  })
  .get('/public/{share_token}/examples/count', {
    id: 'countSharedExamples',
    summary: 'Count the examples of a shared dataset',
    description: 'Takes no API key.',
    ...countInput,
    reply: ExampleCount,
    errors: [...ERRORS, 'dataset_version_not_found', 'query_too_slow'],
    open: (c, services) =>
      answer(c, services, validateInput(c.req, countInput, '', []) as s.Share, input =>
        shares.countSharedExamples(services, input),
      ),
  })
