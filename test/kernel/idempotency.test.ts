import { sql } from 'drizzle-orm'
import { afterEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { sweepExpiredRows } from '../../src/kernel/db/sweep.ts'
import { clock, getApp, logLines, newTenant } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'

const DAY = 86_400_000
const withKey = (key: string) => ({ 'Idempotency-Key': key })

afterEach(() => {
  clock.ahead = 0
})

describe('an idempotency key', () => {
  it('gives a repeated request the response of the first one, marked as a replay', async () => {
    const { owner } = await newTenant()
    const first = await owner.post('/workspaces', { display_name: 'One' }, withKey('a'))
    const again = await owner.post('/workspaces', { display_name: 'One' }, withKey('a'))
    expect([first.status, again.status]).toEqual([201, 201])
    expect(again.text).toBe(first.text)
    expect(first.headers.get('Idempotency-Replayed')).toBeNull()
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    expect(again.headers.get('Location')).toBe(first.headers.get('Location'))
    expect((await owner.get('/workspaces')).body.resources).toHaveLength(2)
  })

  it('replays the original response of a PATCH, even if the resource has changed since', async () => {
    const tenant = await newTenant()
    const path = `/workspaces/${tenant.tenant_id}`
    const first = await tenant.patch(path, { display_name: 'One' }, withKey('a'))
    await tenant.patch(path, { display_name: 'Two' })
    const again = await tenant.patch(path, { display_name: 'One' }, withKey('a'))
    expect([again.text, again.headers.get('ETag')]).toEqual([first.text, first.headers.get('ETag')])
    expect((await tenant.get(path)).body.display_name).toBe('Two')
  })

  it('replays a new API key to its creator, and the stored response has it only sealed', async () => {
    const tenant = await newTenant()
    const first = await tenant.post('/workspaces/current/api-keys', { description: 'x' }, withKey('a'))
    const again = await tenant.post('/workspaces/current/api-keys', { description: 'x' }, withKey('a'))
    expect(again.body.key).toBe(first.body.key)
    const query = sql`select result from idempotency_keys where result::text like ${`%${first.body.id}%`}`
    const [[[stored]]] = (await runAsSystem(getApp().database, query)) as [[[string]]]
    expect(stored).not.toContain(first.body.key.slice(4, 20))
    expect(JSON.stringify(logLines)).not.toContain(first.body.key.slice(4, 20))
  })

  it('is refused for a request with another body, query, path or workspace', async () => {
    const { owner, tenant_id, post } = await newTenant()
    const deployment = makeImageBody()
    await owner.post('/workspaces', { display_name: 'One' }, withKey('a'))
    await post('/v2/deployments', deployment, withKey('b'))
    for (const refused of [
      await owner.post('/workspaces', { display_name: 'Two' }, withKey('a')),
      await post('/v2/deployments?x=1', deployment, withKey('b')),
      await owner.post('/workspaces', { display_name: 'One' }, { ...withKey('a'), 'X-Tenant-Id': tenant_id }),
      await owner.patch('/orgs/current', { display_name: 'One' }, withKey('a')),
    ]) {
      expect([refused.status, refused.body.code]).toEqual([422, 'idempotency_key_reused'])
    }
  })

  it('from one caller does not affect another caller', async () => {
    const [first, second] = await Promise.all([newTenant(), newTenant()])
    await first.owner.post('/workspaces', { display_name: 'One' }, withKey('same'))
    const created = await second.owner.post('/workspaces', { display_name: 'Else' }, withKey('same'))
    expect([created.status, created.headers.get('Idempotency-Replayed')]).toEqual([201, null])
  })

  it('does not replay a refusal: the repeated request is executed', async () => {
    const { owner } = await newTenant()
    await owner.post('/workspaces', { display_name: 'Taken' })
    expect((await owner.post('/workspaces', { display_name: 'Taken' }, withKey('a'))).status).toBe(409)
    expect((await owner.post('/workspaces', { display_name: 'Free' }, withKey('a'))).status).toBe(201)
  })

  it('can be used for another request after a day, and the sweep keeps the new response', async () => {
    const { owner } = await newTenant()
    const first = await owner.post('/orgs/current/members', { email: 'a@example.com' }, withKey('a'))
    clock.ahead = DAY + 60_000
    const later = await owner.post('/orgs/current/members', { email: 'b@example.com' }, withKey('a'))
    expect([later.status, later.headers.get('Idempotency-Replayed')]).toEqual([201, null])
    expect(later.body.id).not.toBe(first.body.id)
    await sweepExpiredRows(getApp())
    expect(
      (await owner.post('/orgs/current/members', { email: 'b@example.com' }, withKey('a'))).headers.get(
        'Idempotency-Replayed',
      ),
    ).toBe('true')
  })

  it('is ignored by DELETE', async () => {
    const { owner } = await newTenant()
    const { id } = (await owner.post('/workspaces', { display_name: 'Short' })).body
    expect((await owner.delete(`/workspaces/${id}`, undefined, withKey('a'))).status).toBe(204)
    expect((await owner.delete(`/workspaces/${id}`, undefined, withKey('a'))).status).toBe(404)
  })

  it.each(['', ' ', 'ü', 'a b', 'x'.repeat(256)])('is refused when it is %j', async key => {
    const { owner } = await newTenant()
    const refused = await owner.post('/workspaces', { display_name: 'X' }, withKey(key))
    expect([refused.status, refused.body.errors[0].loc]).toEqual([422, ['header', 'Idempotency-Key']])
  })

  it('executes one of many parallel requests; the others get a replay or a conflict', async () => {
    const { owner } = await newTenant()
    for (let round = 0; round < 5; round++) {
      const replies = await Promise.all(
        Array.from({ length: 20 }, () =>
          owner.post('/workspaces', { display_name: `Race ${round}` }, withKey(`race-${round}`)),
        ),
      )
      const created = replies.filter(reply => reply.status === 201)
      const conflicts = replies.filter(reply => reply.body.code === 'idempotency_in_flight')
      expect(created.length).toBeGreaterThan(0)
      expect(created.length + conflicts.length).toBe(20)
      expect(new Set(created.map(reply => reply.text)).size).toBe(1)
      expect(created.filter(reply => !reply.headers.get('Idempotency-Replayed'))).toHaveLength(1)
      for (const { status, headers } of conflicts) expect([status, headers.get('Retry-After')]).toEqual([409, '1'])
    }
    expect((await owner.get('/workspaces')).body.resources).toHaveLength(6)
  })
})
