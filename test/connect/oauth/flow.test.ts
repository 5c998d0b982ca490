import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { completeCallback } from '../../../src/connect/oauth/flow.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { titleOf } from '../../../src/kernel/http/codes.ts'
import { fail } from '../../../src/kernel/http/errors.ts'
import {
  clock,
  getServices,
  logLines,
  newTenant,
  readEvents,
  send,
  startApp,
  unusedId,
  wrapTrips,
} from '../../support/app.ts'
import * as as from '../../support/authorization-server.ts'

const { server, app } = as.makeAuthorizationServer()
beforeEach(() => {
  clock.ahead = 0
  server.token = () => as.respondWithTokens()
})

describe('an authorization flow', () => {
  it('sends a person to the server and back, and ends with a token', async () => {
    const { tenant } = await as.setUpProvider(app, {}, { resource: 'https://mcp.example.com/mcp/', issuer: as.ISSUER })
    const first = await tenant.post('/v2/auth/authenticate', {
      provider: 'example',
      scopes: ['read', 'write'],
      user_id: 'ada',
    })
    expect(first.body).toEqual({ status: 'pending', url: expect.any(String), auth_id: expect.any(String) })
    const url = new URL(first.body.url)
    expect(url.origin + url.pathname).toBe(`${as.ISSUER}/authorize`)
    expect(Object.fromEntries(url.searchParams)).toEqual({
      kept: 'yes',
      response_type: 'code',
      client_id: 'Iv1.8a61f9b3a7aba766',
      redirect_uri: 'http://slipway.test/v2/auth/callback/example',
      state: expect.stringMatching(/^[\w-]{43}$/),
      scope: 'read write',
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
      resource: 'https://mcp.example.com/mcp/',
    })
    expect((await tenant.get(`/v2/auth/wait/${first.body.auth_id}?timeout=0`)).body).toEqual({
      status: 'pending',
      auth_id: first.body.auth_id,
    })

    const page = await as.visitCallback(app, first.body, { iss: as.ISSUER })
    expect([page.status, page.headers.get('Cache-Control')]).toEqual([200, 'no-store'])
    expect(page.text).toContain('Example is connected')
    const { form } = server.tokenRequests.at(-1)!
    expect(Object.fromEntries(form)).toEqual({
      grant_type: 'authorization_code',
      code: 'the-code-secret',
      redirect_uri: 'http://slipway.test/v2/auth/callback/example',
      code_verifier: expect.stringMatching(/^[\w-]{43}$/),
      resource: 'https://mcp.example.com/mcp/',
      client_id: 'Iv1.8a61f9b3a7aba766',
      client_secret: as.CLIENT_SECRET,
    })
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(form.get('code_verifier')!))
    expect(Buffer.from(digest).toString('base64url')).toBe(url.searchParams.get('code_challenge'))

    const waited = await tenant.get(`/v2/auth/wait/${first.body.auth_id}`)
    expect(waited.body).toEqual({ status: 'completed', auth_id: first.body.auth_id, token: expect.any(String) })
    const connected = await as.beginAuthentication(tenant, { scopes: ['write'] })
    expect(connected).toEqual({ status: 'completed', token: waited.body.token })
    expect((await as.beginAuthentication(tenant, { scopes: ['more'] })).status).toBe('pending')
  })

  it.each([
    ['client_secret_post', { client_id: expect.anything(), client_secret: as.CLIENT_SECRET }, undefined],
    ['client_secret_basic', {}, `Basic ${btoa(`Iv1.8a61f9b3a7aba766:${as.CLIENT_SECRET}`)}`],
    ['none', { client_id: expect.anything() }, undefined],
  ])('authenticates the client with %s', async (token_endpoint_auth_method, credentials, header) => {
    const client_secret = token_endpoint_auth_method === 'none' ? undefined : as.CLIENT_SECRET
    const { tenant } = await as.setUpProvider(app, { token_endpoint_auth_method, client_secret })
    await as.completeAuthentication(app, tenant)
    const { form, headers } = server.tokenRequests.at(-1)!
    const { client_id, client_secret: secret } = Object.fromEntries(form)
    expect({ ...(client_id && { client_id }), ...(secret && { client_secret: secret }) }).toEqual(credentials)
    expect(headers.get('Authorization') ?? undefined).toBe(header)
  })

  it('omits PKCE if the provider does not use it', async () => {
    const { tenant } = await as.setUpProvider(app, { uses_pkce: false })
    const begun = await as.completeAuthentication(app, tenant)
    expect(new URL(begun.url).searchParams.has('code_challenge')).toBe(false)
    expect(server.tokenRequests.at(-1)!.form.has('code_verifier')).toBe(false)
  })

  it.each([
    ['slack', ['a', 'b'], { user_scope: 'a,b' }],
    ['microsoft', ['a'], { scope: 'a offline_access' }],
    ['salesforce', ['a'], { scope: 'a' }],
    [undefined, ['a', 'offline_access'], { scope: 'a offline_access', prompt: 'consent' }],
    [undefined, [], {}],
  ])('has the parameters of the provider type %s for the scopes %j', async (provider_type, scopes, expected) => {
    const { tenant } = await as.setUpProvider(app, { provider_type })
    const { searchParams } = new URL((await as.beginAuthentication(tenant, { scopes })).url)
    const { scope, user_scope, prompt } = Object.fromEntries(searchParams)
    expect(JSON.parse(JSON.stringify({ scope, user_scope, prompt }))).toEqual(expected)
  })

  it('with Slack stores the token of the person', async () => {
    const { tenant } = await as.setUpProvider(app, { provider_type: 'slack' })
    server.token = () =>
      Response.json({ ok: true, authed_user: { id: 'U1', access_token: 'xoxp-1', token_type: 'user', scope: 'a,b' } })
    await as.completeAuthentication(app, tenant)
    expect((await as.beginAuthentication(tenant, { scopes: ['a', 'b'] })).token).toBe('xoxp-1')
  })

  it('accepts a callback that is sent as a form', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const raw = new URLSearchParams({ state: as.readState(begun), code: 'x' }).toString()
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
    expect((await send('POST', '/v2/auth/callback/example', { app, raw, headers })).status).toBe(200)
  })

  it('does not use up the state on a HEAD request', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const path = `/v2/auth/callback/example?state=${as.readState(begun)}&code=x`
    expect((await app.fetch(new Request(`http://slipway.test${path}`, { method: 'HEAD' }))).status).toBe(200)
    expect((await as.visitCallback(app, begun)).status).toBe(200)
  })

  it('for more scopes requests the granted ones again, so that the new token has all of them', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant, { scopes: ['read'] })
    const more = await as.beginAuthentication(tenant, { scopes: ['write'] })
    expect(new URL(more.url).searchParams.get('scope')).toBe('write read')
  })

  it('with force_new starts again, and the old token stays valid until the callback', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    const { token } = await as.beginAuthentication(tenant)
    const begun = await as.beginAuthentication(tenant, { force_new: true })
    expect(begun.status).toBe('pending')
    expect((await as.beginAuthentication(tenant)).token).toBe(token)
    await as.visitCallback(app, begun)
    expect((await as.beginAuthentication(tenant)).token).not.toBe(token)
  })

  it('belongs to the API key if no user is named, and accepts the id of the provider as its name', async () => {
    const { tenant, provider } = await as.setUpProvider(app)
    const { body } = await tenant.post('/v2/auth/authenticate', { provider: provider.id, user_id: null })
    expect((await as.visitCallback(app, body, {}, { as: provider.id })).status).toBe(200)
    expect((await tenant.post('/v2/auth/authenticate', { provider: 'example' })).body.status).toBe('completed')
    expect((await as.beginAuthentication(tenant)).status).toBe('pending')
  })

  it('replays a started flow under an idempotency key, but never a token', async () => {
    const { tenant } = await as.setUpProvider(app)
    const request = { provider: 'example', user_id: 'ada' }
    const once = { 'Idempotency-Key': 'once' }
    const first = await tenant.post('/v2/auth/authenticate', request, once)
    const second = await tenant.post('/v2/auth/authenticate', request, once)
    expect(second.body).toEqual(first.body)
    expect(second.headers.get('Idempotency-Replayed')).toBe('true')
    await as.visitCallback(app, first.body)
    const secondKey = { 'Idempotency-Key': 'other' }
    const third = await tenant.post('/v2/auth/authenticate', request, secondKey)
    clock.ahead = 3_600_000
    const fourth = await tenant.post('/v2/auth/authenticate', request, secondKey)
    expect([third.body.status, fourth.body.status]).toEqual(['completed', 'completed'])
    expect(fourth.body.token).not.toBe(third.body.token)
  })
})

