// Routes of OAuth connections: token requests, the callback of a provider, and the list of connections.
import { readOpenRequest } from '../../kernel/http/caller.ts'
import { type Code, detailOf, statusOf, titleOf } from '../../kernel/http/codes.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { readForm } from '../../kernel/http/input.ts'
import { logFailureCause } from '../../kernel/http/middleware.ts'
import { type OpenOperation, slice } from '../../kernel/http/routes.ts'
import { pageHeaders, readSingleParameter, renderPage } from '../../kernel/pages/html-page.ts'
import { disconnect, listConnections } from './connections.ts'
import * as s from './flow.schema.ts'
import {
  authenticate,
  type CallbackParameters,
  type CallbackResult,
  completeCallback,
  waitForConnection,
} from './flow.ts'

type OpenHandler = OpenOperation['open']

const TOKEN_SERVER_ERRORS: Code[] = [
  'secret_required',
  'client_refused',
  'token_answer_invalid',
  'blocked_url',
  'upstream_error',
  'upstream_timeout',
]

function callbackPage({ provider, failure }: CallbackResult): string {
  const name = provider ?? 'The provider'
  return failure === null
    ? renderPage(`${name} is connected`, ['You can close this window and return to the application.'])
    : renderPage(`${name} is not connected`, [`${titleOf(failure)}.`, detailOf(failure)])
}

const callbackHandler =
  (read: (c: Parameters<OpenHandler>[0]) => Promise<URLSearchParams>): OpenHandler =>
  async (c, services, operation) => {
    const headers = await pageHeaders()
    // A HEAD request comes from a link preview and must not use up the state.
    if (c.req.method === 'HEAD') return c.body(null, 200, headers)
    const received = await read(c)
    const parameters = { provider_id: c.req.param('provider_id')! } as CallbackParameters
    for (const name of ['state', 'code', 'iss', 'error'] as const) {
      const value = readSingleParameter(received, name)
      if (value !== undefined) parameters[name] = value
    }
    const request = readOpenRequest(c, operation, services)
    // A failure is shown as a page too, even when the provider is unknown.
    const asFailedResult = (error: unknown): CallbackResult => {
      if (!(error instanceof Failure)) throw error
      logFailureCause(error, request.requestId, services.platform)
      return { provider: null, failure: error.code }
    }
    const proof = { route: 'callback', refusal: 'state_invalid' } as const
    const result = await c.var.limits
      .prove(
        c,
        proof,
        () => completeCallback(services, request, parameters),
        ({ failure }) => failure,
      )
      .catch(asFailedResult)
    if (result.failure) c.get('requestInfo').code = result.failure
    const status = result.failure === null ? 200 : statusOf(result.failure)
    return c.body(callbackPage(result), status as 200, headers)
  }

const callbackOperation = {
  params: s.CallbackRef,
  pageMediaType: 'text/html',
  errors: [
    'state_invalid',
    'answer_issuer_mismatch',
    'provider_changed',
    'authorization_denied',
    'authorization_refused',
    'grant_refused',
    ...TOKEN_SERVER_ERRORS,
    'address_rate_limited',
    'database_unavailable',
  ],
} satisfies Partial<OpenOperation>

export const flowRoutes = slice(
  'OAuth connections',
  'Connections of people to OAuth providers, and their access tokens.',
)
  .post('/v2/auth/authenticate', {
    id: 'connectAccount',
    toleratesUnknown: true,
    summary: 'Get a fresh token of a person, or a URL where the person connects',
    description:
      'If a server refuses the token with 403 `insufficient_scope`, send the scopes of its challenge in `scopes`. ' +
      'The person is asked for these and for the scopes granted before.',
    body: s.AuthenticationWish,
    reply: s.Authentication,
    errors: ['provider_not_found', ...TOKEN_SERVER_ERRORS],
    callsExternalServers: true,
    verb: authenticate,
  })
  .get('/v2/auth/wait/{auth_id}', {
    id: 'waitForConnection',
    toleratesUnknown: true,
    summary: 'Wait until a person has connected, for up to a minute',
    description:
      'If the person has not come back by then, the status is `pending`: wait again. A flow expires after ten minutes.',
    params: s.AuthRef,
    query: s.AuthWaitQuery,
    reply: s.Authentication,
    errors: ['flow_not_found', ...TOKEN_SERVER_ERRORS],
    callsExternalServers: true,
    verb: waitForConnection,
  })
  .get('/v2/auth/callback/{provider_id}', {
    id: 'finishAuthorization',
    summary: 'The redirect URI of a provider: answers with a page that shows the result',
    description: 'The `state` parameter replaces an API key, and works once.',
    query: s.CallbackQuery,
    ...callbackOperation,
    open: callbackHandler(async c => new URL(c.req.url).searchParams),
  })
  .post('/v2/auth/callback/{provider_id}', {
    id: 'finishAuthorizationByForm',
    summary: 'The redirect URI for providers that send a form (`response_mode=form_post`)',
    description:
      'For browsers that the provider sends back, not for programs. `state` replaces an API key and works once. The ' +
      'answer is a page, also for a failure.',
    bodyMediaType: 'application/x-www-form-urlencoded',
    ...callbackOperation,
    errors: [...callbackOperation.errors, 'body_cut', 'body_too_slow', 'body_too_large'],
    open: callbackHandler(c => readForm(c.req)),
  })
  .get('/v2/auth/tokens', {
    id: 'listConnections',
    toleratesUnknown: true,
    summary: 'List connections, without their tokens',
    description:
      'Newest first. `connected` false means that the person has to connect again. `POST /v2/auth/authenticate` ' +
      'returns a token.',
    query: s.ConnectionQuery,
    reply: s.ConnectionList,
    verb: listConnections,
  })
  .delete('/v2/auth/tokens', {
    id: 'disconnectAccount',
    toleratesUnknown: true,
    summary: 'Delete a connection, and revoke its tokens at the server',
    description:
      'Name it by `token_id`, or by `provider` and `user_id`. The tokens are deleted here in any case, and ' +
      '`revocation` says whether the server has revoked them, too.',
    query: s.ConnectionRef,
    reply: s.Disconnection,
    errors: ['token_not_found'],
    callsExternalServers: true,
    verb: disconnect,
  })
