import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { getApp, newTenant, type Tenant, unusedId } from '../support/app.ts'
import * as fc from '../support/seeded-fast-check.ts'

const KEYS = '/workspaces/current/api-keys'
const INVALID = '/workspaces?cursor='
type Row = { id: string; created_at: string }

const make = async (tenant: Tenant, count: number): Promise<string[]> => {
  const replies = Array.from({ length: count }, (_, i) => tenant.post(KEYS, { description: `key ${i}` }))
  return (await Promise.all(replies)).map(({ body }) => body.id)
}

/** The path in `Link`; undefined on the last page. */
const nextOf = ({ headers }: { headers: Headers }) => /^<(.+)>; rel="next"$/.exec(headers.get('Link') ?? '')?.[1]
const idsOf = ({ body }: { body: { resources: Row[] } }) => body.resources.map(({ id }) => id)
const whole = async (tenant: Tenant) => (await tenant.get(`${KEYS}?limit=100`)).body.resources as Row[]
const cursorOf = (path: string) => new URL(path, 'http://x').searchParams.get('cursor')!
const limited = (path: string, limit: number) => path.replace(/limit=\d+/, `limit=${limit}`)
const sizes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 8 })
const few = { numRuns: 12, endOnFailure: true }

describe('a list', () => {
  it('is sorted by time, newest first, then by id', async () => {
    const tenant = await newTenant()
    await make(tenant, 6)
    const copies = sql`
      insert into api_keys
        (organization_id, tenant_id, description, hint, key_hash, role_id, created_at)
      select organization_id, tenant_id, 'copy', hint, gen_random_uuid()::text, role_id, created_at
      from api_keys, generate_series(1, 4)
      where tenant_id = ${tenant.tenant_id}`
    await runAsSystem(getApp().database, copies)
    const rows = await whole(tenant)
    expect(rows).toHaveLength(35)
    expect(new Set(rows.map(row => row.created_at)).size).toBeLessThan(35)
    const order = sql`select id from api_keys where tenant_id = ${tenant.tenant_id} order by created_at desc, id desc`
    const [expected] = (await runAsSystem(getApp().database, order)) as [[string][]]
    expect(rows.map(row => [row.id])).toEqual(expected)
    const paged: string[] = []
    for (let path: string | undefined = `${KEYS}?limit=2`; path; ) {
      const page = await tenant.get(path)
      paged.push(...idsOf(page))
      path = nextOf(page)
    }
    expect(paged).toEqual(rows.map(row => row.id))
  })

  it('returns each row once by offset, for any page size', async () => {
    const tenant = await newTenant()
    await make(tenant, 24)
    const all = (await whole(tenant)).map(row => row.id)
    await fc.assert(
      fc.asyncProperty(sizes, async limits => {
        const listed: string[] = []
        for (let i = 0; listed.length < all.length; i++) {
          const limit = limits[i % limits.length]!
          const page = await tenant.get(`${KEYS}?limit=${limit}&offset=${listed.length}`)
          expect(idsOf(page)).toEqual(all.slice(listed.length, listed.length + limit))
          listed.push(...idsOf(page))
          expect(page.body.offset).toBe(listed.length)
          expect(nextOf(page) === undefined).toBe(listed.length === all.length)
        }
      }),
      few,
    )
  })

  it('returns each row once by cursor, while other rows are added', async () => {
    await fc.assert(
      fc.asyncProperty(sizes, fc.infiniteStream(fc.nat({ max: 2 })), async (limits, additions) => {
        const tenant = await newTenant()
        await make(tenant, 11)
        const before = (await whole(tenant)).map(row => row.id)
        const listed: string[] = []
        let path: string | undefined = `${KEYS}?limit=${limits[0]}`
        for (let i = 1; path; i++) {
          const page = await tenant.get(path)
          listed.push(...idsOf(page))
          expect(page.body.offset).toBe(listed.length)
          await make(tenant, additions.next().value!)
          path = nextOf(page) && limited(nextOf(page)!, limits[i % limits.length]!)
        }
        expect(listed).toEqual(before)
      }),
      few,
    )
  })

  it('has at most the maximum number of rows, and all of them up to there', async () => {
    const tenant = await newTenant()
    await make(tenant, 20)
    expect(idsOf(await tenant.get(KEYS))).toHaveLength(20)
    expect(nextOf(await tenant.get(KEYS))).toBeDefined()
    expect(nextOf(await tenant.get(`${KEYS}?limit=21`))).toBeUndefined()
    expect(idsOf(await tenant.get(`${KEYS}?limit=1`))).toHaveLength(1)
    for (const limit of ['0', '101', '-1', '1.5', 'ten', '']) {
      const { status, body } = await tenant.get(`${KEYS}?limit=${limit}`)
      expect([status, body.errors[0].loc]).toEqual([422, ['query', 'limit']])
    }
    expect((await tenant.get(`${KEYS}?offset=1000`)).body).toEqual({ resources: [], offset: 1000 })
  })
})