const withIssuer = { issuer: as.ISSUER }
const withIssuerInAnswers = { ...withIssuer, issuer_in_answers: true }
const respondWithTokens = () => as.respondWithTokens()
const expectNoRequest = () => {
  throw new Error('unexpected token request')
}
type Case = [
  name: string,
  answer: Record<string, string | undefined>,
  token: () => Response | Promise<Response>,
  expected: string | null,
  columns?: object,
]

const cases: Case[] = [
  [
    'with the stored issuer as announced iss connects',
    { iss: as.ISSUER },
    respondWithTokens,
    null,
    withIssuerInAnswers,
  ],
  ['with the stored issuer as unannounced iss connects', { iss: as.ISSUER }, respondWithTokens, null, withIssuer],
  ['without iss connects if the server did not announce it', {}, respondWithTokens, null, withIssuer],
  [
    'without iss is refused if the server announced it',
    {},
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuerInAnswers,
  ],
  ['with an empty iss is refused', { iss: '' }, expectNoRequest, 'answer_issuer_mismatch', withIssuerInAnswers],
  [
    'with another iss is refused',
    { iss: 'https://evil.example' },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuerInAnswers,
  ],
  [
    'with another iss is refused even if it was not announced',
    { iss: 'https://evil.example' },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuer,
  ],
  [
    'with an additional slash in iss is refused',
    { iss: `${as.ISSUER}/` },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuerInAnswers,
  ],
  [
    'with iss in upper case is refused',
    { iss: 'https://AS.example.com' },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuerInAnswers,
  ],
  [
    'with the default port in iss is refused',
    { iss: `${as.ISSUER}:443` },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuerInAnswers,
  ],
  [
    'with another iss is refused even if it reports an error',
    { iss: 'x', error: 'access_denied' },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuer,
  ],
  [
    'with any iss connects a provider without a stored issuer',
    { iss: 'https://unknown.example' },
    respondWithTokens,
    null,
  ],
  [
    'with access_denied reports the denial',
    { error: 'access_denied', code: undefined },
    expectNoRequest,
    'authorization_denied',
  ],
  [
    'with access_denied reports the denial even if it has a code',
    { error: 'access_denied' },
    expectNoRequest,
    'authorization_denied',
  ],
  [
    'with another error reports a refusal',
    { error: 'server_error', code: undefined },
    expectNoRequest,
    'authorization_refused',
  ],
  [
    'with markup as error reports a refusal',
    { error: '<script>alert(1)</script>' },
    expectNoRequest,
    'authorization_refused',
  ],
  ['without a code reports a refusal', { code: undefined }, expectNoRequest, 'authorization_refused'],
  ['with an empty code reports a refusal', { code: '' }, expectNoRequest, 'authorization_refused'],
  ['whose code the server refuses fails', {}, () => as.respondWithError('invalid_grant'), 'grant_refused'],
  [
    'whose code the server refuses with status 200 fails',
    {},
    () => as.respondWithError('bad_verification_code', 200),
    'grant_refused',
  ],
  ['whose client the server refuses fails', {}, () => as.respondWithError('invalid_client', 401), 'client_refused'],
  [
    'whose client the server refuses with a challenge fails',
    {},
    () => new Response('no', { status: 401, headers: { 'WWW-Authenticate': 'Basic' } }),
    'client_refused',
  ],
  ['whose token request gets an unknown error fails', {}, () => as.respondWithError('<b>odd</b>'), 'client_refused'],
  ['whose token request gets status 502 fails', {}, () => new Response('<html>', { status: 502 }), 'upstream_error'],
  ['whose token request gets status 429 fails', {}, () => as.respondWithError('slow_down', 429), 'upstream_error'],
  [
    'whose token request gets a redirect fails',
    {},
    () => Response.redirect(`${as.ISSUER}/elsewhere`, 302),
    'upstream_error',
  ],
  [
    'whose token request loses its connection fails',
    {},
    () => Promise.reject(new TypeError('broken')),
    'upstream_error',
  ],
  [
    'whose token response is a page fails',
    {},
    () => new Response('<html>', { headers: { 'Content-Type': 'text/html' } }),
    'token_answer_invalid',
  ],
  ['whose token response is empty fails', {}, () => new Response(null), 'token_answer_invalid'],
  ['whose token response is an array fails', {}, () => Response.json([]), 'token_answer_invalid'],
  ['whose token response is null fails', {}, () => Response.json(null), 'token_answer_invalid'],
  [
    'whose token response has no token fails',
    {},
    () => as.respondWithTokens({ access_token: undefined }),
    'token_answer_invalid',
  ],
  ['whose token is a number fails', {}, () => as.respondWithTokens({ access_token: 7 }), 'token_answer_invalid'],
  [
    'whose token has a line break fails',
    {},
    () => as.respondWithTokens({ access_token: 'a\r\nb' }),
    'token_answer_invalid',
  ],
  ['whose token has a NUL fails', {}, () => as.respondWithTokens({ access_token: 'a\0' }), 'token_answer_invalid'],
  [
    'whose token is bound to a key fails',
    {},
    () => as.respondWithTokens({ token_type: 'DPoP' }),
    'token_answer_invalid',
  ],
  [
    'whose token has an unknown type fails',
    {},
    () => as.respondWithTokens({ token_type: 'mac' }),
    'token_answer_invalid',
  ],
  ['whose token has the type BEARER connects', {}, () => as.respondWithTokens({ token_type: 'BEARER' }), null],
  ['whose token has no type connects', {}, () => as.respondWithTokens({ token_type: undefined }), null],
  [
    'whose token response has null members connects',
    {},
    () => as.respondWithTokens({ refresh_token: null, scope: null, expires_in: null }),
    null,
  ],
  ['whose token has malformed scopes connects', {}, () => as.respondWithTokens({ scope: 'a\0b  "x" ok' }), null],
  ['whose token response is too large fails', {}, () => new Response('x'.repeat(100_000)), 'upstream_error'],
]

