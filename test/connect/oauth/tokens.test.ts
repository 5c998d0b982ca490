import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { clock, newTenant, readEvents, type Tenant, unusedId } from '../../support/app.ts'
import * as as from '../../support/authorization-server.ts'

const { server, app } = as.makeAuthorizationServer()
beforeEach(() => {
  clock.ahead = 0
  server.token = () => as.respondWithTokens()
  server.revocation = () => new Response(null)
  server.revoked.length = 0
})

const HOUR = 3_600_000
const tokenRequest = { provider: 'example', user_id: 'ada' }
const requestToken = async (tenant: Tenant, headers: Record<string, string> = {}) =>
  tenant.post('/v2/auth/authenticate', tokenRequest, headers)

/** A server that accepts each refresh token once, and revokes all tokens if one is reused. */
function makeRotatingServer() {
  let current: string | null = null
  let refreshes = 0
  const issueTokens = () => {
    const tokens = as.makeTokens()
    current = tokens.refresh_token
    return Response.json(tokens)
  }
  return {
    countRefreshes: () => refreshes,
    respond: async ({ form }: as.TokenRequest) => {
      if (form.get('grant_type') === 'authorization_code') return issueTokens()
      refreshes++
      if (form.get('refresh_token') === current) return issueTokens()
      current = null
      return as.respondWithError('invalid_grant')
    },
  }
}

