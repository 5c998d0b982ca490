import { sql } from 'drizzle-orm'
import { afterEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { sweepExpiredRows } from '../../src/kernel/sweep.ts'
import { clock, getApp, logLines, newTenant } from '../support/app.ts'

const DAY = 86_400_000
const once = (key: string) => ({ 'Idempotency-Key': key })

afterEach(() => {
  clock.ahead = 0
})

describe('an idempotency key', () => {
  it('makes a repeated request return the same response, marked as a replay', async () => {
    const { owner } = await newTenant()
    const first = await owner.post('/workspaces', { display_name: 'One' }, once('a'))
    const again = await owner.post('/workspaces', { display_name: 'One' }, once('a'))
    expect([first.status, again.status]).toEqual([201, 201])
    expect(again.text).toBe(first.text)
    expect(first.headers.get('Idempotency-Replayed')).toBeNull()
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    expect(again.headers.get('Location')).toBe(first.headers.get('Location'))
    expect((await owner.get('/workspaces')).body.resources).toHaveLength(2)
  })

  it('replays the response of a PATCH as it was, whatever has changed since', async () => {
    const tenant = await newTenant()
    const path = `/workspaces/${tenant.tenant_id}`
    const first = await tenant.patch(path, { display_name: 'One' }, once('a'))
    await tenant.patch(path, { display_name: 'Two' })
    const again = await tenant.patch(path, { display_name: 'One' }, once('a'))
    expect([again.text, again.headers.get('ETag')]).toEqual([first.text, first.headers.get('ETag')])
    expect((await tenant.get(path)).body.display_name).toBe('Two')
  })

  it('returns a new API key to its creator again, and stores it sealed meanwhile', async () => {
    const tenant = await newTenant()
    const first = await tenant.post('/workspaces/current/api-keys', { description: 'x' }, once('a'))
    const again = await tenant.post('/workspaces/current/api-keys', { description: 'x' }, once('a'))
    expect(again.body.key).toBe(first.body.key)
    const query = sql`select result from idempotency_keys where result::text like ${`%${first.body.id}%`}`
    const [[[stored]]] = (await runAsSystem(getApp().database, query)) as [[[string]]]
    expect(stored).not.toContain(first.body.key.slice(4, 20))
    expect(JSON.stringify(logLines)).not.toContain(first.body.key.slice(4, 20))
  })

  it('is refused for another body, path or workspace', async () => {
    const { owner, tenant_id } = await newTenant()
    await owner.post('/workspaces', { display_name: 'One' }, once('a'))
    for (const other of [
      await owner.post('/workspaces', { display_name: 'Two' }, once('a')),
      await owner.post('/workspaces?x=1', { display_name: 'One' }, once('a')),
      await owner.post('/workspaces', { display_name: 'One' }, { ...once('a'), 'X-Tenant-Id': tenant_id }),
      await owner.patch('/orgs/current', { display_name: 'One' }, once('a')),
    ]) {
      expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused'])
    }
  })

  it('of one caller does not affect another caller', async () => {
    const [one, other] = await Promise.all([newTenant(), newTenant()])
    await one.owner.post('/workspaces', { display_name: 'One' }, once('same'))
    const theirs = await other.owner.post('/workspaces', { display_name: 'Else' }, once('same'))
    expect([theirs.status, theirs.headers.get('Idempotency-Replayed')]).toEqual([201, null])
  })

  it('does not store refusals', async () => {
    const { owner } = await newTenant()
    await owner.post('/workspaces', { display_name: 'Taken' })
    expect((await owner.post('/workspaces', { display_name: 'Taken' }, once('a'))).status).toBe(409)
    expect((await owner.post('/workspaces', { display_name: 'Free' }, once('a'))).status).toBe(201)
  })

  it('expires after a day and is deleted', async () => {
    const { owner } = await newTenant()
    const first = await owner.post('/orgs/current/members', { email: 'a@example.com' }, once('a'))
    clock.ahead = DAY + 60_000
    const later = await owner.post('/orgs/current/members', { email: 'b@example.com' }, once('a'))
    expect([later.status, later.headers.get('Idempotency-Replayed')]).toEqual([201, null])
    expect(later.body.id).not.toBe(first.body.id)
    await sweepExpiredRows(getApp().database)
    expect(
      (await owner.post('/orgs/current/members', { email: 'b@example.com' }, once('a'))).headers.get(
        'Idempotency-Replayed',
      ),
    ).toBe('true')
  })

  it('is ignored by routes that neither POST nor PATCH', async () => {
    const { owner } = await newTenant()
    const { id } = (await owner.post('/workspaces', { display_name: 'Short' })).body
    expect((await owner.delete(`/workspaces/${id}`, undefined, once('a'))).status).toBe(204)
    expect((await owner.delete(`/workspaces/${id}`, undefined, once('a'))).status).toBe(404)
  })

  it.each(['', ' ', 'ü', 'a b', 'x'.repeat(256)])('is refused when it is %j', async key => {
    const { owner } = await newTenant()
    const refused = await owner.post('/workspaces', { display_name: 'X' }, once(key))
    expect([refused.status, refused.body.errors[0].loc]).toEqual([422, ['header', 'Idempotency-Key']])
  })

  it('has one effect when many requests with it run in parallel', async () => {
    const { owner } = await newTenant()
    for (let round = 0; round < 5; round++) {
      const replies = await Promise.all(
        Array.from({ length: 20 }, () =>
          owner.post('/workspaces', { display_name: `Race ${round}` }, once(`race-${round}`)),
        ),
      )
      const done = replies.filter(reply => reply.status === 201)
      const waiting = replies.filter(reply => reply.body.code === 'idempotency_in_flight')
      expect(done.length).toBeGreaterThan(0)
      expect(done.length + waiting.length).toBe(20)
      expect(new Set(done.map(reply => reply.text)).size).toBe(1)
      expect(done.filter(reply => !reply.headers.get('Idempotency-Replayed'))).toHaveLength(1)
      for (const { status, headers } of waiting) expect([status, headers.get('Retry-After')]).toEqual([409, '1'])
    }
    expect((await owner.get('/workspaces')).body.resources).toHaveLength(6)
  })
})
