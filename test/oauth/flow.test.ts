import { beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { titleOf } from '../../src/kernel/codes.ts'
import { fail } from '../../src/kernel/errors.ts'
import { completeCallback } from '../../src/oauth/flow.ts'
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
} from '../support/app.ts'
import * as as from '../support/authorization-server.ts'

const { server, app } = as.makeAuthorizationServer()
beforeEach(() => {
  clock.ahead = 0
  server.token = () => as.respondWithTokens()
})

describe('an authorization flow', () => {
  it('sends a person to the server and back, and returns a token', async () => {
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
    const { form } = server.asked.at(-1)!
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
    const again = await as.beginAuthentication(tenant, { scopes: ['write'] })
    expect(again).toEqual({ status: 'completed', token: waited.body.token })
    expect((await as.beginAuthentication(tenant, { scopes: ['more'] })).status).toBe('pending')
  })

  it.each([
    ['client_secret_post', { client_id: expect.anything(), client_secret: as.CLIENT_SECRET }, undefined],
    ['client_secret_basic', {}, `Basic ${btoa(`Iv1.8a61f9b3a7aba766:${as.CLIENT_SECRET}`)}`],
    ['none', { client_id: expect.anything() }, undefined],
  ])('authenticates the client with %s', async (token_endpoint_auth_method, told, header) => {
    const client_secret = token_endpoint_auth_method === 'none' ? undefined : as.CLIENT_SECRET
    const { tenant } = await as.setUpProvider(app, { token_endpoint_auth_method, client_secret })
    await as.completeAuthentication(app, tenant)
    const { form, headers } = server.asked.at(-1)!
    const { client_id, client_secret: secret } = Object.fromEntries(form)
    expect({ ...(client_id && { client_id }), ...(secret && { client_secret: secret }) }).toEqual(told)
    expect(headers.get('Authorization') ?? undefined).toBe(header)
  })

  it('omits PKCE if the provider does not use it', async () => {
    const { tenant } = await as.setUpProvider(app, { uses_pkce: false })
    const begun = await as.completeAuthentication(app, tenant)
    expect(new URL(begun.url).searchParams.has('code_challenge')).toBe(false)
    expect(server.asked.at(-1)!.form.has('code_verifier')).toBe(false)
  })

  it.each([
    ['slack', ['a', 'b'], { user_scope: 'a,b' }],
    ['microsoft', ['a'], { scope: 'a offline_access' }],
    ['salesforce', ['a'], { scope: 'a' }],
    [undefined, ['a', 'offline_access'], { scope: 'a offline_access', prompt: 'consent' }],
    [undefined, [], {}],
  ])('sends the parameters that %s expects', async (provider_type, scopes, wanted) => {
    const { tenant } = await as.setUpProvider(app, { provider_type })
    const { searchParams } = new URL((await as.beginAuthentication(tenant, { scopes })).url)
    const { scope, user_scope, prompt } = Object.fromEntries(searchParams)
    expect(JSON.parse(JSON.stringify({ scope, user_scope, prompt }))).toEqual(wanted)
  })

  it('stores the token of the person from Slack, not of the bot', async () => {
    const { tenant } = await as.setUpProvider(app, { provider_type: 'slack' })
    server.token = () =>
      Response.json({ ok: true, authed_user: { id: 'U1', access_token: 'xoxp-1', token_type: 'user', scope: 'a,b' } })
    await as.completeAuthentication(app, tenant)
    expect((await as.beginAuthentication(tenant, { scopes: ['a', 'b'] })).token).toBe('xoxp-1')
  })

  it('accepts a callback as a form', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const raw = new URLSearchParams({ state: as.readState(begun), code: 'x' }).toString()
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
    expect((await send('POST', '/v2/auth/callback/example', { app, raw, headers })).status).toBe(200)
  })

  it('does not use up the state on a HEAD request', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const look = `/v2/auth/callback/example?state=${as.readState(begun)}&code=x`
    expect((await app.fetch(new Request(`http://slipway.test${look}`, { method: 'HEAD' }))).status).toBe(200)
    expect((await as.visitCallback(app, begun)).status).toBe(200)
  })

  it('requests the scopes granted before again, so that the person keeps them', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant, { scopes: ['read'] })
    const more = await as.beginAuthentication(tenant, { scopes: ['write'] })
    expect(new URL(more.url).searchParams.get('scope')).toBe('write read')
  })

  it('starts again on request, and keeps the old token until the person is back', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    const { token } = await as.beginAuthentication(tenant)
    const anew = await as.beginAuthentication(tenant, { force_new: true })
    expect(anew.status).toBe('pending')
    expect((await as.beginAuthentication(tenant)).token).toBe(token)
    await as.visitCallback(app, anew)
    expect((await as.beginAuthentication(tenant)).token).not.toBe(token)
  })

  it('belongs to the API key if no user is named, and accepts the id of the provider', async () => {
    const { tenant, provider } = await as.setUpProvider(app)
    const { body } = await tenant.post('/v2/auth/authenticate', { provider: provider.id, user_id: null })
    expect((await as.visitCallback(app, body, {}, { as: provider.id })).status).toBe(200)
    expect((await tenant.post('/v2/auth/authenticate', { provider: 'example' })).body.status).toBe('completed')
    expect((await as.beginAuthentication(tenant)).status).toBe('pending')
  })

  it('replays a started flow under an idempotency key, but never a token', async () => {
    const { tenant } = await as.setUpProvider(app)
    const wish = { provider: 'example', user_id: 'ada' }
    const once = { 'Idempotency-Key': 'once' }
    const first = await tenant.post('/v2/auth/authenticate', wish, once)
    const second = await tenant.post('/v2/auth/authenticate', wish, once)
    expect(second.body).toEqual(first.body)
    expect(second.headers.get('Idempotency-Replayed')).toBe('true')
    await as.visitCallback(app, first.body)
    const other = { 'Idempotency-Key': 'other' }
    const third = await tenant.post('/v2/auth/authenticate', wish, other)
    clock.ahead = 3_600_000
    const fourth = await tenant.post('/v2/auth/authenticate', wish, other)
    expect([third.body.status, fourth.body.status]).toEqual(['completed', 'completed'])
    expect(fourth.body.token).not.toBe(third.body.token)
  })
})

