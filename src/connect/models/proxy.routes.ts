// The model proxy: the API of a model's provider, below the address of a configuration.
import * as z from 'zod'
import type { Code } from '../../kernel/http/codes.ts'
import { slice } from '../../kernel/http/routes.ts'
import { boundedText, Uuid } from '../../protocol/wire.ts'
import { callModel } from './proxy.ts'

const CallRef = z.object({
  configuration_id: Uuid,
  path: boundedText(2048).meta({
    description: 'A path of the provider’s API, such as `chat/completions` or `v1/messages`, with its slashes.',
  }),
})

const DESCRIPTION = [
  'Sends the request to the `base_url` of the configuration with this path, and passes the answer on, both as streams.',
  'Use `/v1/model-proxy/{configuration_id}` as the base URL of the provider’s SDK, and a key of this API as its key.',
  'The key must be in `Authorization: Bearer` or `X-Api-Key`; a session in a cookie does not count.',
  'Errors of the proxy are problems with an additional member `error`, which the SDKs of OpenAI and Anthropic show.',
].join(' ')

const ERRORS: Code[] = [
  'model_not_found',
  'model_proxy_off',
  'model_budget_spent',
  'model_url_not_allowed',
  'model_body_too_large',
  'model_body_ambiguous',
  'bodies_busy',
  'body_cut',
  'body_too_slow',
  'blocked_url',
  'upstream_redirected',
  'upstream_error',
  'upstream_timeout',
]

const declared = (summary: string, id: string) => ({
  id,
  summary,
  description: DESCRIPTION,
  params: CallRef,
  kind: 'passThrough' as const,
  // Bodies and answers take minutes.
  longBody: true,
  // Calls are counted and write no event.
  isReadOnly: true,
  verb: callModel,
  errors: ERRORS,
})

const PATH = '/v1/model-proxy/{configuration_id}/{path}'

export const modelProxyRoutes = slice('Model proxy', 'Calls of models with the credentials of the workspace.')
  .get(PATH, declared('Read from a model’s API', 'getThroughModelProxy'))
  .post(PATH, declared('Call a model', 'callModel'))
  .put(PATH, declared('Replace something of a model’s API', 'putThroughModelProxy'))
  .patch(PATH, declared('Change something of a model’s API', 'patchThroughModelProxy'))
  .delete(PATH, declared('Delete something of a model’s API', 'deleteThroughModelProxy'))