describe('a callback', () => {
  it.each(cases)('%s', async (_, answer, token, expected, columns = {}) => {
    const { tenant } = await as.setUpProvider(app, {}, columns)
    server.token = token
    const begun = await as.beginAuthentication(tenant)
    const page = await as.visitCallback(app, begun, answer)
    const waited = await tenant.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)
    if (expected === null) {
      expect([page.status, waited.body.status], page.text).toEqual([200, 'completed'])
    } else {
      expect(page.status).toBeGreaterThanOrEqual(400)
      expect(page.text).toContain('Example is not connected')
      expect(waited.body).toMatchObject({ status: 'connection_required', error: expected, auth_id: begun.auth_id })
      expect(waited.body.detail).toBeTruthy()
      expect((await as.beginAuthentication(tenant)).status).toBe('pending')
    }
    expect((await as.visitCallback(app, begun, answer)).text).toContain(titleOf('state_invalid'))
  })

  it('whose token request gets no response times out', async () => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => new Promise(() => {})
    const begun = await as.beginAuthentication(tenant)
    expect((await as.visitCallback(app, begun)).status).toBe(504)
    expect((await tenant.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)).body.error).toBe('upstream_timeout')
  })

  it.each([
    ['"3600"', 3600, '3600'],
    ['a fraction', 1800, 1800.5],
    ['1e300', 315_360_000, 1e300],
    ['undefined', 3600, undefined],
    ['a negative number', 3600, -5],
    ['zero', 3600, 0],
    ['a word', 3600, 'soon'],
    ['an object', 3600, { a: 1 }],
  ])('with an expires_in of %s stores a token that expires after %i seconds', async (_, seconds, expires_in) => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => as.respondWithTokens({ expires_in })
    await as.completeAuthentication(app, tenant)
    const [{ expires_at }] = (await tenant.get('/v2/auth/tokens')).body.resources
    expect(Math.abs(Date.parse(expires_at) - Date.now() - seconds * 1000)).toBeLessThan(60_000)
  })

  it('with neither expiry nor refresh token stores a token that does not expire', async () => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => as.respondWithTokens({ expires_in: undefined, refresh_token: undefined })
    await as.completeAuthentication(app, tenant)
    clock.ahead = 400 * 86_400_000
    expect((await as.beginAuthentication(tenant)).status).toBe('completed')
  })
})