const withIssuer = { issuer: as.ISSUER }
const withIssuerInAnswers = { ...withIssuer, issuer_in_answers: true }
const respondWithTokens = () => as.respondWithTokens()
const expectNoRequest = () => {
  throw new Error('it must not be asked')
}
type Case = [
  name: string,
  answer: Record<string, string | undefined>,
  token: () => Response | Promise<Response>,
  expected: string | null,
  columns?: object,
]

const cases: Case[] = [
  ['iss as stored, announced', { iss: as.ISSUER }, respondWithTokens, null, withIssuerInAnswers],
  ['iss as stored, not announced', { iss: as.ISSUER }, respondWithTokens, null, withIssuer],
  ['no iss, not announced', {}, respondWithTokens, null, withIssuer],
  ['no iss though announced', {}, expectNoRequest, 'answer_issuer_mismatch', withIssuerInAnswers],
  ['an empty iss', { iss: '' }, expectNoRequest, 'answer_issuer_mismatch', withIssuerInAnswers],
  ['another iss', { iss: 'https://evil.example' }, expectNoRequest, 'answer_issuer_mismatch', withIssuerInAnswers],
  [
    'another iss, not announced',
    { iss: 'https://evil.example' },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuer,
  ],
  ['iss with a slash more', { iss: `${as.ISSUER}/` }, expectNoRequest, 'answer_issuer_mismatch', withIssuerInAnswers],
  [
    'iss in upper case',
    { iss: 'https://AS.example.com' },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuerInAnswers,
  ],
  [
    'iss with the default port',
    { iss: `${as.ISSUER}:443` },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuerInAnswers,
  ],
  [
    'another iss with an error',
    { iss: 'x', error: 'access_denied' },
    expectNoRequest,
    'answer_issuer_mismatch',
    withIssuer,
  ],
  ['iss of a provider by hand', { iss: 'https://whoever.example' }, respondWithTokens, null],
  ['denied', { error: 'access_denied', code: undefined }, expectNoRequest, 'authorization_denied'],
  ['denied, with a code', { error: 'access_denied' }, expectNoRequest, 'authorization_denied'],
  ['another error', { error: 'server_error', code: undefined }, expectNoRequest, 'authorization_refused'],
  ['an error of markup', { error: '<script>alert(1)</script>' }, expectNoRequest, 'authorization_refused'],
  ['no code', { code: undefined }, expectNoRequest, 'authorization_refused'],
  ['an empty code', { code: '' }, expectNoRequest, 'authorization_refused'],
  ['code refused', {}, () => as.respondWithError('invalid_grant'), 'grant_refused'],
  ['code refused with 200', {}, () => as.respondWithError('bad_verification_code', 200), 'grant_refused'],
  ['client refused', {}, () => as.respondWithError('invalid_client', 401), 'client_refused'],
  [
    'client refused with a challenge',
    {},
    () => new Response('no', { status: 401, headers: { 'WWW-Authenticate': 'Basic' } }),
    'client_refused',
  ],
  ['an error nobody knows', {}, () => as.respondWithError('<b>odd</b>'), 'client_refused'],
  ['a bad gateway', {}, () => new Response('<html>', { status: 502 }), 'upstream_error'],
  ['too many requests', {}, () => as.respondWithError('slow_down', 429), 'upstream_error'],
  ['a redirect', {}, () => Response.redirect(`${as.ISSUER}/elsewhere`, 302), 'upstream_error'],
  ['a connection that breaks', {}, () => Promise.reject(new TypeError('broken')), 'upstream_error'],
  ['a page', {}, () => new Response('<html>', { headers: { 'Content-Type': 'text/html' } }), 'token_answer_invalid'],
  ['nothing', {}, () => new Response(null), 'token_answer_invalid'],
  ['a list', {}, () => Response.json([]), 'token_answer_invalid'],
  ['null', {}, () => Response.json(null), 'token_answer_invalid'],
  ['no token', {}, () => as.respondWithTokens({ access_token: undefined }), 'token_answer_invalid'],
  ['a token that is a number', {}, () => as.respondWithTokens({ access_token: 7 }), 'token_answer_invalid'],
  ['a token with a line break', {}, () => as.respondWithTokens({ access_token: 'a\r\nb' }), 'token_answer_invalid'],
  ['a token with a NUL', {}, () => as.respondWithTokens({ access_token: 'a\0' }), 'token_answer_invalid'],
  ['a token bound to a key', {}, () => as.respondWithTokens({ token_type: 'DPoP' }), 'token_answer_invalid'],
  ['a type nobody knows', {}, () => as.respondWithTokens({ token_type: 'mac' }), 'token_answer_invalid'],
  ['a type in capitals', {}, () => as.respondWithTokens({ token_type: 'BEARER' }), null],
  ['no type', {}, () => as.respondWithTokens({ token_type: undefined }), null],
  ['null members', {}, () => as.respondWithTokens({ refresh_token: null, scope: null, expires_in: null }), null],
  ['odd scopes', {}, () => as.respondWithTokens({ scope: 'a\0b  "x" ok' }), null],
  ['an answer without end', {}, () => new Response('x'.repeat(100_000)), 'upstream_error'],
]

