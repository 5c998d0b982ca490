// Routes of the authorization server (OAuth 2.1): programs get keys of workspaces by the grants that it knows.
import type * as z from 'zod'
import type { Code } from '../../kernel/http/codes.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { readFormInput, validateInput } from '../../kernel/http/input.ts'
import { readOpenBody } from '../../kernel/http/open-body.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import { type OpenOperation, type Services, slice } from '../../kernel/http/routes.ts'
import { DeviceTokenRequest } from '../sign-in/device.schema.ts'
import { GRANT_TYPE as DEVICE_GRANT, redeemDeviceCode } from '../sign-in/device.ts'
import { type Visitor, visitOf } from '../sign-in/visit.ts'
import * as a from './authorization.schema.ts'
import { registerClient } from './clients.ts'
import { redeemCode, refresh, revokeToken } from './grants.ts'
import { describeResource, describeServer, ResourceMetadata, ServerMetadata } from './metadata.ts'
import * as s from './token.schema.ts'
import { TokenExchangeRequest } from './token-exchange.schema.ts'
import { exchangeToken, TOKEN_EXCHANGE_GRANT } from './token-exchange.ts'

const OAUTH_FORM = { bodyMediaType: 'application/x-www-form-urlencoded', oauthErrors: true } as const
const NO_STORE = { 'Cache-Control': 'no-store' }
const CACHE_HEADERS = { 'Cache-Control': 'public, max-age=3600' }
const OPEN_ERRORS: Code[] = ['invalid_request', 'body_cut', 'body_too_slow', 'body_too_large', 'address_rate_limited']
/** Every answer but a key and `authorization_pending`, with which programs poll at their interval. */
const REFUSALS: Code[] = [
  'invalid_grant',
  'invalid_target',
  'slow_down',
  'access_denied',
  'expired_token',
  'unsupported_grant_type',
  'invalid_client',
  'invalid_request',
  'invalid_scope',
  'token_refused',
  'issuer_unavailable',
  'body_too_large',
]

type Granted = z.output<typeof s.AccessToken>

/** Each grant requires its own parameters of the form. */
async function redeem(c: Visitor, services: Services, operation: OpenOperation): Promise<Granted> {
  const form = await readFormInput(c.req, s.TokenRequest)
  const visit = visitOf(c, services, operation)
  const origin = requestOrigin(services.config, c.req.url)
  const require = <Schema extends z.ZodType>(schema: Schema) =>
    validateInput(c.req, { body: schema }, JSON.stringify(form), []) as z.output<Schema>
  switch (form.grant_type) {
    case 'authorization_code':
      return redeemCode(services, visit, origin, require(s.CodeForm))
    case 'refresh_token':
      return refresh(services, visit, origin, require(s.RefreshForm))
    case DEVICE_GRANT:
      return redeemDeviceCode(services, visit, require(DeviceTokenRequest))
    case TOKEN_EXCHANGE_GRANT:
      return exchangeToken(services, visit, origin, require(TokenExchangeRequest))
    default:
      throw fail('unsupported_grant_type')
  }
}

/** RFC 7591 has a code of its own for faults of the body. */
async function readRegistration(c: Visitor, services: Services): Promise<z.output<typeof a.Registration>> {
  try {
    const text = await readOpenBody(c, services)
    return validateInput(c.req, { body: a.Registration }, text, []) as z.output<typeof a.Registration>
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'invalid_request') throw error
    const faults = (error.extra.errors ?? []).map(({ loc, msg }) => `${loc.join('.')} ${msg}`)
    throw fail('invalid_client_metadata', { detail: faults.join('; ') })
  }
}

const readServer = {
  summary: 'The metadata of the authorization server',
  description: 'By RFC 8414.',
  reply: ServerMetadata,
  open: (c: Visitor, { config }: Services) =>
    c.json(describeServer(requestOrigin(config, c.req.url)), 200, CACHE_HEADERS),
}
const readResource = (path: '' | '/mcp') => ({
  summary: 'The metadata of this API as a protected resource',
  description: 'By RFC 9728. It names the authorization server.',
  reply: ResourceMetadata,
  open: (c: Visitor, { config }: Services) =>
    c.json(describeResource(requestOrigin(config, c.req.url), path), 200, CACHE_HEADERS),
})

export const authorizationServerRoutes = slice('OAuth', 'The authorization server of this installation (OAuth 2.1).')
  .get('/.well-known/oauth-authorization-server', { id: 'readAuthorizationServer', ...readServer })
  .get('/.well-known/oauth-authorization-server/mcp', {
    id: 'readAuthorizationServerOfMcp',
    ...readServer,
    description: 'The same, for clients that look for it by the address of `/mcp`.',
  })
  .get('/.well-known/oauth-protected-resource', { id: 'readProtectedResource', ...readResource('') })
  .get('/.well-known/oauth-protected-resource/mcp', { id: 'readProtectedResourceMcp', ...readResource('/mcp') })
  .post('/oauth/register', {
    id: 'registerClient',
    summary: 'Register a client',
    description:
      'Dynamic registration by RFC 7591, for clients that publish no metadata document. It stores nothing: the id ' +
      'holds the metadata. Other members are ignored, as the RFC demands; the answer has those that count.',
    oauthErrors: true,
    // RFC 7591, section 2: a server must ignore metadata that it does not understand.
    toleratesUnknown: true,
    body: a.Registration,
    status: 201,
    reply: a.RegisteredClient,
    isReadOnly: true,
    errors: ['invalid_redirect_uri', 'invalid_client_metadata', 'not_json', 'bodies_busy', ...OPEN_ERRORS],
    async open(c, services) {
      c.var.limits.countRequest(c, 'client registration')
      return c.json(await registerClient(services, await readRegistration(c, services)), 201, NO_STORE)
    },
  })
  .post('/oauth/token', {
    ...OAUTH_FORM,
    id: 'issueToken',
    summary: 'Exchange a grant for an API key',
    description: 'The token endpoint of OAuth. `grant_type` says which grant the form has.',
    body: s.TokenRequest,
    reply: s.AccessToken,
    errors: [
      'authorization_pending',
      'too_many_exchanged_keys',
      'journal_full',
      'address_rate_limited',
      'database_unavailable',
      'body_cut',
      'body_too_slow',
      ...REFUSALS,
    ],
    async open(c, services, operation) {
      const proof = { route: 'token', refusal: REFUSALS }
      const token = await c.var.limits.prove(c, proof, () => redeem(c, services, operation))
      return c.json(token, 200, NO_STORE)
    },
  })
  .post('/oauth/revoke', {
    ...OAUTH_FORM,
    id: 'revokeToken',
    summary: 'Disconnect a client by one of its tokens',
    description: 'By RFC 7009. An unknown token is not an error.',
    body: a.RevocationRequest,
    status: 200,
    errors: ['database_unavailable', ...OPEN_ERRORS],
    async open(c, services, operation) {
      c.var.limits.countRequest(c, 'token revocation')
      const form = await readFormInput(c.req, a.RevocationRequest)
      await revokeToken(services, visitOf(c, services, operation), form)
      return c.body(null, 200, NO_STORE)
    },
  })
