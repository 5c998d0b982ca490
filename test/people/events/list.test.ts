import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'

/** Three more events than the one of the tenant's key: numbers 2, 3 and 4. */
async function newTenantWithEvents() {
  const tenant = await newTenant()
  const key = await tenant.post('/v2/tag-keys', { key: 'team' })
  await tenant.post(`/v2/tag-keys/${key.body.id}/values`, { value: 'one' })
  await tenant.patch(`/v2/tag-keys/${key.body.id}`, { key: 'squad' }, { 'If-Match': '*' })
  return { tenant, tagKeyId: key.body.id as string }
}
const list = async (tenant: Tenant, query = '') => (await tenant.get(`/v2/events${query}`)).body
const numbers = (page: { resources: { number: number }[] }) => page.resources.map(({ number }) => number)

it('events have the request and the actor that caused them', async () => {
  const { tenant, tagKeyId } = await newTenantWithEvents()
  const { resources, next_after, has_more } = await list(tenant)
  expect([numbers({ resources }), next_after, has_more]).toEqual([[1, 2, 3, 4], 4, false])
  expect(resources[1]).toMatchObject({
    id: `evt_${tenant.tenant_id}_2`,
    type: 'tag_key.created',
    workspace_id: tenant.tenant_id,
    subject: { type: 'tag_key', id: tagKeyId },
    actor: { kind: 'key', name: 'Key of a test' },
    request: { operation: 'createTagKey', method: 'POST', path: '/v2/tag-keys' },
  })
})

describe('a page', () => {
  it('begins after the last event of the page before it, in both orders', async () => {
    const { tenant } = await newTenantWithEvents()
    for (const order of ['asc', 'desc']) {
      const seen: number[] = []
      for (let query = `?order=${order}&limit=3`, more = true; more; ) {
        const page = await list(tenant, query)
        seen.push(...numbers(page))
        more = page.has_more
        query = `?order=${order}&limit=3&after=${page.next_after}`
      }
      expect(seen).toEqual(order === 'asc' ? [1, 2, 3, 4] : [4, 3, 2, 1])
    }
  })

  it.each([
    ['type=tag_key.created', [2]],
    ['type=tag_key.*', [2, 4]],
    ['type=*.created,api_key.*', [1, 2, 3]],
    ['type=tag_key.%', 422],
    ['type=deployment.*', []],
    ['subject_id=SUBJECT', [2, 4]],
    ['subject_id=SUBJECT&order=desc', [4, 2]],
    ['subject_id=SUBJECT&type=*.renamed', [4]],
    ['actor_id=ACTOR', [2, 3, 4]],
    ['start_time=2020-01-01T00:00:00Z&end_time=2020-02-01T00:00:00Z', []],
    ['start_time=2020-01-01T00:00:00Z', [1, 2, 3, 4]],
    ['start_time=2100-01-01T00:00:00Z', []],
    ['order=desc&end_time=2100-01-01T00:00:00Z', [4, 3, 2, 1]],
    ['wait=1&order=desc', 422],
  ])('with %s has the events %j', async (query, expected) => {
    const { tenant, tagKeyId } = await newTenantWithEvents()
    const actor = (await list(tenant)).resources[1].actor.id
    const path = `/v2/events?${query.replace('SUBJECT', tagKeyId).replace('ACTOR', actor)}`
    const { status, body } = await tenant.get(path)
    expect(status === 200 ? numbers(body) : status).toEqual(expected)
    // The cursor moves past events that the filter leaves out.
    if (status === 200 && !query.includes('desc') && !query.includes('end_time')) expect(body.next_after).toBe(4)
  })
})

it('a time selects exactly the events at or after it', async () => {
  const tenant = await newTenant()
  await withClockAhead(3_600_000, () => tenant.post('/v2/tag-keys', { key: 'later' }))
  const [first, second] = (await list(tenant)).resources
  expect(numbers(await list(tenant, `?start_time=${second.created_at}`))).toEqual([2])
  expect(numbers(await list(tenant, `?end_time=${second.created_at}`))).toEqual([1])
  expect(numbers(await list(tenant, `?start_time=${first.created_at}&end_time=${second.created_at}`))).toEqual([1])
})

it('a page that follows events which are no longer kept answers 410, and names where to go on', async () => {
  const { tenant } = await newTenantWithEvents()
  await runAsSystem(getApp().database, sql`delete from events where scope_id = ${tenant.tenant_id}::uuid and seq < 3`)
  expect(numbers(await list(tenant))).toEqual([3, 4])
  expect(numbers(await list(tenant, '?after=2'))).toEqual([3, 4])
  const expired = await tenant.get('/v2/events?after=1')
  expect([expired.status, expired.body.code]).toEqual([410, 'events_expired'])
  expect(expired.body.detail).toMatch(/\b2\b/)
  expect((await tenant.get('/v2/events?after=5')).status).toBe(422)
  expect(numbers(await list(tenant, '?order=desc&after=4'))).toEqual([3])
})

it('a reader that pages while events are written sees each of them once', async () => {
  const tenant = await newTenant()
  const written = 30
  const writing = Promise.all(
    Array.from({ length: written }, (_, i) => tenant.post('/v2/tag-keys', { key: `key-${i}` })),
  )
  const seen: number[] = []
  for (let after = 0; seen.length <= written; ) {
    const page = await list(tenant, `?after=${after}&limit=4`)
    seen.push(...numbers(page))
    after = page.next_after
  }
  await writing
  expect(seen).toEqual(Array.from({ length: written + 1 }, (_, i) => i + 1))
})

it('a workspace sees neither the events of another one nor those of its organization', async () => {
  const { tenant } = await newTenantWithEvents()
  const second = await tenant.owner.post('/workspaces', { display_name: 'Second' })
  const inSecond = { 'X-Tenant-Id': second.body.id }
  await tenant.owner.post('/v2/tag-keys', { key: 'other' }, inSecond)
  expect(numbers(await list(tenant))).toEqual([1, 2, 3, 4])
  const { body } = await tenant.owner.get('/v2/events', inSecond)
  expect(body.resources.map(({ type }: { type: string }) => type)).toEqual(['tag_key.created'])
})