describe('a state', () => {
  const expectInvalidState = async (reply: Promise<{ status: number; text: string }>) => {
    const { status, text } = await reply
    expect([status, text.includes(titleOf('state_invalid'))]).toEqual([400, true])
  }

  it('that was never issued is refused', async () => {
    await as.setUpProvider(app)
    const makeUrl = (state: string) => ({ url: `https://x.example/?state=${state}` })
    await expectInvalidState(as.visitCallback(app, makeUrl('unknown')))
    await expectInvalidState(as.visitCallback(app, makeUrl('x'.repeat(5000))))
    await expectInvalidState(as.visitCallback(app, makeUrl('%00')))
    await expectInvalidState(as.visitCallback(app, makeUrl('x'), { state: undefined }))
    await expectInvalidState(send('GET', '/v2/auth/callback/example', { app }))
    await expectInvalidState(send('GET', '/v2/auth/callback/%00?state=x', { app }))
    await expectInvalidState(send('POST', '/v2/auth/callback/example', { app }))
  })

  it('that appears twice in a URL is refused', async () => {
    const { tenant } = await as.setUpProvider(app)
    const state = as.readState(await as.beginAuthentication(tenant))
    await expectInvalidState(send('GET', `/v2/auth/callback/example?state=${state}&state=${state}&code=x`, { app }))
  })

  it('works once, even for two concurrent callbacks', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const pages = await Promise.all(Array.from({ length: 5 }, () => as.visitCallback(app, begun)))
    expect(pages.map(({ status }) => status).sort()).toEqual([200, 400, 400, 400, 400])
  })

  it('expires after ten minutes, and the flow then reports flow_expired', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    clock.ahead = 10 * 60_000 + 1000
    await expectInvalidState(as.visitCallback(app, begun))
    const { body } = await tenant.get(`/v2/auth/wait/${begun.auth_id}`)
    expect(body).toMatchObject({ status: 'connection_required', error: 'flow_expired' })
  })

  it('is refused at the callback of another provider', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.newProvider(tenant, app, { provider_id: 'another' })
    const begun = await as.beginAuthentication(tenant)
    await expectInvalidState(as.visitCallback(app, begun, {}, { as: 'another' }))
    expect((await as.visitCallback(app, begun)).status).toBe(200)
  })

  it('from before a change of the server or the client sends no code', async () => {
    const newServer = { token_url: 'https://evil.example/token', client_secret: 'other' }
    for (const change of [newServer, { client_id: 'another' }]) {
      const { tenant } = await as.setUpProvider(app)
      const begun = await as.beginAuthentication(tenant)
      await tenant.patch('/v2/auth/providers/example', change)
      const requestsBefore = server.tokenRequests.length
      expect((await as.visitCallback(app, begun)).status).toBe(400)
      expect(server.tokenRequests.length).toBe(requestsBefore)
      const { body } = await tenant.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)
      expect(body).toMatchObject({ status: 'connection_required', error: 'provider_changed' })
    }
  })

  it('is deleted a day after it expires', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    clock.ahead = 25 * 3_600_000
    await app.housekeep()
    clock.ahead = 0
    expect((await tenant.get(`/v2/auth/wait/${begun.auth_id}`)).body.code).toBe('flow_not_found')
  })
})