describe('a requested token', () => {
  it('is the stored one until a minute before it expires, then a refreshed one', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    const { token } = (await requestToken(tenant)).body
    clock.ahead = HOUR - 65_000
    expect((await requestToken(tenant)).body.token).toBe(token)
    clock.ahead = HOUR - 55_000
    const id = as.newTripId()
    const { body } = await requestToken(tenant, { 'X-Request-Id': id })
    expect(body).toEqual({ status: 'completed', token: expect.not.stringContaining(token) })
    expect(await countTrips(id)).toBe(2)
    expect((await readEvents(id, app)).map(({ type }) => type)).toEqual(['oauth_token.refreshed'])
    expect((await requestToken(tenant)).body.token).toBe(body.token)
  })

  it('is refreshed with the resource and the credentials of the client', async () => {
    const { tenant } = await as.setUpProvider(app, {}, { resource: 'https://mcp.example.com/mcp/' })
    await as.completeAuthentication(app, tenant)
    clock.ahead = HOUR
    await requestToken(tenant)
    expect(Object.fromEntries(server.tokenRequests.at(-1)!.form)).toEqual({
      grant_type: 'refresh_token',
      refresh_token: expect.stringMatching(/^refresh-secret/),
      resource: 'https://mcp.example.com/mcp/',
      client_id: expect.anything(),
      client_secret: as.CLIENT_SECRET,
    })
  })

  it('is refreshed with the same refresh token if the server issued no new one', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    server.token = () => as.respondWithTokens({ refresh_token: undefined })
    clock.ahead = HOUR
    await requestToken(tenant)
    const first = server.tokenRequests.at(-1)!.form.get('refresh_token')
    clock.ahead = 2 * HOUR
    expect((await requestToken(tenant)).body.status).toBe('completed')
    expect(server.tokenRequests.at(-1)!.form.get('refresh_token')).toBe(first)
  })

  it('is refreshed once for twenty concurrent requests', async () => {
    const { tenant } = await as.setUpProvider(app)
    const rotating = makeRotatingServer()
    server.token = rotating.respond
    await as.completeAuthentication(app, tenant)
    clock.ahead = HOUR
    const replies = await Promise.all(Array.from({ length: 20 }, () => requestToken(tenant)))
    expect(new Set(replies.map(({ body }) => `${body.status} ${body.token}`)).size).toBe(1)
    expect(replies[0]!.body.status).toBe('completed')
    expect(rotating.countRefreshes()).toBe(1)
    clock.ahead = 2 * HOUR
    expect((await requestToken(tenant)).body.status).toBe('completed')
  })

  it('needs a new connection if the server refuses the refresh token', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    clock.ahead = HOUR
    server.token = () => as.respondWithError('invalid_grant')
    const id = as.newTripId()
    const { body } = await requestToken(tenant, { 'X-Request-Id': id })
    expect(body).toEqual({ status: 'connection_required', url: expect.any(String), auth_id: expect.any(String) })
    expect(await countTrips(id)).toBe(2)
    const requestsBefore = server.tokenRequests.length
    expect((await requestToken(tenant)).body.status).toBe('connection_required')
    expect(server.tokenRequests.length).toBe(requestsBefore)
    expect((await tenant.get('/v2/auth/tokens')).body.resources[0].connected).toBe(false)
    const { body: refusals } = await tenant.get('/v2/events?type=oauth_token.refused')
    expect(refusals.resources).toHaveLength(1)
    server.token = () => as.respondWithTokens()
    await as.visitCallback(app, body)
    expect((await requestToken(tenant)).body.status).toBe('completed')
    expect((await tenant.get('/v2/auth/tokens')).body.resources[0].connected).toBe(true)
  })

  it('needs a new connection if it has expired and has no refresh token', async () => {
    const { tenant } = await as.setUpProvider(app)
    server.token = () => as.respondWithTokens({ refresh_token: undefined })
    await as.completeAuthentication(app, tenant)
    clock.ahead = HOUR
    expect((await requestToken(tenant)).body).toEqual({
      status: 'token_expired',
      url: expect.any(String),
      auth_id: expect.any(String),
    })
  })

  it.each([
    ['status 502', () => new Response('<html>', { status: 502 }), 502, 'upstream_error'],
    ['a refused client', () => as.respondWithError('invalid_client', 401), 422, 'client_refused'],
    ['a response that is a page', () => new Response('<html>'), 422, 'token_answer_invalid'],
  ])('can be requested again at once after a refresh that fails with %s', async (_, respond, status, code) => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    clock.ahead = HOUR
    server.token = respond
    const id = as.newTripId()
    const reply = await requestToken(tenant, { 'X-Request-Id': id })
    expect([reply.status, reply.body.code, await countTrips(id)]).toEqual([status, code, 2])
    server.token = () => as.respondWithTokens()
    expect((await requestToken(tenant)).body.status).toBe('completed')
  })

  it('is refreshed by another request after the lease of a request that died', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    clock.ahead = HOUR
    await runAsSystem(
      app.database,
      sql`
        update oauth_tokens
        set leased_until = now() + interval '1 hour 1 second'
        where tenant_id = ${tenant.tenant_id}::uuid`,
    )
    const requestsBefore = server.tokenRequests.length
    const pending = requestToken(tenant)
    clock.ahead = HOUR + 2000
    expect((await pending).body.status).toBe('completed')
    expect(server.tokenRequests.length).toBe(requestsBefore + 1)
  })

  it('is the stored one if the request lost its lease to another request', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    clock.ahead = HOUR
    let hasLostLease = false
    server.token = async () => {
      if (!hasLostLease) {
        hasLostLease = true
        clock.ahead += 40_000
        await requestToken(tenant)
        return as.respondWithError('invalid_grant')
      }
      return as.respondWithTokens()
    }
    const { body } = await requestToken(tenant)
    expect(body.status).toBe('completed')
    expect((await requestToken(tenant)).body.token).toBe(body.token)
  })

  it('is stored but not returned if the API key is revoked meanwhile', async () => {
    const { tenant } = await as.setUpProvider(app)
    server.token = makeRotatingServer().respond
    await as.completeAuthentication(app, tenant)
    const created = await tenant.post('/workspaces/current/api-keys', { description: 'short' })
    clock.ahead = HOUR
    const respond = server.token
    server.token = async request => {
      await tenant.delete(`/workspaces/current/api-keys/${created.body.id}`)
      return respond(request)
    }
    const refused = await tenant.as(created.body.key).post('/v2/auth/authenticate', tokenRequest)
    expect([refused.status, refused.body.code]).toEqual([401, 'key_revoked'])
    server.token = respond
    expect((await requestToken(tenant)).body.status).toBe('completed')
    clock.ahead = 2 * HOUR
    expect((await requestToken(tenant)).body.status).toBe('completed')
  })

  it('is not refreshed if the server of the provider has changed since', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    await tenant.patch('/v2/auth/providers/example', {
      token_url: 'https://evil.example/token',
      client_secret: 'other',
    })
    clock.ahead = HOUR
    const requestsBefore = server.tokenRequests.length
    expect((await requestToken(tenant)).body.status).toBe('connection_required')
    expect(server.tokenRequests.length).toBe(requestsBefore)
  })
})

