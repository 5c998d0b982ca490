// Routes of the device authorization grant: those of the program, by RFC 8628, and those of the person who decides.
import type { Code } from '../../kernel/http/codes.ts'
import { readFormInput } from '../../kernel/http/input.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import { slice } from '../../kernel/http/routes.ts'
import * as s from './device.schema.ts'
import * as device from './device.ts'
import { visitOf } from './visit.ts'

const OAUTH_ROUTE = { bodyMediaType: 'application/x-www-form-urlencoded', oauthErrors: true } as const
const OAUTH_ERRORS: Code[] = [
  'invalid_request',
  'invalid_client',
  'body_cut',
  'body_too_slow',
  'body_too_large',
  'address_rate_limited',
  'database_unavailable',
]
/** Every answer but a key and `authorization_pending`, with which programs poll at their interval. */
const POLL_REFUSALS: Code[] = [
  'invalid_grant',
  'slow_down',
  'access_denied',
  'expired_token',
  'unsupported_grant_type',
  'invalid_client',
  'invalid_request',
  'body_too_large',
]
const NO_STORE = { 'Cache-Control': 'no-store' }

export const deviceRoutes = slice('Device sign-in', 'Keys of people for programs without a browser, by RFC 8628.')
  .post('/device/code', {
    ...OAUTH_ROUTE,
    id: 'requestDevice',
    summary: 'Get a code that a person types at `/device`',
    description: 'The device authorization request of RFC 8628. It stores nothing of an organization.',
    body: s.DeviceCodeRequest,
    reply: s.DeviceCode,
    isReadOnly: true,
    errors: ['invalid_scope', 'too_many_device_requests', ...OAUTH_ERRORS],
    async open(c, services, operation) {
      c.var.limits.countRequest(c, 'device')
      const input = await readFormInput(c.req, s.DeviceCodeRequest)
      const origin = requestOrigin(services.config, c.req.url)
      const { request } = visitOf(c, services, operation)
      const visit = { request, address: services.platform.clientAddress(c) }
      return c.json(await device.requestDevice(services, visit, origin, input), 200, NO_STORE)
    },
  })
  .post('/device/token', {
    ...OAUTH_ROUTE,
    id: 'redeemDevice',
    summary: 'Ask for the key that the person approves',
    description:
      'The device access token request of RFC 8628. The key has the rights of the person in one workspace, as far as ' +
      'the person has granted them, and ends with them.',
    body: s.DeviceTokenRequest,
    reply: s.DeviceToken,
    errors: [
      'authorization_pending',
      'slow_down',
      'expired_token',
      'access_denied',
      'invalid_grant',
      'unsupported_grant_type',
      'journal_full',
      ...OAUTH_ERRORS,
    ],
    async open(c, services, operation) {
      const proof = { route: 'device token', refusal: POLL_REFUSALS }
      const key = await c.var.limits.prove(c, proof, async () => {
        const input = await readFormInput(c.req, s.DeviceTokenRequest)
        return device.redeemDeviceCode(services, visitOf(c, services, operation), input)
      })
      return c.json(key, 200, NO_STORE)
    },
  })
  .get('/v2/me/device-requests/{user_code}', {
    id: 'readDeviceRequest',
    summary: 'Get what a device asks for, by its code',
    description: 'For members who are signed in. It exists until someone has decided, for ten minutes.',
    params: s.DeviceRequestRef,
    reply: s.DeviceRequest,
    errors: ['device_request_not_found', 'member_required'],
    verb: device.readDeviceRequest,
  })
  .post('/v2/me/device-requests/{user_code}/approval', {
    id: 'approveDevice',
    summary: 'Let the device have a key of the caller for one workspace, for 90 days',
    description:
      'The device gets the key at its next poll. `access` `read` limits the key to what a Viewer may do. The key ' +
      'never allows more than the caller may do, and ends with the membership.',
    params: s.DeviceRequestRef,
    body: s.DeviceApproval,
    errors: ['device_request_not_found', 'member_required', 'quota_full'],
    verb: device.approveDevice,
  })
  .post('/v2/me/device-requests/{user_code}/denial', {
    id: 'denyDevice',
    summary: 'Refuse the device',
    description: 'The device gets `access_denied` at its next poll. No key is created.',
    params: s.DeviceRequestRef,
    errors: ['device_request_not_found', 'member_required'],
    verb: device.denyDevice,
  })
  .delete('/v2/me/api-key', {
    id: 'revokeOwnKey',
    summary: 'Revoke the calling key, if it belongs to a member, or was exchanged for a token',
    description: 'It needs no permission. Keys that were created with it are revoked, too.',
    errors: ['key_not_found'],
    verb: device.revokeOwnKey,
  })
