// Who may change a provider, and where codes, tokens and client secrets go after a change. The attacker is Editor or
// Admin of one workspace, owns an OAuth server, and wants what people of another workspace of the same organization
// granted.
import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { ADMIN, EDITOR } from '../../src/access/built-in-roles.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { clock, readEvents, type Tenant, unusedId } from '../support/app.ts'
import * as as from '../support/authorization-server.ts'
import { getProviderPath, newSiblingWorkspace } from '../support/providers.ts'

const EVIL_ORIGIN = 'https://evil.example.com'
const HOUR = 3_600_000
/** An OAuth server like any other: it takes codes, refresh tokens and revocations. */
const {
  server,
  foreignFetch: outside,
  app,
} = as.makeAuthorizationServer({
  [EVIL_ORIGIN]: request => (new URL(request.url).pathname === '/token' ? as.respondWithTokens() : new Response(null)),
})

beforeEach(() => {
  clock.ahead = 0
  outside.requests.length = 0
  server.token = () => as.respondWithTokens()
})

const requestsToEvil = () =>
  outside.requests
    .filter(({ url }) => url.startsWith(EVIL_ORIGIN))
    .map(({ url, headers, body }) => [url, ...headers.values(), decodeURIComponent(body)].join(' '))
    .join('\n')

/**
 * Nothing of the victim's reached the attacker: neither the client's secret, in whichever form, nor a code, nor a
 * token.
 */
function expectNothingStolen() {
  const told = requestsToEvil()
  for (const secret of [as.CLIENT_SECRET, btoa(`Iv1.8a61f9b3a7aba766:${as.CLIENT_SECRET}`), 'the-code-secret'])
    expect(told).not.toContain(secret)
  expect(told).not.toMatch(/(access|refresh)-secret-\d/)
}

const ENDPOINTS = ['auth_url', 'token_url', 'revocation_url'] as const
const endpointAtEvil = (member: string) => ({ [member]: `${EVIL_ORIGIN}/${member.replace('_url', '')}` })
const allEndpointsAtEvil = Object.assign({}, ...ENDPOINTS.map(endpointAtEvil))

/**
 * Everything that makes us speak to a provider's server, done by the victim, who was connected before and was on the
 * way again.
 */
const victimActions = {
  'comes back from a flow that was on its way': async (_: Tenant, begun: { url: string }) => {
    await as.visitCallback(app, begun)
  },
  'begins another flow and comes back': async (victim: Tenant) => {
    const { url } = (
      await victim.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada', force_new: true })
    ).body
    expect(url).not.toContain(EVIL_ORIGIN)
    await as.visitCallback(app, { url })
  },
  'has a token refreshed': async (victim: Tenant) => {
    clock.ahead = 2 * HOUR
    await victim.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' })
  },
  disconnects: async (victim: Tenant) => {
    await victim.delete('/v2/auth/tokens?provider=example&user_id=ada')
  },
  'has the provider checked': async (victim: Tenant) => {
    await victim.post(`${getProviderPath('example')}/recheck`)
  },
  'has the provider deleted': async (victim: Tenant) => {
    const inside = { 'X-Tenant-Id': victim.tenant_id }
    expect((await victim.owner.delete(getProviderPath('example'), undefined, inside)).status).toBe(204)
  },
}

/** `maker`: who made the provider. The victim is connected as ada, and on the way as bob. */
async function newOrganization(maker: 'victim' | 'attacker', role_id = EDITOR) {
  const { tenant: first } = await as.setUpProvider(app, { provider_id: 'unused' })
  const second = await newSiblingWorkspace(first, role_id)
  const [victim, attacker] = [first, second]
  await as.newProvider(maker === 'victim' ? victim : attacker, app)
  await as.completeAuthentication(app, victim)
  const begun = await as.beginAuthentication(victim, { user_id: 'bob' })
  return { victim, attacker, begun }
}