describe('tokens of people', () => {
  it('are listed by provider and user, without the tokens themselves', async () => {
    const { tenant, provider } = await as.setUpProvider(app)
    await as.newProvider(tenant, app, { provider_id: 'another' })
    server.token = () => as.respondWithTokens({ scope: 'read,extra' })
    await as.completeAuthentication(app, tenant, { scopes: ['read', 'write'] })
    await as.completeAuthentication(app, tenant, { user_id: 'bob' })
    const { body } = await tenant.get('/v2/auth/tokens?user_id=ada')
    expect(body).toEqual({
      offset: 1,
      resources: [
        {
          id: expect.any(String),
          provider_id: 'example',
          user_id: 'ada',
          scopes: ['read', 'write', 'extra'],
          expires_at: expect.any(String),
          refreshable: true,
          connected: true,
          created_at: expect.any(String),
          updated_at: expect.any(String),
        },
      ],
    })
    const countListed = async (query: string) => (await tenant.get(`/v2/auth/tokens?${query}`)).body.resources.length
    expect(
      await Promise.all(
        ['', 'provider=example', `provider=${provider.id}`, 'provider=another', 'limit=1'].map(countListed),
      ),
    ).toEqual([2, 2, 2, 0, 1])
    const first = await tenant.get('/v2/auth/tokens?limit=1')
    const next = /<(.*)>/.exec(first.headers.get('Link')!)![1]!
    expect((await tenant.get(next)).body.resources.map(({ user_id }: { user_id: string }) => user_id)).toEqual(['ada'])
  })

  it('are revoked at the server when they are deleted', async () => {
    const { tenant } = await as.setUpProvider(app)
    const tokens = as.makeTokens()
    server.token = () => Response.json(tokens)
    await as.completeAuthentication(app, tenant)
    const [{ id }] = (await tenant.get('/v2/auth/tokens')).body.resources
    const trip = as.newTripId()
    const { body } = await tenant.as(tenant.key, { 'X-Request-Id': trip }).delete(`/v2/auth/tokens?token_id=${id}`)
    expect(body).toEqual({ id, revocation: 'revoked' })
    expect(await countTrips(trip)).toBe(1)
    expect(server.revoked.map(form => Object.fromEntries(form))).toEqual([
      expect.objectContaining({
        token: tokens.refresh_token,
        token_type_hint: 'refresh_token',
        client_secret: as.CLIENT_SECRET,
      }),
      expect.objectContaining({ token: tokens.access_token, token_type_hint: 'access_token' }),
    ])
    expect((await requestToken(tenant)).body.status).toBe('pending')
    expect((await tenant.delete(`/v2/auth/tokens?token_id=${id}`)).body.code).toBe('token_not_found')
  })

  it.each([
    ['has no revocation URL', { revocation_url: null }, () => new Response(null), 'unsupported'],
    ['fails to revoke', {}, () => new Response('no', { status: 503 }), 'failed'],
    ['is unreachable', { revocation_url: 'https://unreachable.example/revoke' }, () => new Response(null), 'failed'],
  ])('are deleted even if the server %s', async (_, over, respond, revocation) => {
    const { tenant } = await as.setUpProvider(app, over)
    server.revocation = respond
    await as.completeAuthentication(app, tenant)
    expect((await tenant.delete('/v2/auth/tokens?provider=example&user_id=ada')).body.revocation).toBe(revocation)
    expect((await tenant.get('/v2/auth/tokens')).body.resources).toEqual([])
  })

  it('are deleted one at a time, by id or by provider and user', async () => {
    const { tenant } = await as.setUpProvider(app)
    for (const query of ['', '?user_id=ada', `?token_id=${unusedId()}&provider=example`])
      expect((await tenant.delete(`/v2/auth/tokens${query}`)).status).toBe(422)
    expect((await tenant.delete('/v2/auth/tokens?provider=example')).status).toBe(404)
  })

  it('are neither listed nor deleted in another workspace', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    const [{ id }] = (await tenant.get('/v2/auth/tokens')).body.resources
    const foreign = await newTenant({ app })
    const second = await tenant.owner.post('/workspaces', { display_name: 'Second' })
    const inside = { 'X-Tenant-Id': second.body.id }
    expect((await foreign.delete(`/v2/auth/tokens?token_id=${id}`)).status).toBe(404)
    expect((await tenant.owner.delete(`/v2/auth/tokens?token_id=${id}`, undefined, inside)).status).toBe(404)
    expect((await foreign.get('/v2/auth/tokens')).body.resources).toEqual([])
    expect((await requestToken(tenant)).body.status).toBe('completed')
  })
})
