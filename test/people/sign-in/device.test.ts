// The device authorization grant: what a program asks, what a person decides, and the keys that come of it.
import { sql } from 'drizzle-orm'
import * as oauth from 'oauth4webapi'
import { beforeAll, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { newDeviceCode } from '../../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { ADMIN, EDITOR, ORGANIZATION_ADMIN, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { GRANT_TYPE } from '../../../src/people/sign-in/device.ts'
import {
  type App,
  getApp,
  newTenant,
  type Reply,
  readEvents,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import { asSession, newSession, tokenOf } from '../../support/sessions.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

const sendForm = (
  path: string,
  fields: Record<string, string> | [string, string][],
  options: { headers?: Record<string, string>; app?: App } = {},
) =>
  send('POST', path, {
    ...options,
    raw: new TextEncoder().encode(String(new URLSearchParams(fields))),
    headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...options.headers },
  })
const requestDevice = async (fields: Record<string, string> = {}, headers: Record<string, string> = {}) =>
  (await sendForm('/device/code', { client_id: 'slipway-cli', device_name: 'laptop', ...fields }, { headers })).body
const poll = (device_code: string, headers: Record<string, string> = {}) =>
  sendForm('/device/token', { grant_type: GRANT_TYPE, client_id: 'slipway-cli', device_code }, { headers })
const errorOf = ({ status, body }: Reply) => [status, body.error]

type Session = Pick<Awaited<ReturnType<typeof newSession>>, 'get' | 'post'>
const pathOf = (user_code: string, what = '') => `/v2/me/device-requests/${user_code}${what}`
const approve = (session: Session, user_code: string, body: object = {}) =>
  session.post(pathOf(user_code, '/approval'), { workspace_id: tenant.tenant_id, access: 'all', ...body })
const codeOf = ({ status, body }: Reply) => [status, body?.code]

/** A key that this person has approved. */
async function newBoundKey(session: Session, body: object = {}) {
  const { device_code, user_code } = await requestDevice()
  expect((await approve(session, user_code, body)).status).toBe(204)
  const { body: token } = await poll(device_code)
  return { ...tenant.as(token.access_token), token }
}
const newEditor = () => newSession(tenant, { workspaceRole: EDITOR })

describe('a device that asks for a key', () => {
  it('gets the key of the person who approves it, once', async () => {
    const session = await newEditor()
    const { device_code, user_code, ...given } = await requestDevice({}, { 'User-Agent': 'slipway-cli node/26' })
    expect(user_code).toMatch(/^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/)
    const verification_uri = 'http://slipway.test/device'
    const verification_uri_complete = `${verification_uri}?user_code=${user_code}`
    expect(given).toEqual({ verification_uri, verification_uri_complete, expires_in: 600, interval: 5 })
    expect(errorOf(await poll(device_code))).toEqual([400, 'authorization_pending'])

    // People type lower case and spaces.
    const { body: seen } = await session.get(pathOf(user_code.toLowerCase().replace('-', ' ')))
    expect(seen).toMatchObject({ user_code, device_name: 'laptop', user_agent: 'slipway-cli node/26' })
    const [workspace] = seen.workspaces
    expect(workspace).toMatchObject({ id: tenant.tenant_id, all: expect.arrayContaining(['deployments:create']) })
    expect(workspace.read).not.toContain('deployments:create')

    const approval = await approve(session, user_code)
    const [decided] = await readEvents(approval.headers.get('X-Request-Id')!)
    expect(decided).toMatchObject({ type: 'device.approved', actor_id: session.member_id })
    // The device may have another address by now.
    const reply = await poll(device_code, { 'X-Forwarded-For': '198.51.100.7' })
    const { access_token, scope, api_key_id, ...token } = reply.body
    expect(token).toEqual({
      token_type: 'Bearer',
      expires_in: 90 * 24 * 60 * 60,
      workspace_id: tenant.tenant_id,
      organization_id: tenant.organization_id,
    })
    expect(scope.split(' ').sort()).toEqual(workspace.all)
    expect(reply.headers.get('Cache-Control')).toBe('no-store')
    expect((await readEvents(reply.headers.get('X-Request-Id')!))[0]).toMatchObject({
      type: 'api_key.created',
      subject_id: api_key_id,
      tenant_id: tenant.tenant_id,
      actor_kind: 'session',
      actor_id: session.member_id,
    })
    const { body: me } = await tenant.as(access_token).get('/v2/me')
    const member = { id: session.member_id, email: `${session.member_id}@example.com` }
    expect(me).toMatchObject({ member: null, api_key: { id: api_key_id, member }, permissions: workspace.all })
    expect((await tenant.get(`/workspaces/current/api-keys/${api_key_id}`)).body.member).toEqual(member)
    expect(errorOf(await poll(device_code))).toEqual([400, 'invalid_grant'])
  })

  it('gets no key if the person denies it', async () => {
    const session = await newEditor()
    const { device_code, user_code } = await requestDevice()
    const denial = await session.post(pathOf(user_code, '/denial'))
    expect(denial.status).toBe(204)
    expect((await readEvents(denial.headers.get('X-Request-Id')!))[0]).toMatchObject({ type: 'device.denied' })
    for (let i = 0; i < 2; i++) expect(errorOf(await poll(device_code))).toEqual([400, 'access_denied'])
    expect(codeOf(await approve(session, user_code))).toEqual([404, 'device_request_not_found'])
  })

  it('gets no key after ten minutes, even if the person has approved it', async () => {
    const session = await newEditor()
    const [early, late] = [await requestDevice(), await requestDevice()]
    await approve(session, early.user_code)
    await withClockAhead(10.1 * MINUTE_MS, async () => {
      expect(errorOf(await poll(early.device_code))).toEqual([400, 'expired_token'])
      expect(codeOf(await approve(session, late.user_code))).toEqual([404, 'device_request_not_found'])
    })
    await withClockAhead(21 * MINUTE_MS, async () => {
      await getApp().housekeep()
      expect(errorOf(await poll(early.device_code))).toEqual([400, 'invalid_grant'])
    })
  })

  it('gets one key of 50 polls at the same time, each in one round trip', async () => {
    const session = await newEditor()
    const { device_code, user_code } = await requestDevice()
    await approve(session, user_code)
    const requestId = `trip-poll-${unusedId()}`
    const replies = await Promise.all(
      Array.from({ length: 50 }, () => poll(device_code, { 'X-Request-Id': requestId })),
    )
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(new Set(replies.map(({ body }) => body.error))).toEqual(new Set([undefined, 'invalid_grant']))
    expect(await countTrips(requestId)).toBe(50)
    const keys = await tenant.get('/workspaces/current/api-keys?limit=100')
    const own = keys.body.resources.filter((key: { member: { id: string } }) => key.member?.id === session.member_id)
    expect(own).toHaveLength(1)
  })

  it('has to slow down by five seconds each time it polls too soon', async () => {
    const { device_code } = await requestDevice()
    const outcomes: [seconds: number, error: string][] = [
      [0, 'authorization_pending'],
      [5, 'authorization_pending'],
      [8, 'slow_down'],
      [15, 'slow_down'],
      [30, 'authorization_pending'],
      [45, 'authorization_pending'],
    ]
    for (const [seconds, error] of outcomes)
      expect([seconds, (await withClockAhead(seconds * 1000, () => poll(device_code))).body.error]).toEqual([
        seconds,
        error,
      ])
  })

  it('asks for at most the permissions of its scope', async () => {
    const session = await newEditor()
    const { device_code, user_code } = await requestDevice({ scope: 'deployments:read secrets:read' })
    await approve(session, user_code)
    expect((await poll(device_code)).body.scope).toBe('deployments:read')
  })

  it.each<[string, string, Record<string, string> | [string, string][], string]>([
    ['an unknown client', '/device/code', { client_id: 'other' }, 'invalid_client'],
    ['no client', '/device/code', {}, 'invalid_request'],
    ['an unknown scope', '/device/code', { client_id: 'slipway-cli', scope: 'all' }, 'invalid_scope'],
    [
      'a name that reorders the text',
      '/device/code',
      { client_id: 'slipway-cli', device_name: 'a\u202eb' },
      'invalid_request',
    ],
    [
      'a name that cannot be seen',
      '/device/code',
      { client_id: 'slipway-cli', device_name: '\u3164' },
      'invalid_request',
    ],
    ['a name with NUL', '/device/code', { client_id: 'slipway-cli', device_name: 'a\0' }, 'invalid_request'],
    [
      'a client given twice',
      '/device/code',
      [
        ['client_id', 'slipway-cli'],
        ['client_id', 'slipway-cli'],
      ],
      'invalid_request',
    ],
    [
      'another grant',
      '/device/token',
      { client_id: 'slipway-cli', device_code: newDeviceCode(), grant_type: 'password' },
      'unsupported_grant_type',
    ],
    [
      'a code that was never issued',
      '/device/token',
      { client_id: 'slipway-cli', device_code: newDeviceCode(), grant_type: GRANT_TYPE },
      'invalid_grant',
    ],
    [
      'a mistyped code',
      '/device/token',
      { client_id: 'slipway-cli', device_code: 'x', grant_type: GRANT_TYPE },
      'invalid_grant',
    ],
  ])('is refused with %s', async (_, path, fields, error) => {
    const reply = await sendForm(path, fields)
    expect(errorOf(reply)).toEqual([400, error])
    expect(reply.headers.get('Cache-Control')).toBe('no-store')
  })

  it('is refused with a body that is no form', async () => {
    expect(errorOf(await send('POST', '/device/code', { body: { client_id: 'slipway-cli' } }))).toEqual([
      400,
      'invalid_request',
    ])
  })

  it('is limited by its address', async () => {
    const overrides = { clientAddress: () => '192.0.2.1' }
    const app = startApp({ settings: { UNKNOWN_KEYS_PER_MINUTE: '2' }, overrides })
    const ask = () => sendForm('/device/code', { client_id: 'slipway-cli' }, { app })
    const { device_code } = (await ask()).body
    const token = { grant_type: GRANT_TYPE, client_id: 'slipway-cli', device_code: newDeviceCode() }
    const guess = () => sendForm('/device/token', token, { app })
    for (const act of [ask, guess]) {
      const statuses = [await act(), await act(), await act()].map(({ status }) => status)
      expect(statuses).toEqual(act === ask ? [200, 429, 429] : [400, 400, 429])
    }
    const pollOften = () => sendForm('/device/token', { ...token, device_code }, { app })
    const answers: unknown[] = []
    // Failures are counted after the response, by the clock of that moment.
    await finishPendingWork()
    await withClockAhead(2 * MINUTE_MS, async () => {
      for (let i = 0; i < 5; i++) answers.push(errorOf(await pollOften()))
    })
    expect(answers).toEqual([
      [400, 'authorization_pending'],
      ...Array.from({ length: 2 }, () => [400, 'slow_down']),
      ...Array.from({ length: 2 }, () => [429, 'slow_down']),
    ])
  })
})

it('one network cannot use up the sign-ins of devices of all others', async () => {
  let clientAddress = '2001:db8:7::1'
  const app = startApp({ overrides: { clientAddress: () => clientAddress } })
  const ask = async () => (await sendForm('/device/code', { client_id: 'slipway-cli' }, { app })).status
  expect(await ask()).toBe(200)
  await runAsSystem(
    app.database,
    sql`
      insert into device_requests (device_code_hash, user_code, client_network)
      select 'hash ' || n, 'code ' || n, (select max(client_network) from device_requests)
      from generate_series(1, 99) n`,
  )
  clientAddress = '2001:db8:7:ffff::1'
  expect(await ask()).toBe(503)
  await withClockAhead(11 * MINUTE_MS, async () => expect(await ask()).toBe(200))
  clientAddress = '2001:db8:8::1'
  expect(await ask()).toBe(200)
})

describe('the decision about a device', () => {
  it('is made once, by one of two people', async () => {
    const [first, second] = [await newEditor(), await newEditor()]
    const { device_code, user_code } = await requestDevice()
    const statuses = (await Promise.all([first, second].map(one => approve(one, user_code)))).map(r => r.status)
    expect(statuses.toSorted()).toEqual([204, 404])
    const winner = statuses[0] === 204 ? first : second
    expect(codeOf(await approve(winner, user_code))).toEqual([404, 'device_request_not_found'])
    expect(codeOf(await first.get(pathOf(user_code)))).toEqual([404, 'device_request_not_found'])
    const { access_token } = (await poll(device_code)).body
    expect((await tenant.as(access_token).get('/v2/me')).body.api_key.member.id).toBe(winner.member_id)
  })

  it('is refused to keys, and to sessions of keys', async () => {
    const { device_code, user_code } = await requestDevice()
    const opened = await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': tenant.key } })
    for (const caller of [tenant, tenant.owner, asSession(tokenOf(opened)!)]) {
      expect(codeOf(await caller.get(pathOf(user_code)))).toEqual([403, 'member_required'])
      expect(codeOf(await approve(caller, user_code))).toEqual([403, 'member_required'])
      expect(codeOf(await caller.post(pathOf(user_code, '/denial')))).toEqual([403, 'member_required'])
    }
    expect(errorOf(await poll(device_code))).toEqual([400, 'authorization_pending'])
  })

  it.each(['cross-site', 'same-site', 'none'])('is refused to a page whose request is %s', async site => {
    const session = await newEditor()
    const { user_code } = await requestDevice()
    const body = { workspace_id: tenant.tenant_id, access: 'all' }
    const reply = await session.post(pathOf(user_code, '/approval'), body, { 'Sec-Fetch-Site': site })
    expect(codeOf(reply)).toEqual([401, 'key_missing'])
  })

  it('names a workspace in which the person has permissions', async () => {
    const other = await newTenant()
    const outsider = await newSession(tenant)
    const { user_code } = await requestDevice()
    expect((await outsider.get(pathOf(user_code))).body.workspaces).toEqual([])
    expect(codeOf(await approve(outsider, user_code))).toEqual([403, 'workspace_forbidden'])
    const workspace_id = other.tenant_id
    expect(codeOf(await approve(await newEditor(), user_code, { workspace_id }))).toEqual([403, 'workspace_forbidden'])
  })

  it('has a limit of codes that one person can try', async () => {
    const session = await newEditor()
    const { user_code } = await requestDevice()
    for (let i = 0; i < 20; i++) expect((await session.get(pathOf('BBBB-BBBB'))).status).toBe(404)
    const limited = await session.get(pathOf(user_code))
    expect(codeOf(limited)).toEqual([429, 'rate_limited'])
    expect(Number(limited.headers.get('Retry-After'))).toBeGreaterThan(0)
    expect((await (await newEditor()).get(pathOf(user_code))).status).toBe(200)
    await withClockAhead(1.1 * MINUTE_MS, async () => expect((await session.get(pathOf(user_code))).status).toBe(200))
  })
})

describe('a key that belongs to a member', () => {
  const canCreate = async ({ post }: Pick<Tenant, 'post'>) =>
    codeOf(await post('/v2/tag-keys', { key: `key-${unusedId()}` }))
  const changeRole = async ({ member_id }: { member_id: string }, role_id: string) => {
    const { resources } = (await tenant.get('/workspaces/current/members?limit=100')).body
    const membership = resources.find((one: { member_id: string }) => one.member_id === member_id)
    expect((await tenant.patch(`/workspaces/current/members/${membership.id}`, { role_id })).status).toBe(200)
    return membership.id as string
  }

  it('has the permissions that the person chose, and never more than the person has now', async () => {
    const session = await newEditor()
    const [all, read] = [await newBoundKey(session), await newBoundKey(session, { access: 'read' })]
    expect([await canCreate(all), await canCreate(read)]).toEqual([
      [201, undefined],
      [403, 'permission_missing'],
    ])
    await changeRole(session, VIEWER)
    expect(await canCreate(all)).toEqual([403, 'permission_missing'])
    expect((await all.get('/v2/deployments')).status).toBe(200)
    // A device gains no more than was granted.
    await changeRole(session, ADMIN)
    expect([await canCreate(all), await canCreate(read)]).toEqual([
      [201, undefined],
      [403, 'permission_missing'],
    ])
    expect(codeOf(await all.get('/workspaces/current/api-keys'))).toEqual([403, 'permission_missing'])
  })

  it('is of one workspace, also if the person is Admin of the organization', async () => {
    const key = await newBoundKey(await newSession(tenant, { organizationRole: ORGANIZATION_ADMIN }))
    const sibling = (await tenant.owner.post('/workspaces', { display_name: 'Sibling' })).body.id
    expect(codeOf(await key.get('/v2/deployments', { 'X-Tenant-Id': sibling }))).toEqual([403, 'workspace_forbidden'])
    expect(codeOf(await key.get('/orgs/current/api-keys'))).toEqual([403, 'permission_missing'])
    expect(await canCreate(key)).toEqual([201, undefined])
  })

  it('is dead, with its session and the keys made with it, once the person has left the workspace', async () => {
    const session = await newSession(tenant, { workspaceRole: ADMIN })
    const key = await newBoundKey(session)
    const child = (await key.post('/workspaces/current/api-keys', { description: 'child' })).body
    expect(child.member.id).toBe(session.member_id)
    const opened = await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': key.key } })
    const callers = [key, tenant.as(child.key), asSession(tokenOf(opened)!)]
    for (const caller of callers) expect((await caller.get('/v2/deployments')).status).toBe(200)
    const membership = await changeRole(session, VIEWER)
    for (const caller of callers) expect(await canCreate(caller)).toEqual([403, 'permission_missing'])
    await tenant.delete(`/workspaces/current/members/${membership}`)
    for (const caller of callers) {
      expect(codeOf(await caller.get('/v2/deployments'))).toEqual([401, 'key_revoked'])
      expect(codeOf(await caller.get('/v2/me'))).toEqual([401, 'key_revoked'])
    }
  })

  it('is gone once the person has left the organization, and an approval with it', async () => {
    const session = await newEditor()
    const key = await newBoundKey(session)
    const { device_code, user_code } = await requestDevice()
    await approve(session, user_code)
    await tenant.owner.delete(`/orgs/current/members/${session.member_id}`)
    expect((await key.get('/v2/deployments')).status).toBe(401)
    expect(errorOf(await poll(device_code))).toEqual([400, 'invalid_grant'])
  })

  it('ends when the person who is letting it in is removed, without a deadlock', async () => {
    const rounds = await Promise.all(
      Array.from({ length: 15 }, async () => {
        const session = await newSession(tenant, { workspaceRole: ADMIN })
        const path = `/orgs/current/members/${session.member_id}`
        const token = (await tenant.owner.post(`${path}/sign-in-links`)).body.url.split('#')[1]
        const [key, approved, waiting] = [await newBoundKey(session), await requestDevice(), await requestDevice()]
        await approve(session, approved.user_code)
        return () =>
          Promise.all([
            tenant.owner.delete(path),
            send('POST', '/sign-in/link', { body: { token } }),
            key.post('/workspaces/current/api-keys', { description: 'child' }),
            approve(session, waiting.user_code),
            poll(approved.device_code),
          ])
      }),
    )
    // Each session and key is then marked as used, which locks it.
    const replies = await withClockAhead(2 * MINUTE_MS, () => Promise.all(rounds.map(race => race())))
    for (const [removed, ...others] of replies) {
      expect(removed.status).toBe(204)
      for (const { status } of others) expect([200, 201, 204, 400, 401, 403, 404]).toContain(status)
    }
  })

  it('is not made for a person who has left the workspace since the approval', async () => {
    const session = await newEditor()
    const { device_code, user_code } = await requestDevice()
    await approve(session, user_code)
    await tenant.delete(`/workspaces/current/members/${await changeRole(session, VIEWER)}`)
    expect(errorOf(await poll(device_code))).toEqual([400, 'access_denied'])
  })

  it('is one of at most 100 that a person has in the workspace', async () => {
    const session = await newSession(tenant, { workspaceRole: VIEWER })
    const { token } = await newBoundKey(session)
    await runAsSystem(
      getApp().database,
      sql`
        insert into api_keys
          (organization_id, tenant_id, member_id, description, hint, key_hash, role_id, expires_at)
        select organization_id, tenant_id, member_id, description, hint, key_hash || n, role_id, expires_at
        from api_keys, generate_series(1, 99) n
        where id = ${token.api_key_id}::uuid`,
    )
    const { user_code } = await requestDevice()
    expect(codeOf(await approve(session, user_code))).toEqual([409, 'quota_full'])
  })

  it('expires after 90 days', async () => {
    const key = await newBoundKey(await newEditor())
    await withClockAhead(89.9 * DAY_MS, async () => expect((await key.get('/v2/me')).status).toBe(200))
    await withClockAhead(90.1 * DAY_MS, async () =>
      expect(codeOf(await key.get('/v2/me'))).toEqual([401, 'key_expired']),
    )
  })

  it('creates keys within its own permissions', async () => {
    const session = await newSession(tenant, { workspaceRole: ADMIN })
    const key = await newBoundKey(session)
    const role = { display_name: unusedId(), permissions: ['api-keys:create', 'deployments:read'] }
    await changeRole(session, (await tenant.owner.post('/orgs/current/roles', role)).body.id)
    const make = (body: object) => key.post('/workspaces/current/api-keys', { description: 'child', ...body })
    expect((await make({})).body.permissions.toSorted()).toEqual([...role.permissions, 'organization:read'])
    expect(codeOf(await make({ permissions: ['deployments:create'] }))).toEqual([403, 'role_exceeds_actor'])
  })

  it('shares the budget of the person in that workspace', async () => {
    const session = await newSession(tenant, { workspaceRole: ADMIN })
    const keys = [await newBoundKey(session), await newBoundKey(session)]
    const child = (await keys[0]!.post('/workspaces/current/api-keys', { description: 'child' })).body
    const ids = [...keys.map(({ token }) => token.api_key_id), child.id]
    const [rows] = await runAsSystem(
      getApp().database,
      sql`select distinct budget_id from api_keys where id = any(${sql.param(ids)}::uuid[])`,
    )
    expect(rows).toHaveLength(1)
  })

  it('can revoke itself, and no other key can do so without the permission', async () => {
    const key = await newBoundKey(await newEditor())
    const made = (await tenant.post('/workspaces/current/api-keys', { description: 'of the workspace' })).body
    expect(codeOf(await tenant.as(made.key).delete('/v2/me/api-key'))).toEqual([404, 'key_not_found'])
    const reply = await key.delete('/v2/me/api-key')
    expect(reply.status).toBe(204)
    expect((await readEvents(reply.headers.get('X-Request-Id')!))[0]).toMatchObject({ type: 'api_key.revoked' })
    expect(codeOf(await key.get('/v2/me'))).toEqual([401, 'key_revoked'])
  })
})

it('a published client of RFC 8628 gets a key', async () => {
  const session = await newEditor()
  const server = {
    issuer: 'http://slipway.test',
    device_authorization_endpoint: 'http://slipway.test/device/code',
    token_endpoint: 'http://slipway.test/device/token',
  }
  const client = { client_id: 'slipway-cli' }
  const options = {
    [oauth.customFetch]: (url: string, init: object) => Promise.resolve(getApp().fetch(new Request(url, init))),
    [oauth.allowInsecureRequests]: true,
  }
  const askForKey = async (deviceCode: string) =>
    oauth.processDeviceCodeResponse(
      server,
      client,
      await oauth.deviceCodeGrantRequest(server, client, oauth.None(), deviceCode, options),
    )
  const { device_code, user_code } = await oauth.processDeviceAuthorizationResponse(
    server,
    client,
    await oauth.deviceAuthorizationRequest(server, client, oauth.None(), {}, options),
  )
  await expect(askForKey(device_code)).rejects.toMatchObject({ error: 'authorization_pending', status: 400 })
  await approve(session, user_code)
  const { access_token, token_type } = await askForKey(device_code)
  expect(token_type).toBe('bearer')
  const headers = { Authorization: `Bearer ${access_token}` }
  expect((await send('GET', '/v2/me', { headers })).body.api_key.member.id).toBe(session.member_id)
})
