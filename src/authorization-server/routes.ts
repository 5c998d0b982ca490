// Routes of the authorization server (OAuth 2.1): programs get keys of workspaces by the grants that it knows.
import type * as z from 'zod'
import type { Code } from '../kernel/codes.ts'
import { fail } from '../kernel/errors.ts'
import { readFormInput, validateInput } from '../kernel/input.ts'
import { requestOrigin } from '../kernel/origin.ts'
import { type Operation, type Services, slice } from '../kernel/routes.ts'
import { DeviceTokenRequest } from '../sign-in/device.schema.ts'
import { GRANT_TYPE as DEVICE_GRANT, redeemDeviceCode } from '../sign-in/device.ts'
import { type Visitor, visitOf } from '../sign-in/visit.ts'
import * as s from './token.schema.ts'
import { TokenExchangeRequest } from './token-exchange.schema.ts'
import { exchangeToken, TOKEN_EXCHANGE_GRANT } from './token-exchange.ts'

const OAUTH_FORM = { bodyMediaType: 'application/x-www-form-urlencoded', oauthErrors: true } as const
const NO_STORE = { 'Cache-Control': 'no-store' }
/** Every answer but a key and `authorization_pending`, with which programs poll at their interval. */
const REFUSALS = [
  'invalid_grant',
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
] as const satisfies Code[]

/** Each grant requires its own parameters of the form. */
async function redeem(c: Visitor, services: Services, operation: Operation): Promise<s.Granted> {
  const form = await readFormInput(c.req, s.TokenRequest)
  const visit = visitOf(c, services, operation)
  const require = <Schema extends z.ZodType>(schema: Schema) =>
    validateInput(c.req, { body: schema }, JSON.stringify(form), []) as z.output<Schema>
  switch (form.grant_type) {
    case DEVICE_GRANT:
      return redeemDeviceCode(services, visit, require(DeviceTokenRequest))
    case TOKEN_EXCHANGE_GRANT: {
      const origin = requestOrigin(services.config, c.req.url)
      return exchangeToken(services, visit, origin, require(TokenExchangeRequest))
    }
    default:
      throw fail('unsupported_grant_type')
  }
}

export const authorizationServerRoutes = slice(
  'OAuth',
  'The authorization server of this installation (OAuth 2.1).',
).post('/oauth/token', {
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
    ...REFUSALS,
  ],
  async open(c, services, operation) {
    const proof = { route: 'token', refusal: REFUSALS }
    const token = await c.var.limits.prove(c, proof, () => redeem(c, services, operation))
    return c.json(token, 200, NO_STORE)
  },
})