describe('a callback during a failure of the database', () => {
  /** Fails round trips of the database. The first one claims the state. */
  async function completeWithFailures(begun: { url: string }, failAt: (trip: number) => 'before' | 'after' | false) {
    let trip = 0
    const database = wrapTrips(app.database, act => async statements => {
      const when = failAt(++trip)
      if (when === 'before') throw fail('database_unavailable')
      const results = await act(statements)
      if (when === 'after') throw fail('database_unavailable')
      return results
    })
    const answer = { provider_id: 'example', state: as.readState(begun), code: 'x' }
    const arrival = await completeCallback(
      { ...getServices(app), database },
      { requestId: `back-${unusedId()}`, origin: 'http://slipway.test', request: null },
      answer,
    )
    return arrival.failure
  }

  it.each([
    ['two round trips fail', (trip: number) => (trip === 2 || trip === 3 ? ('before' as const) : false)],
    ['the reply to one round trip is lost', (trip: number) => (trip === 2 ? ('after' as const) : false)],
  ])('succeeds with one token request if %s', async (_, failAt) => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const exchanges = server.tokenRequests.length
    expect(await completeWithFailures(begun, failAt)).toBeNull()
    expect(server.tokenRequests.length).toBe(exchanges + 1)
    expect((await tenant.get(`/v2/auth/wait/${begun.auth_id}`)).body.status).toBe('completed')
    expect((await tenant.get('/v2/auth/tokens')).body.resources).toMatchObject([{ connected: true }])
  })

  it('shows an error page if the failure lasts, and can be repeated after it', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const closedPort = 'postgres://dbuser@127.0.0.1:1/none'
    const brokenApp = startApp({ settings: { DATABASE_URL: closedPort, DATABASE_SYSTEM_URL: closedPort } })
    const page = await as.visitCallback(brokenApp, begun)
    expect([page.status, page.headers.get('Content-Type')]).toEqual([503, 'text/html; charset=utf-8'])
    const lines = logLines.filter(({ request_id }) => request_id === page.headers.get('X-Request-Id'))
    expect(lines).toMatchObject([{ message: expect.any(String) }, { status: 503, code: 'database_unavailable' }])
    expect((await as.visitCallback(app, begun)).status).toBe(200)
  })
})

