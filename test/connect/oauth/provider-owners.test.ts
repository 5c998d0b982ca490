// The attacker is Editor or Admin of one workspace and owns an OAuth server. The target are the codes, tokens and
// client secrets of another workspace of the same organization.
import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { ADMIN, EDITOR } from '../../../src/people/access/built-in-roles.ts'
import { clock, readEvents, type Tenant, unusedId } from '../../support/app.ts'
import * as as from '../../support/authorization-server.ts'
import { getProviderPath, newSiblingWorkspace } from '../../support/providers.ts'

const EVIL_ORIGIN = 'https://evil.example.com'
const HOUR = 3_600_000
/** The attacker's OAuth server accepts codes, refresh tokens and revocations. */
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

const readEvilRequests = () =>
  outside.requests
    .filter(({ url }) => url.startsWith(EVIL_ORIGIN))
    .map(({ url, headers, body }) => [url, ...headers.values(), decodeURIComponent(body)].join(' '))
    .join('\n')

/** The attacker's server received no client secret, code or token of the victim. */
function expectNothingStolen() {
  const requests = readEvilRequests()
  for (const secret of [as.CLIENT_SECRET, btoa(`Iv1.8a61f9b3a7aba766:${as.CLIENT_SECRET}`), 'the-code-secret'])
    expect(requests).not.toContain(secret)
  expect(requests).not.toMatch(/(access|refresh)-secret-\d/)
}

const ENDPOINTS = ['auth_url', 'token_url', 'revocation_url'] as const
const makeEvilEndpoint = (member: string) => ({ [member]: `${EVIL_ORIGIN}/${member.replace('_url', '')}` })
const evilEndpoints = Object.assign({}, ...ENDPOINTS.map(makeEvilEndpoint))