describe('an Editor of another workspace who changes the endpoints of a provider', () => {
  describe.each(['victim', 'attacker'] as const)('that the workspace of the %s made', maker => {
    it.each(Object.keys(victimActions) as (keyof typeof victimActions)[])(
      'receives nothing when the victim %s',
      async what => {
        const { victim, attacker, begun } = await newOrganization(maker)
        for (const change of [...ENDPOINTS.map(endpointAtEvil), allEndpointsAtEvil]) {
          for (const more of [{}, { client_secret: 'the-attackers-own' }, { token_endpoint_auth_method: 'none' }]) {
            const { status, body } = await attacker.patch(getProviderPath('example'), { ...change, ...more })
            expect
              .soft([status, body.code], JSON.stringify({ ...change, ...more }))
              .toEqual([403, 'provider_not_yours'])
          }
        }
        await victimActions[what](victim, begun)
        expectNothingStolen()
      },
    )
  })

  it('can change neither name nor scopes, nor delete it as an Admin', async () => {
    const { attacker } = await newOrganization('attacker', ADMIN)
    for (const patch of [{ name: 'x' }, { scopes: ['x'] }, { client_id: 'x' }, { uses_pkce: false }])
      expect((await attacker.patch(getProviderPath('example'), patch)).body.code).toBe('provider_not_yours')
    expect((await attacker.delete(getProviderPath('example'))).body.code).toBe('provider_not_yours')
    expect((await attacker.get(getProviderPath('example'))).status).toBe(200)
  })
})

describe('a provider', () => {
  it('can be changed and deleted by its workspace while no other workspace uses it', async () => {
    const { victim, attacker, begun } = await newOrganization('attacker', ADMIN)
    const rename = async () => (await attacker.patch(getProviderPath('example'), { name: 'Mine' })).status
    expect(await rename()).toBe(403)
    await victim.delete('/v2/auth/tokens?provider=example&user_id=ada')
    expect(await rename()).toBe(403)
    await as.visitCallback(app, begun, { error: 'access_denied' })
    expect(await rename()).toBe(200)
    await as.completeAuthentication(app, attacker)
    expect(await rename()).toBe(200)
    // A person who does not come back blocks it for as long as the address is valid.
    await as.beginAuthentication(victim)
    expect(await rename()).toBe(403)
    clock.ahead = HOUR
    expect(await rename()).toBe(200)
    expect((await attacker.delete(getProviderPath('example'))).status).toBe(204)
  })

  it('names the workspace that made it, until that workspace is deleted', async () => {
    const { victim, attacker } = await newOrganization('attacker')
    const maker = async () => (await victim.get(getProviderPath('example'))).body.made_by_workspace
    expect(await maker()).toBe(attacker.tenant_id)
    expect((await victim.owner.delete(`/workspaces/${attacker.tenant_id}`)).status).toBe(204)
    expect(await maker()).toBe(null)
    await victim.delete('/v2/auth/tokens?provider=example&user_id=ada')
    expect((await victim.patch(getProviderPath('example'), { name: 'x' })).body.code).toBe('provider_not_yours')
  })

  it('is changed in one round trip by an organization key with the permission only', async () => {
    const { victim, attacker } = await newOrganization('victim')
    const permissions = ['deployments:update', 'organization:read']
    const keyWith = async (names: string[]) =>
      (await victim.owner.post('/orgs/current/api-keys', { description: 'x', permissions: names })).body.key
    const headers = { 'X-Tenant-Id': attacker.tenant_id }
    const [without, holder] = [
      await keyWith(permissions),
      await keyWith([...permissions, 'organization:manage-providers']),
    ]
    expect((await victim.as(without).patch(getProviderPath('example'), { name: 'x' }, headers)).body.code).toBe(
      'provider_not_yours',
    )
    const id = as.newTripId()
    const changed = await victim
      .as(holder)
      .patch(getProviderPath('example'), { name: 'x' }, { ...headers, 'X-Request-Id': id })
    expect([changed.status, changed.body.name, await countTrips(id)]).toEqual([200, 'x', 1])
  })
})