describe('waiting for a flow', () => {
  it('ends with the callback', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const waiting = tenant.get(`/v2/auth/wait/${begun.auth_id}?timeout=30`)
    await as.visitCallback(app, begun)
    expect((await waiting).body.status).toBe('completed')
  })

  it('reports the current state of a completed flow, and starts no new flow', async () => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => as.respondWithTokens({ refresh_token: undefined })
    const begun = await as.completeAuthentication(app, tenant)
    clock.ahead = 3_600_000
    expect((await tenant.get(`/v2/auth/wait/${begun.auth_id}`)).body).toEqual({
      status: 'token_expired',
      auth_id: begun.auth_id,
    })
    await tenant.delete('/v2/auth/tokens?provider=example&user_id=ada')
    expect((await tenant.get(`/v2/auth/wait/${begun.auth_id}`)).body.status).toBe('connection_required')
  })
})

it('a flow takes one round trip to start and two for its callback, and a valid token takes one', async () => {
  const { tenant } = await as.setUpProvider(app)
  const [first, second, third] = [as.newTripId(), as.newTripId(), as.newTripId()]
  const request = { provider: 'example', user_id: 'ada' }
  const { body } = await tenant.post('/v2/auth/authenticate', request, { 'X-Request-Id': first })
  await as.visitCallback(app, body, {}, { headers: { 'X-Request-Id': second } })
  await tenant.post('/v2/auth/authenticate', request, { 'X-Request-Id': third })
  expect(await Promise.all([first, second, third].map(countTrips))).toEqual([1, 2, 1])
})

it('the start of a flow, its callback and the use of its token are journaled with their actors', async () => {
  const { tenant } = await as.setUpProvider(app)
  const ids = [unusedId(), unusedId(), unusedId()]
  const request = { provider: 'example', user_id: 'ada' }
  const { body } = await tenant.post('/v2/auth/authenticate', request, { 'X-Request-Id': ids[0]! })
  await as.visitCallback(app, body, {}, { headers: { 'X-Request-Id': ids[1]! } })
  await tenant.post('/v2/auth/authenticate', request, { 'X-Request-Id': ids[2]! })
  const events = (await Promise.all(ids.map(id => readEvents(id, app)))).flat()
  expect(events.map(({ type, actor_kind }) => [type, actor_kind])).toEqual([
    ['oauth_flow.started', 'key'],
    ['oauth_token.connected', 'session'],
    ['oauth_token.used', 'key'],
  ])
  expect(events.every(({ tenant_id }) => tenant_id === tenant.tenant_id)).toBe(true)
})

const HOSTILE_TEXTS = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "javascript:alert('1')",
  '\u202e&lt;',
  '{{7*7}}',
]

