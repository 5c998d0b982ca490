import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { EDITOR } from '../../../src/people/access/built-in-roles.ts'
import { type App, getApp, newTenant, send, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { type OpenStream, openStream, startStreamingApp } from '../../support/live-streams.ts'
import { asSession, cookieHeaders, newSession, tokenOf } from '../../support/sessions.ts'

let app: App
beforeAll(() => {
  app = startStreamingApp()
})

let keyCount = 0
const write = async (tenant: Tenant) => (await tenant.post('/v2/tag-keys', { key: `key-${++keyCount}` })).body
const readNumbers = async (stream: OpenStream, count: number) => {
  const numbers: number[] = []
  while (numbers.length < count) {
    const item = await stream.next()
    if (item === undefined) break
    if (item.event === 'message') numbers.push(Number(item.id))
  }
  return numbers
}
const newKey = async (tenant: Tenant, settings: object = {}) =>
  (await tenant.post('/workspaces/current/api-keys', { description: 'Watcher', ...settings })).body

describe('a stream', () => {
  it('begins with the next new event', async () => {
    const tenant = await newTenant()
    const stream = await openStream(app, tenant, '/v2/events/stream')
    expect(stream.response.headers.get('Content-Type')).toBe('text/event-stream')
    expect(stream.response.headers.get('X-Accel-Buffering')).toBe('no')
    const next = stream.next()
    await write(tenant)
    const { id, event, data } = (await next)!
    expect([id, event]).toEqual(['2', 'message'])
    const [listed] = (await tenant.get('/v2/events?after=1')).body.resources
    expect(JSON.parse(data!)).toEqual(listed)
    await stream.close()
  })

  it('begins after the number in Last-Event-ID, which wins over the query', async () => {
    const tenant = await newTenant()
    for (let i = 0; i < 3; i++) await write(tenant)
    const stream = await openStream(app, tenant, '/v2/events/stream?after=0', { 'Last-Event-ID': '2' })
    expect(await readNumbers(stream, 2)).toEqual([3, 4])
    await stream.close()
    const invalid = await send('GET', '/v2/events/stream', {
      headers: { 'X-Api-Key': tenant.key, 'Last-Event-ID': '2-x' },
    })
    expect([invalid.status, invalid.body.errors[0].loc]).toEqual([422, ['header', 'Last-Event-ID']])
  })

  it('reads a backlog of several pages, then new events', async () => {
    const tenant = await newTenant()
    await runAsSystem(
      getApp().database,
      sql`
        insert into events
          (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
        select ${tenant.tenant_id}::uuid, n, ${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid, 'test.made',
          gen_random_uuid(), 'operator', 'test', '{}'
        from generate_series(2, 1200) n`,
      sql`update journals set seq = 1200 where scope_id = ${tenant.tenant_id}::uuid`,
    )
    const stream = await openStream(app, tenant, '/v2/events/stream?after=0')
    await write(tenant)
    expect(await readNumbers(stream, 1201)).toEqual(Array.from({ length: 1201 }, (_, i) => i + 1))
    await stream.close()
  })

  it('has only the events that match its filters', async () => {
    const tenant = await newTenant()
    const made = await write(tenant)
    const streams = await Promise.all(
      ['type=tag_key.renamed', `subject_id=${made.id}`, 'type=*.created'].map(query =>
        openStream(app, tenant, `/v2/events/stream?after=1&${query}`),
      ),
    )
    await tenant.patch(`/v2/tag-keys/${made.id}`, { key: 'renamed' }, { 'If-Match': '*' })
    await write(tenant)
    const found = [readNumbers(streams[0]!, 1), readNumbers(streams[1]!, 2), readNumbers(streams[2]!, 2)]
    expect(await Promise.all(found)).toEqual([[3], [2, 3], [2, 4]])
    await Promise.all(streams.map(stream => stream.close()))
  })

  it('has one JSON object per line for a client that accepts NDJSON', async () => {
    const tenant = await newTenant()
    const headers = { Accept: 'application/x-ndjson' }
    const stream = await openStream(app, tenant, '/v2/events/stream?after=0', headers)
    expect(stream.response.headers.get('Content-Type')).toBe('application/x-ndjson')
    const { resources } = (await tenant.get('/v2/events')).body
    expect(JSON.parse((await stream.nextLine())!)).toEqual(resources[0])
    await stream.close()
  })

  it('whose cursor is too old begins with a reset, and goes on with the oldest event that is kept', async () => {
    const tenant = await newTenant()
    for (let i = 0; i < 3; i++) await write(tenant)
    await runAsSystem(app.database, sql`delete from events where scope_id = ${tenant.tenant_id}::uuid and seq < 3`)
    const stream = await openStream(app, tenant, '/v2/events/stream?after=0')
    const { id, event, data } = (await stream.next())!
    expect([id, event]).toEqual(['2', 'reset'])
    expect(JSON.parse(data!)).toEqual({ reason: 'expired', after: 0, oldest: 3, newest: 4 })
    expect(await readNumbers(stream, 2)).toEqual([3, 4])
    await stream.close()
    const lines = await openStream(app, tenant, '/v2/events/stream?after=9', { Accept: 'application/x-ndjson' })
    expect(JSON.parse((await lines.nextLine())!)).toEqual({
      reset: { reason: 'unknown', after: 9, oldest: 3, newest: 4 },
    })
    await lines.close()
  })

  it('that has lasted long enough ends, with its cursor and the time to come back', async () => {
    const tenant = await newTenant()
    const stream = await openStream(getApp(), tenant, '/v2/events/stream')
    expect(await stream.next()).toEqual({ id: '1', retry: expect.stringMatching(/^\d+$/) })
    expect(await stream.next()).toBeUndefined()
    const lines = await openStream(getApp(), tenant, '/v2/events/stream', { Accept: 'application/x-ndjson' })
    expect(JSON.parse((await lines.nextLine())!)).toEqual({ cursor: '1' })
    expect(JSON.parse((await lines.nextLine())!)).toEqual({ end: { cursor: '1', retry_ms: expect.any(Number) } })
  })

  it('ends after as many round trips as the platform allows', async () => {
    const tenant = await newTenant()
    const stream = await openStream(startStreamingApp({ trips: 5 }), tenant, '/v2/events/stream')
    expect(await stream.next()).toMatchObject({ id: '1', retry: expect.any(String) })
  })
})

const readError = async (stream: OpenStream) => {
  for (let item = await stream.next(); item; item = await stream.next())
    if (item.event === 'error') return JSON.parse(item.data!).code
}

describe('a stream ends with an error', () => {
  it('when its key is revoked, expires or loses the permission', async () => {
    const tenant = await newTenant()
    const role = await tenant.owner.post('/orgs/current/roles', {
      display_name: 'Watcher',
      permissions: ['events:read'],
    })
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    const revoked = await newKey(tenant)
    const expired = await newKey(tenant, { expires_at })
    const demoted = await newKey(tenant, { role_id: role.body.id })
    const [untouched, ...streams] = await Promise.all(
      [tenant, revoked, expired, demoted].map(key => openStream(app, key, '/v2/events/stream')),
    )
    const errors = Promise.all(streams.map(readError))
    const next = untouched!.next()
    await tenant.delete(`/workspaces/current/api-keys/${revoked.id}`)
    await tenant.owner.patch(
      `/orgs/current/roles/${role.body.id}`,
      { permissions: ['deployments:read'] },
      { 'If-Match': '*' },
    )
    await withClockAhead(7_200_000, async () =>
      expect(await errors).toEqual(['key_revoked', 'key_expired', 'permission_missing']),
    )
    expect((await next)!.event).toBe('message')
    await untouched!.close()
  })

  it('when the key that made the look is the one that is revoked', async () => {
    const tenant = await newTenant()
    const key = await newKey(tenant)
    const stream = await openStream(app, key, '/v2/events/stream')
    const error = readError(stream)
    await tenant.delete(`/workspaces/current/api-keys/${key.id}`)
    expect(await error).toBe('key_revoked')
  })
})

describe('a session', () => {
  const membershipOf = async (tenant: Tenant, member_id: string | undefined) => {
    const { body } = await tenant.get('/workspaces/current/members?limit=100')
    return body.resources.find((one: { member_id: string }) => one.member_id === member_id).id
  }
  type Session = ReturnType<typeof asSession> & { member_id?: string; key_id?: string }
  const endings: [string, string, (tenant: Tenant, session: Session) => Promise<unknown>][] = [
    ['its person signs out', 'session_ended', (_, session) => session.delete('/v2/me/sessions/current')],
    [
      'its person is removed from the organization',
      'session_ended',
      ({ owner }, { member_id }) => owner.delete(`/orgs/current/members/${member_id}`),
    ],
    [
      'its person is removed from the workspace',
      'permission_missing',
      async (tenant, { member_id }) =>
        tenant.delete(`/workspaces/current/members/${await membershipOf(tenant, member_id)}`),
    ],
    [
      'its person gets a role without the permission',
      'permission_missing',
      async (tenant, { member_id }) => {
        const role = { display_name: 'Blind', permissions: ['deployments:read'] }
        const role_id = (await tenant.owner.post('/orgs/current/roles', role)).body.id
        return tenant.patch(`/workspaces/current/members/${await membershipOf(tenant, member_id)}`, { role_id })
      },
    ],
    [
      'its key is revoked',
      'key_revoked',
      async (tenant, { key_id }) => tenant.delete(`/workspaces/current/api-keys/${key_id}`),
    ],
  ]
  const newKeySession = async (tenant: Tenant) => {
    const { id, key } = await newKey(tenant)
    const token = tokenOf(await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': key } }))!
    return { key_id: id, ...asSession(token) }
  }
  const openAs = (tenant: Tenant, token: string) =>
    openStream(app, {}, '/v2/events/stream', { ...cookieHeaders(token), 'X-Tenant-Id': tenant.tenant_id })

  it.each(endings)('that follows events is told when %s', async (_, code, end) => {
    const tenant = await newTenant()
    const session: Session =
      code === 'key_revoked' ? await newKeySession(tenant) : await newSession(tenant, { workspaceRole: EDITOR })
    const witness = await openStream(app, tenant, '/v2/events/stream')
    // The first to wait makes the look: one session is refused by its own look, the other by the check of all.
    const streams = [await openAs(tenant, session.token), await openAs(tenant, session.token)]
    const errors = Promise.all(streams.map(readError))
    const next = witness.next()
    const ended = await end(tenant, session)
    expect((ended as { status: number }).status).toBeLessThan(300)
    expect(await errors).toEqual([code, code])
    await write(tenant)
    expect((await next)!.event).toBe('message')
    await witness.close()
  })

  it.each([
    ['gets a role without the permission', 'permission_missing'],
    ['is removed from the workspace', 'key_revoked'],
  ])('by a key of a person ends with the refusal of the key when the person %s', async (_, code) => {
    const tenant = await newTenant()
    const { member_id } = await newSession(tenant, { workspaceRole: EDITOR })
    const key = await newKey(tenant)
    const binding = sql`update api_keys set member_id = ${member_id}::uuid where id = ${key.id}::uuid`
    await runAsSystem(app.database, binding)
    const token = tokenOf(await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': key.key } }))!
    const streams = [await openStream(app, key, '/v2/events/stream'), await openAs(tenant, token)]
    const errors = Promise.all(streams.map(readError))
    const path = `/workspaces/current/members/${await membershipOf(tenant, member_id)}`
    const role = { display_name: unusedId(), permissions: ['deployments:read'] }
    if (code === 'key_revoked') await tenant.delete(path)
    else await tenant.patch(path, { role_id: (await tenant.owner.post('/orgs/current/roles', role)).body.id })
    expect(await errors).toEqual([code, code])
  })

  it('that follows events is told when its time is over', async () => {
    const tenant = await newTenant()
    const { token } = await newSession(tenant, { workspaceRole: EDITOR })
    const error = readError(await openAs(tenant, token))
    await withClockAhead(31 * 24 * 3_600_000, async () => expect(await error).toBe('session_ended'))
  })

  it('is read from the cookie of a page of this installation only', async () => {
    const tenant = await newTenant()
    const { token } = await newSession(tenant, { workspaceRole: EDITOR })
    const { Cookie = '' } = cookieHeaders(token)
    for (const site of ['cross-site', 'same-site', 'none', undefined])
      for (const path of [
        '/v2/events/stream',
        '/v2/events?after=0&wait=1',
        `/v2/deployments/${tenant.tenant_id}/logs/stream`,
      ]) {
        const headers = { Cookie, 'X-Tenant-Id': tenant.tenant_id, ...(site && { 'Sec-Fetch-Site': site }) }
        expect((await send('GET', path, { headers, app })).body.code, `${path} ${site}`).toBe('key_missing')
      }
  })

  it('names its person in the events that others follow', async () => {
    const tenant = await newTenant()
    const session = await newSession(tenant, { workspaceRole: EDITOR })
    const stream = await openStream(app, tenant, '/v2/events/stream')
    await session.post('/v2/tag-keys', { key: 'team' }, { 'X-Tenant-Id': tenant.tenant_id })
    expect(JSON.parse((await stream.next())!.data!).actor).toEqual({
      kind: 'session',
      id: session.member_id,
      name: `${session.member_id}@example.com`,
    })
    await stream.close()
  })
})

it('a key with too many streams is refused, until one of them ends', async () => {
  const limited = startStreamingApp({ perKey: 2 })
  const tenant = await newTenant()
  const open = () => openStream(limited, tenant, '/v2/events/stream')
  const streams = [await open(), await open()]
  const refused = await open()
  expect([refused.response.status, refused.response.headers.get('Retry-After')]).toEqual([429, '10'])
  expect((await openStream(limited, tenant, '/v2/events?wait=1&after=0')).response.status).toBe(429)
  await streams[0]!.close()
  expect((await open()).response.status).toBe(200)
  await streams[1]!.close()
})

it('a page that waits answers with the next event that matches, or without any when the time is over', async () => {
  const tenant = await newTenant()
  const waiting = send('GET', '/v2/events?after=1&wait=30&type=tag_key.renamed', {
    headers: { 'X-Api-Key': tenant.key },
    app,
  })
  const made = await write(tenant)
  await tenant.patch(`/v2/tag-keys/${made.id}`, { key: 'renamed' }, { 'If-Match': '*' })
  const { body } = await waiting
  expect([body.resources.map(({ number }: { number: number }) => number), body.next_after]).toEqual([[3], 3])
  const over = await tenant.get('/v2/events?after=3&wait=30')
  expect(over.body).toEqual({ resources: [], next_after: 3, has_more: false })
})