describe('a cursor', () => {
  it('replaces the offset and keeps the other parameters', async () => {
    const tenant = await newTenant()
    await make(tenant, 6)
    const path = nextOf(await tenant.get(`${KEYS}?limit=2&unknown=a%26b`))!
    const { searchParams } = new URL(path, 'http://x')
    expect([searchParams.get('limit'), searchParams.get('offset'), searchParams.get('unknown')]).toEqual([
      '2',
      '2',
      'a&b',
    ])
    const moved = await tenant.get(path.replace('offset=2', 'offset=4'))
    expect(idsOf(moved)).toEqual(idsOf(await tenant.get(path)))
  })

  it('of another list or tenant returns no rows of another tenant', async () => {
    const [one, other] = await Promise.all([newTenant(), newTenant()])
    await Promise.all([make(one, 4), make(other, 4)])
    const cursor = cursorOf(nextOf(await other.get(`${KEYS}?limit=1`))!)
    const mine = (await whole(one)).map(row => row.id)
    for (const id of idsOf(await one.get(`${KEYS}?cursor=${cursor}`))) expect(mine).toContain(id)
    expect((await one.get(`/orgs/current/members?cursor=${cursor}`)).status).toBe(200)
  })

  it('is valid in any time zone that Postgres writes', async () => {
    const tenant = await newTenant()
    await make(tenant, 4)
    const path = nextOf(await tenant.get(`${KEYS}?limit=2`))!
    const [time, id] = Buffer.from(cursorOf(path), 'base64url').toString().split('~') as [string, string]
    const shift = sql`select (${time}::timestamptz at time zone 'Asia/Kolkata')::text || '+05:30'`
    const [[[shifted]]] = (await runAsSystem(getApp().database, shift)) as [[[string]]]
    const elsewhere = Buffer.from(`${shifted}~${id}`).toString('base64url')
    expect(elsewhere).not.toBe(cursorOf(path))
    expect(idsOf(await tenant.get(`${KEYS}?limit=2&cursor=${elsewhere}`))).toEqual(idsOf(await tenant.get(path)))
  })

  it.each([
    '',
    '2030-01-01 00:00:00+00',
    `~${unusedId()}`,
    `2030-01-01 00:00:00+00~${'-'.repeat(36)}`,
    `0000-01-01 00:00:00+00~${unusedId()}`,
    `2030-02-30 00:00:00+00~${unusedId()}`,
    `2030-01-01 24:00:00+00~${unusedId()}`,
    `2030-01-01 00:00:60+00~${unusedId()}`,
    `2030-01-01 00:00:00+99~${unusedId()}`,
    `infinity~${unusedId()}`,
    `2030-01-01 00:00:00+00~${unusedId()}' or true --`,
  ])('that contains %j is refused', async plain => {
    const tenant = await newTenant()
    const { status, body } = await tenant.get(INVALID + Buffer.from(plain).toString('base64url'))
    expect([status, body.errors]).toEqual([
      422,
      [expect.objectContaining({ type: 'custom', loc: ['query', 'cursor'] })],
    ])
  })

  it('with invalid text is refused', async () => {
    const tenant = await newTenant()
    for (const text of ['%00', 'x', '%F0%9F%98%80', 'x'.repeat(121)]) {
      expect((await tenant.get(INVALID + text)).body.errors[0].loc).toEqual(['query', 'cursor'])
    }
  })
})