describe('the callback', () => {
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

  it('times out after five seconds', async () => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => new Promise(() => {})
    const begun = await as.beginAuthentication(tenant)
    expect((await as.visitCallback(app, begun)).status).toBe(504)
    expect((await tenant.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)).body.error).toBe('upstream_timeout')
  })

  it.each([
    ['3600 in a string', '3600', 3600],
    ['a fraction', 1800.5, 1800],
    ['too much', 1e300, 315_360_000],
    ['nothing', undefined, 3600],
    ['a negative number', -5, 3600],
    ['nought', 0, 3600],
    ['a word', 'soon', 3600],
    ['an object', { a: 1 }, 3600],
  ])('reads an expires_in of %s', async (_, expires_in, seconds) => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => as.respondWithTokens({ expires_in })
    await as.completeAuthentication(app, tenant)
    const [{ expires_at }] = (await tenant.get('/v2/auth/tokens')).body.resources
    expect(Math.abs(Date.parse(expires_at) - Date.now() - seconds * 1000)).toBeLessThan(60_000)
  })

  it('stores a token without expiry and refresh token as one that does not expire', async () => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => as.respondWithTokens({ expires_in: undefined, refresh_token: undefined })
    await as.completeAuthentication(app, tenant)
    clock.ahead = 400 * 86_400_000
    expect((await as.beginAuthentication(tenant)).status).toBe('completed')
  })
})