describe.each(HOSTILE_TEXTS)('a page that receives %s', hostile => {
  it.each(['state', 'code', 'iss', 'error', 'error_description', 'error_uri', 'unknown'])(
    'in %s does not repeat it',
    async name => {
      const { tenant } = await as.setUpProvider(app, {}, withIssuer)
      const begun = await as.beginAuthentication(tenant)
      const { text, headers } = await as.visitCallback(app, begun, { [name]: hostile })
      expect(text).not.toContain(hostile)
      expect(text).not.toMatch(/<(script|img|iframe|a|form)\b|49/)
      expect(headers.get('Content-Security-Policy')).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; base-uri/)
    },
  )

  it('in the name of the provider escapes it', async () => {
    const { tenant } = await as.setUpProvider(app, { name: `Name ${hostile}` })
    const { text } = await as.visitCallback(app, await as.beginAuthentication(tenant))
    expect(text).toContain('is connected')
    expect(text.replaceAll(/<\/?(html|meta|title|style|main|h1|p|!doctype)[^<>]*>/g, '')).not.toMatch(/[<>]/)
  })
})

it('no response, log line or stored row has a secret of a flow in plain text', async () => {
  logLines.length = 0
  const { tenant } = await as.setUpProvider(app)
  const texts: string[] = []
  const collectText = async (reply: Promise<{ text: string; headers: Headers }>) => {
    const { text, headers } = await reply
    texts.push(text, JSON.stringify([...headers]))
    return text
  }
  const begun = JSON.parse(
    await collectText(tenant.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' })),
  )
  const state = as.readState(begun)
  texts.length = 0
  await collectText(as.visitCallback(app, begun))
  const { form } = server.tokenRequests.at(-1)!
  const { body } = await tenant.get(`/v2/auth/wait/${begun.auth_id}`)
  await collectText(tenant.get('/v2/auth/tokens'))
  await collectText(tenant.get('/v2/auth/providers'))
  await collectText(tenant.get('/v2/auth/providers/example'))
  server.token = () => Response.json({ error: 'invalid_client', error_description: as.CLIENT_SECRET }, { status: 401 })
  const refused = await as.beginAuthentication(tenant, { user_id: 'bob' })
  await collectText(as.visitCallback(app, refused))
  await collectText(tenant.get(`/v2/auth/wait/${refused.auth_id}`))
  clock.ahead = 3_600_000
  await collectText(tenant.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' }))
  const stored = await readStoredText(tenant.tenant_id)
  const refresh = body.token.replace('access', 'refresh')
  for (const secret of [state, 'the-code-secret', form.get('code_verifier')!, as.CLIENT_SECRET, body.token, refresh]) {
    for (const text of [...texts, JSON.stringify(logLines), stored]) expect(text).not.toContain(secret)
  }
})

async function readStoredText(tenant_id: string): Promise<string> {
  const query = sql`select (select json_agg(e)::text from events e where e.tenant_id = ${tenant_id}::uuid)
    || (select json_agg(f)::text from oauth_flows f where f.tenant_id = ${tenant_id}::uuid)
    || (select json_agg(t)::text from oauth_tokens t where t.tenant_id = ${tenant_id}::uuid)
    || (
      select json_agg(p)::text
      from oauth_providers p
      join workspaces w on w.organization_id = p.organization_id
      where w.id = ${tenant_id}::uuid)`
  const [[row]] = (await runAsSystem(app.database, query)) as [[[string]]]
  return row[0]
}

it('a flow or connection of another workspace or organization is not found', async () => {
  const { tenant } = await as.setUpProvider(app)
  const begun = await as.completeAuthentication(app, tenant)
  const foreign = await newTenant({ app })
  expect((await foreign.get(`/v2/auth/wait/${begun.auth_id}`)).status).toBe(404)
  expect((await foreign.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' })).body.code).toBe(
    'provider_not_found',
  )
  // Another workspace of the organization can use the provider, but none of its connections.
  const second = await tenant.owner.post('/workspaces', { display_name: 'Second' })
  const inside = { 'X-Tenant-Id': second.body.id }
  const inSecond = await tenant.owner.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' }, inside)
  expect(inSecond.body.status).toBe('pending')
  expect((await tenant.owner.get(`/v2/auth/wait/${begun.auth_id}`, inside)).status).toBe(404)
  expect((await tenant.owner.get('/v2/auth/tokens', inside)).body.resources).toEqual([])
})