describe('a permitted change', () => {
  const change = (victim: Tenant, patch: object) =>
    victim.owner.patch(getProviderPath('example'), patch, { 'X-Tenant-Id': victim.tenant_id })

  it.each(ENDPOINTS)('of %s needs the client secret again, unless the value is the stored one', async member => {
    const { victim } = await newOrganization('victim')
    const { status, body } = await change(victim, endpointAtEvil(member))
    expect([status, body.code]).toEqual([400, 'secret_required'])
    const stored = (await victim.get(getProviderPath('example'))).body[member]
    expect((await change(victim, { [member]: stored })).status).toBe(200)
    expect((await as.beginAuthentication(victim)).status).toBe('completed')
    expect((await change(victim, { ...endpointAtEvil(member), client_secret: 'another' })).status).toBe(200)
  })

  it('needs no secret if there is none, or if the change removes it', async () => {
    const { tenant } = await as.setUpProvider(app, { client_secret: null })
    expect((await tenant.patch(getProviderPath('example'), endpointAtEvil('token_url'))).status).toBe(200)
    const { victim } = await newOrganization('victim')
    const without = { ...allEndpointsAtEvil, token_endpoint_auth_method: 'none' }
    expect((await change(victim, without)).status).toBe(200)
    await as.visitCallback(app, await as.beginAuthentication(victim, { user_id: 'new' }))
    expect(requestsToEvil()).not.toContain(as.CLIENT_SECRET)
  })

  it.each(ENDPOINTS)('of %s ends every connection and every flow, in every workspace', async member => {
    const { victim, attacker, begun } = await newOrganization('victim')
    await as.completeAuthentication(app, attacker)
    const changed = await change(victim, { ...endpointAtEvil(member), client_secret: 'another' })
    expect(changed.status).toBe(200)
    for (const one of [victim, attacker]) {
      expect((await one.get('/v2/auth/tokens')).body.resources).toMatchObject([{ connected: false }])
      expect(await as.beginAuthentication(one)).toMatchObject({ status: 'connection_required' })
    }
    expect((await as.visitCallback(app, begun)).status).toBe(400)
    const waited = await victim.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)
    expect(waited.body.error).toBe('provider_changed')
    // Changed back, it is still ended.
    const back = { auth_url: `${as.ISSUER}/authorize?kept=yes`, token_url: `${as.ISSUER}/token` }
    const all = { ...back, revocation_url: `${as.ISSUER}/revoke`, client_secret: as.CLIENT_SECRET }
    expect((await change(victim, all)).status).toBe(200)
    expect((await as.beginAuthentication(victim)).status).toBe('connection_required')
  })

  it.each(Object.keys(victimActions) as (keyof typeof victimActions)[])(
    'sends nothing that was granted before to the new server when someone %s',
    async what => {
      for (const member of [...ENDPOINTS, 'all'] as const) {
        const { victim, begun } = await newOrganization('victim')
        const endpoints = member === 'all' ? allEndpointsAtEvil : endpointAtEvil(member)
        expect((await change(victim, { ...endpoints, client_secret: 'another' })).status).toBe(200)
        outside.requests.length = 0
        if (what !== 'begins another flow and comes back') await victimActions[what](victim, begun)
        expectNothingStolen()
        clock.ahead = 0
      }
    },
  )
})

describe('a provider row that is changed outside the API', () => {
  const moved = async (victim: Tenant, assignments: string) => {
    const which = sql`organization_id = ${victim.organization_id}::uuid and provider_id = 'example'`
    await runAsSystem(app.database, sql`update oauth_providers set ${sql.raw(assignments)} where ${which}`)
  }
  const urls = `token_url = '${EVIL_ORIGIN}/token', revocation_url = '${EVIL_ORIGIN}/revoke'`

  it.each(Object.keys(victimActions) as (keyof typeof victimActions)[])(
    'steals nothing when the victim %s',
    async what => {
      const { victim, begun } = await newOrganization('victim')
      await moved(victim, urls)
      await victimActions[what](victim, begun)
      expectNothingStolen()
    },
  )

  it('refuses new connections until the secret is sent again', async () => {
    const { victim } = await newOrganization('victim')
    await moved(victim, urls)
    const begun = await as.beginAuthentication(victim, { user_id: 'new' })
    expect((await as.visitCallback(app, begun)).status).toBe(400)
    const { body } = await victim.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)
    expect(body.error).toBe('secret_required')
    expectNothingStolen()
  })

  it('loses its management token if the management URL moves to another origin', async () => {
    const { victim } = await newOrganization('victim')
    await moved(victim, `registration_client_uri = '${as.ISSUER}/one', registration_access_token = 'sealed'`)
    await moved(victim, `registration_client_uri = '${EVIL_ORIGIN}/one'`)
    const query = sql`select registration_access_token from oauth_providers
      where organization_id = ${victim.organization_id}::uuid and provider_id = 'example'`
    expect(await runAsSystem(app.database, query)).toEqual([[[null]]])
  })
})

