// How HTTP reaches connections: an application asks for a token, a person comes back with a code.

import { statusOf } from '../kernel/codes.ts'
import { Failure } from '../kernel/errors.ts'
import { pageHeaders, readSingleParameter } from '../kernel/html-page.ts'
import { readForm } from '../kernel/input.ts'
import { logFailureCause } from '../kernel/middleware.ts'
import { requestOrigin } from '../kernel/origin.ts'
import { type Operation, slice } from '../kernel/routes.ts'
import { callbackPage } from './callback-page.ts'
import { disconnect, listConnections } from './connections.ts'
import * as s from './flow.schema.ts'
import {
  authenticate,
  type CallbackParameters,
  type CallbackResult,
  completeCallback,
  waitForConnection,
} from './flow.ts'

type OpenHandler = NonNullable<Operation['open']>

/** What asking an authorization server for a token may come to. */
const TOKEN_SERVER_ERRORS = [
  'secret_required',
  'client_refused',
  'token_answer_invalid',
  'blocked_url',
  'upstream_error',
  'upstream_timeout',
] as const

const callbackHandler =
  (read: (c: Parameters<OpenHandler>[0]) => Promise<URLSearchParams>): OpenHandler =>
  async (c, services) => {
    const headers = await pageHeaders()
    // Whoever only looks at where an address leads has not come back.
    if (c.req.method === 'HEAD') return c.body(null, 200, headers)
    const given = await read(c)
    const answer = { provider_id: c.req.param('provider_id')! } as CallbackParameters
    for (const name of ['state', 'code', 'iss', 'error'] as const) {
      const value = readSingleParameter(given, name)
      if (value !== undefined) answer[name] = value
    }
    const origin = requestOrigin(services.config, c.req.url)
    const requestId = c.get('requestId')
    // A person is told by a page even when it could not be found out of which provider.
    const unnamed = (error: unknown): CallbackResult => {
      if (!(error instanceof Failure)) throw error
      logFailureCause(error, requestId, services.config)
      return { provider: null, failure: error.code }
    }
    const proof = { route: 'callback', refusal: 'state_invalid' } as const
    const arrival = await c.var.limits
      .prove(
        c,
        proof,
        () => completeCallback(services, requestId, origin, answer),
        ({ failure }) => failure,
      )
      .catch(unnamed)
    if (arrival.failure) c.get('requestInfo').code = arrival.failure
    const status = arrival.failure === null ? 200 : statusOf(arrival.failure)
    return c.body(callbackPage(arrival), status as 200, headers)
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
} satisfies Partial<Operation>

export const flowRoutes = slice('OAuth connections', 'People connected to providers, and fresh tokens of theirs.')
  .post('/v2/auth/authenticate', {
    id: 'authenticate',
    summary: 'A fresh token of a person, or where the person goes to connect',
    description:
      'Where a server refuses a token for want of scopes (403 with `insufficient_scope`), name those of its challenge in `scopes`: the person is asked for them, and for those of before.',
    body: s.AuthenticationWish,
    reply: s.Authentication,
    errors: ['provider_not_found', ...TOKEN_SERVER_ERRORS],
    asksForeignServers: true,
    verb: authenticate,
  })
  .get('/v2/auth/wait/{auth_id}', {
    id: 'waitForConnection',
    summary: 'Wait until a person has connected, for a minute at most',
    description: 'Who is not back by then is still `pending`: wait again, until ten minutes are over.',
    params: s.AuthRef,
    query: s.AuthWaitQuery,
    reply: s.Authentication,
    errors: ['flow_not_found', ...TOKEN_SERVER_ERRORS],
    asksForeignServers: true,
    verb: waitForConnection,
  })
  .get('/v2/auth/callback/{provider_id}', {
    id: 'comeBack',
    summary: 'Where a provider sends people back to: a page that says what happened',
    description: 'The `state` of the address stands in for a key, and works once.',
    query: s.CallbackQuery,
    ...callbackOperation,
    open: callbackHandler(async c => new URL(c.req.url).searchParams),
  })
  .post('/v2/auth/callback/{provider_id}', {
    id: 'comeBackByForm',
    summary: 'The same for providers that answer by a form (`response_mode=form_post`)',
    bodyMediaType: 'application/x-www-form-urlencoded',
    ...callbackOperation,
    errors: [...callbackOperation.errors, 'body_cut', 'body_too_large'],
    open: callbackHandler(c => readForm(c.req)),
  })
  .get('/v2/auth/tokens', {
    id: 'listConnections',
    summary: 'Who is connected to which provider, without the tokens',
    query: s.ConnectionQuery,
    reply: s.ConnectionList,
    verb: listConnections,
  })
  .delete('/v2/auth/tokens', {
    id: 'disconnect',
    summary: 'End a connection, here and at the server',
    query: s.ConnectionRef,
    reply: s.Disconnection,
    errors: ['token_not_found'],
    asksForeignServers: true,
    verb: disconnect,
  })