/** Every action of the victim that sends a request to the provider's server. */
const victimActions = {
  'completes a flow that began before': async (_: Tenant, begun: { url: string }) => {
    await as.visitCallback(app, begun)
  },
  'completes another flow': async (victim: Tenant) => {
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
  'deletes their token': async (victim: Tenant) => {
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

/** The victim is connected as ada, and has begun a flow as bob. */
async function newOrganization(creator: 'victim' | 'attacker', role_id = EDITOR) {
  const { tenant: victim } = await as.setUpProvider(app, { provider_id: 'unused' })
  const attacker = await newSiblingWorkspace(victim, role_id)
  await as.newProvider(creator === 'victim' ? victim : attacker, app)
  await as.completeAuthentication(app, victim)
  const begun = await as.beginAuthentication(victim, { user_id: 'bob' })
  return { victim, attacker, begun }
}

describe('an Editor of another workspace who changes the endpoints of a provider', () => {
  describe.each(['victim', 'attacker'] as const)('that the workspace of the %s created', creator => {
    it.each(Object.keys(victimActions) as (keyof typeof victimActions)[])(
      'receives no secret when the victim %s',
      async action => {
        const { victim, attacker, begun } = await newOrganization(creator)
        for (const change of [...ENDPOINTS.map(makeEvilEndpoint), evilEndpoints]) {
          for (const more of [{}, { client_secret: 'attacker-secret' }, { token_endpoint_auth_method: 'none' }]) {
            const { status, body } = await attacker.patch(getProviderPath('example'), { ...change, ...more })
            expect
              .soft([status, body.code], JSON.stringify({ ...change, ...more }))
              .toEqual([403, 'provider_not_yours'])
          }
        }
        await victimActions[action](victim, begun)
        expectNothingStolen()
      },
    )
  })

  it('cannot change any other member, and cannot delete the provider even as an Admin', async () => {
    const { attacker } = await newOrganization('attacker', ADMIN)
    for (const patch of [{ name: 'x' }, { scopes: ['x'] }, { client_id: 'x' }, { uses_pkce: false }])
      expect((await attacker.patch(getProviderPath('example'), patch)).body.code).toBe('provider_not_yours')
    expect((await attacker.delete(getProviderPath('example'))).body.code).toBe('provider_not_yours')
    expect((await attacker.get(getProviderPath('example'))).status).toBe(200)
  })
})

describe('a provider', () => {
  it('can be changed and deleted by the workspace that created it while no other workspace uses it', async () => {
    const { victim, attacker, begun } = await newOrganization('attacker', ADMIN)
    const rename = async () => (await attacker.patch(getProviderPath('example'), { name: 'Renamed' })).status
    expect(await rename()).toBe(403)
    await victim.delete('/v2/auth/tokens?provider=example&user_id=ada')
    expect(await rename()).toBe(403)
    await as.visitCallback(app, begun, { error: 'access_denied' })
    expect(await rename()).toBe(200)
    await as.completeAuthentication(app, attacker)
    expect(await rename()).toBe(200)
    // An open flow blocks the change until it expires.
    await as.beginAuthentication(victim)
    expect(await rename()).toBe(403)
    clock.ahead = HOUR
    expect(await rename()).toBe(200)
    expect((await attacker.delete(getProviderPath('example'))).status).toBe(204)
  })

  it('names the workspace that created it, until that workspace is deleted', async () => {
    const { victim, attacker } = await newOrganization('attacker')
    const readCreator = async () => (await victim.get(getProviderPath('example'))).body.made_by_workspace
    expect(await readCreator()).toBe(attacker.tenant_id)
    expect((await victim.owner.delete(`/workspaces/${attacker.tenant_id}`)).status).toBe(204)
    expect(await readCreator()).toBe(null)
    await victim.delete('/v2/auth/tokens?provider=example&user_id=ada')
    expect((await victim.patch(getProviderPath('example'), { name: 'x' })).body.code).toBe('provider_not_yours')
  })

  it('can be changed by an organization key only with the permission, in one round trip', async () => {
    const { victim, attacker } = await newOrganization('victim')
    const permissions = ['deployments:update', 'organization:read']
    const createKeyWith = async (names: string[]) =>
      (await victim.owner.post('/orgs/current/api-keys', { description: 'x', permissions: names })).body.key
    const headers = { 'X-Tenant-Id': attacker.tenant_id }
    const [keyWithout, keyWithPermission] = [
      await createKeyWith(permissions),
      await createKeyWith([...permissions, 'organization:manage-providers']),
    ]
    expect((await victim.as(keyWithout).patch(getProviderPath('example'), { name: 'x' }, headers)).body.code).toBe(
      'provider_not_yours',
    )
    const id = as.newTripId()
    const changed = await victim
      .as(keyWithPermission)
      .patch(getProviderPath('example'), { name: 'x' }, { ...headers, 'X-Request-Id': id })
    expect([changed.status, changed.body.name, await countTrips(id)]).toEqual([200, 'x', 1])
  })
})

describe('a permitted change', () => {
  const changeProvider = (victim: Tenant, patch: object) =>
    victim.owner.patch(getProviderPath('example'), patch, { 'X-Tenant-Id': victim.tenant_id })

  it.each(ENDPOINTS)('to %s needs the client secret again, unless the value stays the same', async member => {
    const { victim } = await newOrganization('victim')
    const { status, body } = await changeProvider(victim, makeEvilEndpoint(member))
    expect([status, body.code]).toEqual([400, 'secret_required'])
    const stored = (await victim.get(getProviderPath('example'))).body[member]
    expect((await changeProvider(victim, { [member]: stored })).status).toBe(200)
    expect((await as.beginAuthentication(victim)).status).toBe('completed')
    expect((await changeProvider(victim, { ...makeEvilEndpoint(member), client_secret: 'another' })).status).toBe(200)
  })

  it('needs no secret if none is stored or the change removes it', async () => {
    const { tenant } = await as.setUpProvider(app, { client_secret: null })
    expect((await tenant.patch(getProviderPath('example'), makeEvilEndpoint('token_url'))).status).toBe(200)
    const { victim } = await newOrganization('victim')
    const withoutSecret = { ...evilEndpoints, token_endpoint_auth_method: 'none' }
    expect((await changeProvider(victim, withoutSecret)).status).toBe(200)
    await as.visitCallback(app, await as.beginAuthentication(victim, { user_id: 'new' }))
    expect(readEvilRequests()).not.toContain(as.CLIENT_SECRET)
  })

  it.each(ENDPOINTS)('to %s ends every connection and every flow, in every workspace', async member => {
    const { victim, attacker, begun } = await newOrganization('victim')
    await as.completeAuthentication(app, attacker)
    const changed = await changeProvider(victim, { ...makeEvilEndpoint(member), client_secret: 'another' })
    expect(changed.status).toBe(200)
    for (const tenant of [victim, attacker]) {
      expect((await tenant.get('/v2/auth/tokens')).body.resources).toMatchObject([{ connected: false }])
      expect(await as.beginAuthentication(tenant)).toMatchObject({ status: 'connection_required' })
    }
    expect((await as.visitCallback(app, begun)).status).toBe(400)
    const waited = await victim.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)
    expect(waited.body.error).toBe('provider_changed')
    // Restoring the endpoints does not restore the connections.
    const original = { auth_url: `${as.ISSUER}/authorize?kept=yes`, token_url: `${as.ISSUER}/token` }
    const restored = { ...original, revocation_url: `${as.ISSUER}/revoke`, client_secret: as.CLIENT_SECRET }
    expect((await changeProvider(victim, restored)).status).toBe(200)
    expect((await as.beginAuthentication(victim)).status).toBe('connection_required')
  })

  it.each(Object.keys(victimActions) as (keyof typeof victimActions)[])(
    'sends no earlier code, token or secret to the new server when the victim %s',
    async action => {
      for (const member of [...ENDPOINTS, 'all'] as const) {
        const { victim, begun } = await newOrganization('victim')
        const endpoints = member === 'all' ? evilEndpoints : makeEvilEndpoint(member)
        expect((await changeProvider(victim, { ...endpoints, client_secret: 'another' })).status).toBe(200)
        outside.requests.length = 0
        if (action !== 'completes another flow') await victimActions[action](victim, begun)
        expectNothingStolen()
        clock.ahead = 0
      }
    },
  )
})

describe('a provider row that is changed outside the API', () => {
  const changeRow = async (victim: Tenant, assignments: string) => {
    const condition = sql`organization_id = ${victim.organization_id}::uuid and provider_id = 'example'`
    await runAsSystem(app.database, sql`update oauth_providers set ${sql.raw(assignments)} where ${condition}`)
  }
  const urls = `token_url = '${EVIL_ORIGIN}/token', revocation_url = '${EVIL_ORIGIN}/revoke'`

  it.each(Object.keys(victimActions) as (keyof typeof victimActions)[])(
    'sends no code, token or secret to the new server when the victim %s',
    async action => {
      const { victim, begun } = await newOrganization('victim')
      await changeRow(victim, urls)
      await victimActions[action](victim, begun)
      expectNothingStolen()
    },
  )

  it('refuses new connections until the secret is sent again', async () => {
    const { victim } = await newOrganization('victim')
    await changeRow(victim, urls)
    const begun = await as.beginAuthentication(victim, { user_id: 'new' })
    expect((await as.visitCallback(app, begun)).status).toBe(400)
    const { body } = await victim.get(`/v2/auth/wait/${begun.auth_id}?timeout=0`)
    expect(body.error).toBe('secret_required')
    expectNothingStolen()
  })

  it('loses its management token if the management URL moves to another origin', async () => {
    const { victim } = await newOrganization('victim')
    await changeRow(victim, `registration_client_uri = '${as.ISSUER}/one', registration_access_token = 'sealed'`)
    await changeRow(victim, `registration_client_uri = '${EVIL_ORIGIN}/one'`)
    const query = sql`select registration_access_token from oauth_providers
      where organization_id = ${victim.organization_id}::uuid and provider_id = 'example'`
    expect(await runAsSystem(app.database, query)).toEqual([[[null]]])
  })
})

describe('a concurrent change of a provider', () => {
  it('is refused if a flow starts before it, and otherwise decides where the flow leads', async () => {
    const { victim, attacker } = await newOrganization('attacker')
    await victim.delete('/v2/auth/tokens?provider=example&user_id=ada')
    const patch = { ...evilEndpoints, client_secret: 'another' }
    for (let round = 0; round < 12; round++) {
      const provider = `p${round}`
      await as.newProvider(attacker, app, { provider_id: provider })
      const request = { provider, user_id: 'ada' }
      const [changed, begun] = await Promise.all([
        attacker.patch(getProviderPath(provider), patch),
        victim.post('/v2/auth/authenticate', request),
      ])
      const leadsToIssuer = begun.body.url.startsWith(as.ISSUER)
      expect([changed.status, leadsToIssuer]).toEqual(changed.status === 403 ? [403, true] : [200, false])
      if (changed.status === 403)
        expect((await as.visitCallback(app, begun.body, {}, { as: provider })).status).toBe(200)
    }
    expectNothingStolen()
  })

  it('by deletion is refused if a flow starts before it, and otherwise the flow finds no provider', async () => {
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

  it('discards the token of a refresh that is in progress at the old server', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    clock.ahead = 2 * HOUR
    server.token = async () => {
      const changed = await tenant.patch(getProviderPath('example'), {
        ...evilEndpoints,
        client_secret: 'another',
      })
      expect(changed.status).toBe(200)
      return as.respondWithTokens()
    }
    const { body } = await tenant.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada' })
    expect(body.status).toBe('connection_required')
    expectNothingStolen()
  })

  it('discards the token of a code exchange that is in progress at the old server', async () => {
    const { tenant } = await as.setUpProvider(app)
    const begun = await as.beginAuthentication(tenant)
    server.token = async () => {
      await tenant.patch(getProviderPath('example'), { ...evilEndpoints, client_secret: 'another' })
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
  await tenant.patch(getProviderPath('example'), { ...evilEndpoints, client_secret: 'another' }, { 'X-Request-Id': id })
  const [event] = await readEvents(id, app)
  expect(event!.type).toBe('oauth_provider.updated')
  expect(JSON.parse(event!.data as string)).toMatchObject({ connections_ended: 1, client_secret: '********' })
})
