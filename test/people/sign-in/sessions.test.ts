// Sessions: opened with a key, sent as a cookie, refused, ended, and what a member may do with one.
import { beforeAll, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import { newSessionToken } from '../../../src/kernel/crypto/crypto.ts'
import { ADMIN, EDITOR, ORGANIZATION_ADMIN, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { newTenant, readEvents, send, startApp, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { newSiblingWorkspace } from '../../support/providers.ts'
import { asSession, COOKIE, cookieHeaders, newSession, tokenOf } from '../../support/sessions.ts'

const DAY_MS = 24 * 60 * 60_000
let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

const openSession = async (key = tenant.key) => {
  const reply = await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': key, 'User-Agent': 'Browser' } })
  expect(reply.status).toBe(201)
  return { reply, id: reply.body.id as string, ...asSession(tokenOf(reply)!) }
}

describe('a session opened with an API key', () => {
  it('sets a cookie that scripts cannot read and other sites do not send', async () => {
    const { reply } = await openSession()
    expect(reply.headers.get('Set-Cookie')).toMatch(
      /^slipway-80=sls_\w{49}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
    )
    expect(reply.headers.get('Access-Control-Allow-Credentials')).toBeNull()
    expect(reply.text).not.toContain('sls_')
    const [event] = await readEvents(reply.headers.get('X-Request-Id')!)
    expect(event).toMatchObject({ type: 'session.opened', subject_id: reply.body.id, actor_kind: 'key' })
  })

  it('sets a cookie on https that only this host can set', async () => {
    const app = startApp({ settings: { PUBLIC_URL: 'https://slipway.test' } })
    const reply = await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': tenant.key }, app })
    expect(reply.headers.get('Set-Cookie')).toMatch(/^__Host-slipway=\w+; Path=\/; .*; SameSite=Strict; Secure$/)
    const token = tokenOf(reply)!
    const statusWith = async (cookie: string) =>
      (await send('GET', '/v2/me', { headers: { Cookie: cookie, 'Sec-Fetch-Site': 'same-origin' }, app })).status
    expect(await statusWith(`__Host-slipway=${token}`)).toBe(200)
    expect(await statusWith(`${COOKIE}=${token}`)).toBe(401)
  })

  it('has the rights of the key, acts as the key, and ends with it', async () => {
    const made = await tenant.post('/workspaces/current/api-keys', {
      description: 'x',
      permissions: ['deployments:read'],
    })
    const session = await openSession(made.body.key)
    expect((await session.get('/v2/deployments')).status).toBe(200)
    expect((await session.get('/workspaces/current/api-keys')).body.code).toBe('permission_missing')
    const me = (await session.get('/v2/me')).body
    expect(me).toMatchObject({ member: null, api_key: { id: made.body.id }, session: { id: session.id } })
    await tenant.delete(`/workspaces/current/api-keys/${made.body.id}`)
    expect((await session.get('/v2/deployments')).body.code).toBe('key_revoked')
  })

  it('creates keys that are revoked with the key', async () => {
    const creator = (await tenant.post('/workspaces/current/api-keys', { description: 'creator' })).body
    const session = await openSession(creator.key)
    const child = (await session.post('/workspaces/current/api-keys', { description: 'child' })).body
    expect(child.created_by).toBe(creator.id)
    await tenant.delete(`/workspaces/current/api-keys/${creator.id}`)
    expect((await send('GET', '/v2/me', { headers: { 'X-Api-Key': child.key } })).body.code).toBe('key_revoked')
  })

  it('is set again by a repeated request with the same idempotency key', async () => {
    const headers = { 'X-Api-Key': tenant.key, 'Idempotency-Key': unusedId() }
    const first = await send('POST', '/v2/me/sessions', { headers })
    const again = await send('POST', '/v2/me/sessions', { headers })
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    expect(tokenOf(again)).toBe(tokenOf(first))
  })

  it('never takes over a token that the browser already has', async () => {
    const planted = newSessionToken()
    const headers = { 'X-Api-Key': tenant.key, ...cookieHeaders(planted) }
    const token = tokenOf(await send('POST', '/v2/me/sessions', { headers }))
    expect(token).not.toBe(planted)
    expect((await asSession(planted).get('/v2/me')).body.code).toBe('session_ended')
  })

  it.each(['cross-site', 'same-site', 'none'])('is refused to a page whose request is %s', async site => {
    const headers = { 'X-Api-Key': tenant.key, 'Sec-Fetch-Site': site }
    const reply = await send('POST', '/v2/me/sessions', { headers })
    expect([reply.status, reply.body.code]).toEqual([403, 'cross_site_request'])
    expect(reply.headers.get('Set-Cookie')).toBeNull()
  })

  it('cannot open another session', async () => {
    const { post } = await openSession()
    expect((await post('/v2/me/sessions')).body.code).toBe('key_missing')
  })
})

describe('the cookie of a session', () => {
  it.each<[string, Record<string, string>]>([
    ['without Sec-Fetch-Site', {}],
    ['from another site', { 'Sec-Fetch-Site': 'cross-site' }],
    ['from an application on the same site', { 'Sec-Fetch-Site': 'same-site' }],
    ['from the address bar', { 'Sec-Fetch-Site': 'none' }],
  ])('does not count in a request %s', async (_, headers) => {
    const { token } = await openSession()
    const withCookie = { Cookie: `${COOKIE}=${token}`, ...headers }
    for (const method of ['GET', 'POST'])
      expect((await send(method, '/v2/deployments', { headers: withCookie })).body.code).toBe('key_missing')
  })

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', undefined])(
    'is refused for a write with the content type %s, which a form can send',
    async type => {
      const { token } = await openSession()
      const headers = { ...cookieHeaders(token), ...(type && { 'Content-Type': type }) }
      const reply = await send('POST', '/v2/tag-keys', { headers, raw: new TextEncoder().encode('{"key":"a"}') })
      expect([reply.status, reply.body.code]).toEqual([415, 'not_json'])
    },
  )

  it('counts as missing if another host of the domain has set a second one', async () => {
    const [own, tossed] = [await openSession(), await openSession()]
    for (const pair of [
      [own, tossed],
      [tossed, own],
    ]) {
      const Cookie = pair.map(({ token }) => `${COOKIE}=${token}`).join('; ')
      const reply = await send('GET', '/v2/me', { headers: { Cookie, 'Sec-Fetch-Site': 'same-origin' } })
      expect(reply.body.code).toBe('key_missing')
    }
  })

  it('counts as missing with a Unicode space before its name, which any host of the domain can set', async () => {
    const { token } = await openSession()
    const headers = { Cookie: `\u00a0${COOKIE}=${token}`, 'Sec-Fetch-Site': 'same-origin' }
    expect((await send('GET', '/v2/me', { headers })).body.code).toBe('key_missing')
  })

  it('counts less than a key in a header', async () => {
    const { token } = await openSession()
    const headers = { ...cookieHeaders(token), 'X-Api-Key': tenant.owner.key }
    expect((await send('GET', '/v2/me', { headers })).body.session).toBeNull()
    const malformed = await send('GET', '/v2/me', { headers: { ...headers, 'X-Api-Key': 'slw_typo' } })
    expect(malformed.body.code).toBe('key_malformed')
  })

  it('costs no round trip if it is garbage, and one otherwise', async () => {
    const { token } = await openSession()
    for (const [value, trips, status] of [
      ['garbage', 0, 401],
      [`${token.slice(0, -1)}_`, 0, 401],
      [newSessionToken(), 1, 401],
      [token, 1, 200],
    ] as const) {
      const requestId = `trip-session-${unusedId()}`
      const reply = await send('GET', '/v2/me', { headers: { ...cookieHeaders(value), 'X-Request-Id': requestId } })
      expect(reply.status).toBe(status)
      if (status === 401) expect(reply.body.code).toBe('session_ended')
      expect(await countTrips(requestId)).toBe(trips)
    }
  })
})

describe('a session ends', () => {
  it('after seven idle days, and not before', async () => {
    const session = await newSession(tenant)
    await withClockAhead(6.9 * DAY_MS, async () => {
      expect((await session.get('/v2/me')).status).toBe(200)
      await finishPendingWork()
    })
    await withClockAhead(13.8 * DAY_MS, async () => expect((await session.get('/v2/me')).status).toBe(200))
    await withClockAhead(20.9 * DAY_MS, async () =>
      expect((await session.get('/v2/me')).body.code).toBe('session_ended'),
    )
  })

  it('after thirty days, however often it was used', async () => {
    const session = await newSession(tenant)
    for (const days of [6, 12, 18, 24, 29.9])
      await withClockAhead(days * DAY_MS, async () => {
        expect((await session.get('/v2/me')).status).toBe(200)
        // Its use is noted after the answer.
        await finishPendingWork()
      })
    await withClockAhead(30.1 * DAY_MS, async () =>
      expect((await session.get('/v2/me')).body.code).toBe('session_ended'),
    )
  })

  it('when its member is removed', async () => {
    const session = await newSession(tenant, { workspaceRole: EDITOR })
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    expect((await session.get('/v2/deployments', inside)).status).toBe(200)
    await tenant.owner.delete(`/orgs/current/members/${session.member_id}`)
    expect((await session.get('/v2/deployments', inside)).body.code).toBe('session_ended')
  })

  it('when the person signs out, which deletes the cookie', async () => {
    const session = await openSession()
    const reply = await session.delete('/v2/me/sessions/current')
    expect(reply.status).toBe(204)
    expect(reply.headers.get('Set-Cookie')).toMatch(/^slipway-80=; Path=\/; Max-Age=0;/)
    expect((await readEvents(reply.headers.get('X-Request-Id')!))[0]).toMatchObject({
      type: 'session.ended',
      subject_id: session.id,
    })
    expect((await session.get('/v2/me')).body.code).toBe('session_ended')
  })

  it('when its owner ends it from elsewhere, and no other person can', async () => {
    const creator = (await tenant.post('/workspaces/current/api-keys', { description: 'two sessions' })).body
    const [here, there, foreign] = [await openSession(creator.key), await openSession(creator.key), await openSession()]
    const listed = (await here.get('/v2/me/sessions')).body.resources
    expect(listed.map(({ id, is_current }: typeof listed) => [id, is_current])).toEqual([
      [there.id, false],
      [here.id, true],
    ])
    expect(listed[0]).toMatchObject({ method: 'key', user_agent: 'Browser' })
    expect((await foreign.delete(`/v2/me/sessions/${there.id}`)).body.code).toBe('session_not_found')
    const ended = await here.delete(`/v2/me/sessions/${there.id}`)
    expect([ended.status, ended.headers.get('Set-Cookie')]).toEqual([204, null])
    expect((await there.get('/v2/me')).body.code).toBe('session_ended')
    expect((await here.get('/v2/me')).status).toBe(200)
  })
})

describe('a member with a session', () => {
  const inside = () => ({ 'X-Tenant-Id': tenant.tenant_id })

  it('acts under its own name', async () => {
    const session = await newSession(tenant, { workspaceRole: EDITOR })
    const reply = await session.post('/v2/deployments', NewDeployment.meta()!.example, inside())
    expect(reply.status).toBe(201)
    const [event] = await readEvents(reply.headers.get('X-Request-Id')!)
    expect(event).toMatchObject({ actor_kind: 'session', actor_id: session.member_id, tenant_id: tenant.tenant_id })
    const revision = await session.get(
      `/v2/deployments/${reply.body.id}/revisions/${reply.body.latest_revision_id}`,
      inside(),
    )
    expect(revision.body.actor).toMatchObject({ kind: 'session', id: session.member_id })
  })

  it('sees nothing of a workspace in which it has no role', async () => {
    const session = await newSession(tenant)
    expect((await session.get('/v2/deployments', inside())).body.code).toBe('permission_missing')
    expect((await session.get('/workspaces', inside())).body.code).toBe('permission_missing')
    const me = (await session.get('/v2/me')).body
    expect(me).toMatchObject({ workspaces: [], permissions: ['organization:read'], member: { id: session.member_id } })
  })

  it('uses a role in one workspace nowhere else', async () => {
    const session = await newSession(tenant, { workspaceRole: ADMIN })
    const sibling = await newSiblingWorkspace(tenant, ADMIN)
    const elsewhere = { 'X-Tenant-Id': sibling.tenant_id }
    expect((await session.get('/v2/deployments', elsewhere)).body.code).toBe('permission_missing')
    expect((await session.get('/v2/deployments')).body.code).toBe('workspace_required')
    expect((await session.get('/workspaces')).body.code).toBe('workspace_required')
    const listed = (await session.get('/workspaces', inside())).body.resources
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([tenant.tenant_id])
    const patch = { display_name: unusedId() }
    const changed = await session.patch(`/workspaces/${sibling.tenant_id}`, patch, inside())
    expect(changed.body.code).toBe('workspace_not_found')
    const [workspace] = (await session.get('/v2/me')).body.workspaces
    expect(workspace).toMatchObject({ id: tenant.tenant_id, role_id: ADMIN })
    expect(workspace.permissions).toContain('deployments:update')
  })

  it('with a role of the organization reaches every workspace of it and no other', async () => {
    const session = await newSession(tenant, { organizationRole: ORGANIZATION_ADMIN })
    const [sibling, other] = [await newSiblingWorkspace(tenant, ADMIN), await newTenant()]
    expect((await session.get('/v2/deployments', { 'X-Tenant-Id': sibling.tenant_id })).status).toBe(200)
    expect((await session.get('/v2/deployments', { 'X-Tenant-Id': other.tenant_id })).body.code).toBe(
      'workspace_forbidden',
    )
    const ids = (await session.get('/v2/me')).body.workspaces.map(({ id }: { id: string }) => id)
    expect(ids).toEqual(expect.arrayContaining([tenant.tenant_id, sibling.tenant_id]))
    expect(ids).not.toContain(other.tenant_id)
  })

  it('follows a change of its role at the next request', async () => {
    const session = await newSession(tenant, { workspaceRole: EDITOR })
    const memberships = (await tenant.get('/workspaces/current/members?limit=100')).body.resources
    const { id } = memberships.find((one: { member_id: string }) => one.member_id === session.member_id)
    const create = () =>
      session.post('/v2/deployments', { ...NewDeployment.meta()!.example!, name: `n${unusedId()}` }, inside())
    expect((await create()).status).toBe(201)
    await tenant.patch(`/workspaces/current/members/${id}`, { role_id: VIEWER })
    expect((await create()).body.code).toBe('permission_missing')
    await tenant.delete(`/workspaces/current/members/${id}`)
    expect((await session.get('/v2/deployments', inside())).body.code).toBe('permission_missing')
  })

  it('cannot change commands without the permission to', async () => {
    const permissions = ['deployments:create', 'deployments:read', 'deployments:update']
    const role = await tenant.owner.post('/orgs/current/roles', { display_name: unusedId(), permissions })
    const example = NewDeployment.meta()!.example as { source_config: object }
    const body = {
      ...example,
      name: `n${unusedId()}`,
      source_config: { ...example.source_config, build_command: 'curl evil' },
    }
    const outcomes = []
    for (const workspaceRole of [role.body.id, EDITOR]) {
      const session = await newSession(tenant, { workspaceRole })
      outcomes.push((await session.post('/v2/deployments', body, inside())).body.code)
    }
    expect(outcomes).toEqual(['permission_missing', undefined])
  })

  it('grants no permission that it does not have, and creates keys with its own role', async () => {
    const session = await newSession(tenant, { workspaceRole: ADMIN })
    const create = (body: object) =>
      session.post('/workspaces/current/api-keys', { description: 'x', ...body }, inside())
    const made = await create({})
    expect(made.body).toMatchObject({ role_id: ADMIN, permissions: null, created_by: null })
    expect((await send('GET', '/v2/deployments', { headers: { 'X-Api-Key': made.body.key } })).status).toBe(200)
    const role = { display_name: unusedId(), permissions: ['api-keys:create'] }
    const narrow = await newSession(tenant, {
      workspaceRole: (await tenant.owner.post('/orgs/current/roles', role)).body.id,
    })
    const exceeding = { description: 'x', role_id: ADMIN }
    expect((await narrow.post('/workspaces/current/api-keys', exceeding, inside())).body.code).toBe(
      'role_exceeds_actor',
    )
  })

  it('repeats a write under its idempotency key, and another session of the member does not', async () => {
    const session = await newSession(tenant, { workspaceRole: ADMIN })
    const headers = { ...inside(), 'Idempotency-Key': 'once' }
    const create = () => session.post('/workspaces/current/api-keys', { description: 'once' }, headers)
    const first = await create()
    const again = await create()
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    expect(again.body).toEqual(first.body)
  })

  it('spends one budget with all its sessions and the keys that it creates', async () => {
    const app = startApp({ settings: { RATE_LIMIT_PER_MINUTE: '5' } })
    const { token } = await newSession(tenant, { workspaceRole: ADMIN })
    const session = asSession(token, app)
    const statuses = []
    for (let i = 0; i < 6; i++) statuses.push((await session.get('/v2/me')).status)
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429])
  })
})