describe('a state', () => {
  const lost = async (reply: Promise<{ status: number; text: string }>) => {
    const { status, text } = await reply
    expect([status, text.includes(titleOf('state_invalid'))]).toEqual([400, true])
  }

  it('that was never issued is refused', async () => {
    await as.setUpProvider(app)
    const url = (state: string) => ({ url: `https://x.example/?state=${state}` })
    await lost(as.visitCallback(app, url('made-up')))
    await lost(as.visitCallback(app, url('x'.repeat(5000))))
    await lost(as.visitCallback(app, url('%00')))
    await lost(as.visitCallback(app, url('x'), { state: undefined }))
    await lost(send('GET', '/v2/auth/callback/example', { app }))
    await lost(send('GET', '/v2/auth/callback/%00?state=x', { app }))
    await lost(send('POST', '/v2/auth/callback/example', { app }))
  })

  it('that is sent twice is refused', async () => {
    const { tenant } = await as.setUpProvider(app)
    const state = as.readState(await as.beginAuthentication(tenant))
    await lost(send('GET', `/v2/auth/callback/example?state=${state}&state=${state}&code=x`, { app }))
  })

  it('works once, even for two concurrent callbacks', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const all = await Promise.all(Array.from({ length: 5 }, () => as.visitCallback(app, begun)))
    expect(all.map(({ status }) => status).sort()).toEqual([200, 400, 400, 400, 400])
  })

  it('expires after ten minutes, and a waiting request says so', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    clock.ahead = 10 * 60_000 + 1000
    await lost(as.visitCallback(app, begun))
    const { body } = await tenant.get(`/v2/auth/wait/${begun.auth_id}`)
    expect(body).toMatchObject({ status: 'connection_required', error: 'flow_expired' })
  })

  it('works for its own provider only', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.newProvider(tenant, app, { provider_id: 'another' })
    const begun = await as.beginAuthentication(tenant)
    await lost(as.visitCallback(app, begun, {}, { as: 'another' }))
    expect((await as.visitCallback(app, begun)).status).toBe(200)
  })

  it('sends no code to a server or client that changed meanwhile', async () => {
    const elsewhere = { token_url: 'https://evil.example/token', client_secret: 'other' }
    for (const change of [elsewhere, { client_id: 'another' }]) {
      const { tenant } = await as.setUpProvider(app)
      const begun = await as.beginAuthentication(tenant)
      await tenant.patch('/v2/auth/providers/example', change)
      const before = server.asked.length
      expect((await as.visitCallback(app, begun)).status).toBe(400)
      expect(server.asked.length).toBe(before)
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

describe('a database that is unavailable during the callback', () => {
  /** Counts round trips from the first, which claims the state. */
  async function backThrough(begun: { url: string }, away: (trip: number) => 'before' | 'after' | false) {
    let trip = 0
    const sound = app.database
    const database = wrapTrips(sound, act => async statements => {
      const when = away(++trip)
      if (when === 'before') throw fail('database_unavailable')
      const results = await act(statements)
      if (when === 'after') throw fail('database_unavailable')
      return results
    })
    const answer = { provider_id: 'example', state: as.readState(begun), code: 'x' }
    const arrival = await completeCallback(
      { ...getServices(app), database },
      `back-${unusedId()}`,
      'http://slipway.test',
      answer,
    )
    return arrival.failure
  }

  it.each([
    ['twice', (trip: number) => (trip === 2 || trip === 3 ? ('before' as const) : false)],
    ['only for the reply', (trip: number) => (trip === 2 ? ('after' as const) : false)],
  ])('%s', async (_, away) => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const exchanges = server.asked.length
    expect(await backThrough(begun, away)).toBeNull()
    expect(server.asked.length).toBe(exchanges + 1)
    expect((await tenant.get(`/v2/auth/wait/${begun.auth_id}`)).body.status).toBe('completed')
    expect((await tenant.get('/v2/auth/tokens')).body.resources).toMatchObject([{ connected: true }])
  })

  it('for long: the person sees an error page', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const nowhere = 'postgres://nobody@127.0.0.1:1/none'
    const gone = startApp({ settings: { DATABASE_URL: nowhere, DATABASE_SYSTEM_URL: nowhere } })
    const page = await as.visitCallback(gone, begun)
    expect([page.status, page.headers.get('Content-Type')]).toEqual([503, 'text/html; charset=utf-8'])
    const told = logLines.filter(({ request_id }) => request_id === page.headers.get('X-Request-Id'))
    expect(told).toMatchObject([{ message: expect.any(String) }, { status: 503, code: 'database_unavailable' }])
    expect((await as.visitCallback(app, begun)).status).toBe(200)
  })
})

describe('waiting for a flow', () => {
  it('returns as soon as the person is back', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    const waiting = tenant.get(`/v2/auth/wait/${begun.auth_id}?timeout=30`)
    await as.visitCallback(app, begun)
    expect((await waiting).body.status).toBe('completed')
  })

  it('reports the present state of a completed flow, and starts no new one', async () => {
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

it('takes one round trip to start, one for a valid token and two for the callback', async () => {
  const { tenant } = await as.setUpProvider(app)
  const [first, second, third] = [as.newTripId(), as.newTripId(), as.newTripId()]
  const wish = { provider: 'example', user_id: 'ada' }
  const { body } = await tenant.post('/v2/auth/authenticate', wish, { 'X-Request-Id': first })
  await as.visitCallback(app, body, {}, { headers: { 'X-Request-Id': second } })
  await tenant.post('/v2/auth/authenticate', wish, { 'X-Request-Id': third })
  expect(await Promise.all([first, second, third].map(countTrips))).toEqual([1, 2, 1])
})

it('records the actor in the journal', async () => {
  const { tenant } = await as.setUpProvider(app)
  const ids = [unusedId(), unusedId(), unusedId()]
  const wish = { provider: 'example', user_id: 'ada' }
  const { body } = await tenant.post('/v2/auth/authenticate', wish, { 'X-Request-Id': ids[0]! })
  await as.visitCallback(app, body, {}, { headers: { 'X-Request-Id': ids[1]! } })
  await tenant.post('/v2/auth/authenticate', wish, { 'X-Request-Id': ids[2]! })
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
  it.each(['state', 'code', 'iss', 'error', 'error_description', 'error_uri', 'whatever'])(
    'as %s repeats nothing of it',
    async name => {
      const { tenant } = await as.setUpProvider(app, {}, withIssuer)
      const begun = await as.beginAuthentication(tenant)
      const { text, headers } = await as.visitCallback(app, begun, { [name]: hostile })
      expect(text).not.toContain(hostile)
      expect(text).not.toMatch(/<(script|img|iframe|a|form)\b|49/)
      expect(headers.get('Content-Security-Policy')).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; base-uri/)
    },
  )

  it('as the name of the provider escapes it', async () => {
    const { tenant } = await as.setUpProvider(app, { name: `Name ${hostile}` })
    const { text } = await as.visitCallback(app, await as.beginAuthentication(tenant))
    expect(text).toContain('is connected')
    expect(text.replaceAll(/<\/?(html|meta|title|style|h1|p|!doctype)[^<>]*>/g, '')).not.toMatch(/[<>]/)
  })
})

it('exposes no secret in responses, logs and events', async () => {
  logLines.length = 0
  const { tenant } = await as.setUpProvider(app)
  const texts: string[] = []
  const seen = async (reply: Promise<{ text: string; headers: Headers }>) => {
    const { text, headers } = await reply
    texts.push(text, JSON.stringify([...headers]))
    return text
  }
  const begun = JSON.parse(await seen(tenant.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' })))
  const state = as.readState(begun)
  texts.length = 0
  await seen(as.visitCallback(app, begun))
  const { form } = server.asked.at(-1)!
  const { body } = await tenant.get(`/v2/auth/wait/${begun.auth_id}`)
  await seen(tenant.get('/v2/auth/tokens'))
  await seen(tenant.get('/v2/auth/providers'))
  await seen(tenant.get('/v2/auth/providers/example'))
  server.token = () => Response.json({ error: 'invalid_client', error_description: as.CLIENT_SECRET }, { status: 401 })
  const other = await as.beginAuthentication(tenant, { user_id: 'bob' })
  await seen(as.visitCallback(app, other))
  await seen(tenant.get(`/v2/auth/wait/${other.auth_id}`))
  clock.ahead = 3_600_000
  await seen(tenant.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' }))
  const stored = await readStoredText(tenant.tenant_id)
  const refresh = body.token.replace('access', 'refresh')
  for (const secret of [state, 'the-code-secret', form.get('code_verifier')!, as.CLIENT_SECRET, body.token, refresh]) {
    for (const text of [...texts, JSON.stringify(logLines), stored]) expect(text).not.toContain(secret)
  }
})

async function readStoredText(tenant_id: string): Promise<string> {
  const { runAsSystem } = await import('../../src/kernel/db.ts')
  const { sql } = await import('drizzle-orm')
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

it('finds no flow or connection of another workspace or organization', async () => {
  const { tenant } = await as.setUpProvider(app)
  const begun = await as.completeAuthentication(app, tenant)
  const stranger = await newTenant({ app })
  expect((await stranger.get(`/v2/auth/wait/${begun.auth_id}`)).status).toBe(404)
  expect((await stranger.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' })).body.code).toBe(
    'provider_not_found',
  )
  // The same organization has the provider, but not the other workspace's people.
  const second = await tenant.owner.post('/workspaces', { display_name: 'Second' })
  const inside = { 'X-Tenant-Id': second.body.id }
  const there = await tenant.owner.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' }, inside)
  expect(there.body.status).toBe('pending')
  expect((await tenant.owner.get(`/v2/auth/wait/${begun.auth_id}`, inside)).status).toBe(404)
  expect((await tenant.owner.get('/v2/auth/tokens', inside)).body.resources).toEqual([])
})