describe('concurrently', () => {
  it('a starting connection makes the change fail, or is ended by it', async () => {
    const { victim, attacker } = await newOrganization('attacker')
    await victim.delete('/v2/auth/tokens?provider=example&user_id=ada')
    const patch = { ...allEndpointsAtEvil, client_secret: 'another' }
    for (let round = 0; round < 12; round++) {
      const provider = `p${round}`
      await as.newProvider(attacker, app, { provider_id: provider })
      const wish = { provider, user_id: 'ada' }
      const [changed, begun] = await Promise.all([
        attacker.patch(getProviderPath(provider), patch),
        victim.post('/v2/auth/authenticate', wish),
      ])
      const atIssuer = begun.body.url.startsWith(as.ISSUER)
      // Begun first, so the change was refused; or changed first, and then the person sees where the way leads.
      expect([changed.status, atIssuer]).toEqual(changed.status === 403 ? [403, true] : [200, false])
      if (changed.status === 403)
        expect((await as.visitCallback(app, begun.body, {}, { as: provider })).status).toBe(200)
    }
    expectNothingStolen()
  })

  it('a starting connection makes the deletion fail, or finds no provider', async () => {
    const { victim, attacker } = await newOrganization('attacker', ADMIN)
    for (let round = 0; round < 6; round++) {
      const provider = `d${round}`
      await as.newProvider(attacker, app, { provider_id: provider })
      const [deleted, begun] = await Promise.all([
        attacker.delete(getProviderPath(provider)),
        victim.post('/v2/auth/authenticate', { provider, user_id: 'ada' }),
      ])
      expect([deleted.status, begun.status]).toEqual(deleted.status === 204 ? [204, 404] : [403, 200])
    }
  })

  it('a refresh in progress at the old server returns no token after the change', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    clock.ahead = 2 * HOUR
    server.token = async () => {
      const changed = await tenant.patch(getProviderPath('example'), {
        ...allEndpointsAtEvil,
        client_secret: 'another',
      })
      expect(changed.status).toBe(200)
      return as.respondWithTokens()
    }
    const { body } = await tenant.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' })
    expect(body.status).toBe('connection_required')
    expectNothingStolen()
  })

  it('a code exchange in progress at the old server connects nobody after the change', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    server.token = async () => {
      await tenant.patch(getProviderPath('example'), { ...allEndpointsAtEvil, client_secret: 'another' })
      return as.respondWithTokens()
    }
    expect((await as.visitCallback(app, begun)).status).toBe(400)
    expect((await tenant.get('/v2/auth/tokens')).body.resources).toEqual([])
    expectNothingStolen()
  })
})

it('the event of a change counts the connections that it ended', async () => {
  const { tenant } = await as.setUpProvider(app)
  await as.completeAuthentication(app, tenant)
  const id = unusedId()
  await tenant.patch(
    getProviderPath('example'),
    { ...allEndpointsAtEvil, client_secret: 'another' },
    { 'X-Request-Id': id },
  )
  const [event] = await readEvents(id, app)
  expect(event!.type).toBe('oauth_provider.updated')
  expect(JSON.parse(event!.data as string)).toMatchObject({ connections_ended: 1, client_secret: '********' })
})
