import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { NewTrustedIssuer } from '../../src/people/authorization-server/trusted-issuers.schema.ts'
import { getApp, newTenant, type Tenant, unusedId } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import * as fc from '../support/seeded-fast-check.ts'

const operations = await loadOperations()

const KEYS = '/workspaces/current/api-keys'
const WITH_CURSOR = '/workspaces?cursor='
type Row = { id: string; created_at: string }

const createKeys = async (tenant: Tenant, count: number): Promise<string[]> => {
  const replies = Array.from({ length: count }, (_, i) => tenant.post(KEYS, { description: `key ${i}` }))
  return (await Promise.all(replies)).map(({ body }) => body.id)
}

/** The path of the next page in `Link`. Undefined on the last page. */
const nextPathOf = ({ headers }: { headers: Headers }) => /^<(.+)>; rel="next"$/.exec(headers.get('Link') ?? '')?.[1]
const idsOf = ({ body }: { body: { resources: Row[] } }) => body.resources.map(({ id }) => id)
const listAll = async (tenant: Tenant) => (await tenant.get(`${KEYS}?limit=100`)).body.resources as Row[]
const cursorOf = (path: string) => new URL(path, 'http://x').searchParams.get('cursor')!
const withLimit = (path: string, limit: number) => path.replace(/limit=\d+/, `limit=${limit}`)
const sizes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 8 })
const fewRuns = { numRuns: 12, endOnFailure: true }

describe('a list of things that have a name', () => {
  type Creation = { post: Tenant['post']; path: string; member: string; more?: object }
  /** Creates one in each such list, and names the member that holds its name. */
  const CREATIONS: Record<string, (tenant: Tenant) => Creation | Promise<Creation>> = {
    '/v2/deployments': ({ post }) => ({ post, path: '/v2/deployments', member: 'name', more: makeImageBody() }),
    '/v2/listeners': ({ post }) => ({
      post,
      path: '/v2/listeners',
      member: 'compute_id',
      more: { compute_type: 'local' },
    }),
    '/v2/deployments/{deployment_id}/schedules': async ({ post }) => {
      const { id } = (await post('/v2/deployments', makeImageBody())).body
      const more = { cron: '0 5 * * *', command: 'true' }
      return { post, path: `/v2/deployments/${id}/schedules`, member: 'name', more }
    },
    '/v2/trusted-issuers': ({ post }) => {
      const { name: _, ...more } = NewTrustedIssuer.meta()!.example as Record<string, unknown>
      return { post, path: '/v2/trusted-issuers', member: 'name', more }
    },
    '/v2/tag-keys': ({ post }) => ({ post, path: '/v2/tag-keys', member: 'key' }),
    '/v2/tag-keys/{tag_key_id}/values': async ({ post }) => {
      const { id } = (await post('/v2/tag-keys', { key: 'team' })).body
      return { post, path: `/v2/tag-keys/${id}/values`, member: 'value' }
    },
    '/v1/model-configurations': ({ post }) => ({
      post,
      path: '/v1/model-configurations',
      member: 'name',
      more: { provider: 'openai', model: 'gpt', auth_type: 'none' },
    }),
    '/v2/alert-rules': ({ post }) => ({
      post,
      path: '/v2/alert-rules',
      member: 'name',
      more: { condition: { kind: 'log', contains: 'x' } },
    }),
    '/v2/channels': ({ post }) => ({
      post,
      path: '/v2/channels',
      member: 'name',
      more: { target: { kind: 'pagerduty', routing_key: 'a'.repeat(32) } },
    }),
    '/v2/drains': ({ post }) => ({
      post,
      path: '/v2/drains',
      member: 'name',
      more: { kind: 'ndjson', url: 'https://in.example.com/', enabled: false },
    }),
    '/workspaces': ({ owner }) => ({ post: owner.post, path: '/workspaces', member: 'display_name' }),
    '/orgs/current/roles': ({ owner }) => ({
      post: owner.post,
      path: '/orgs/current/roles',
      member: 'display_name',
      more: { permissions: [] },
    }),
  }
  const CREATED_ELSEWHERE = ['/v2/sessions', '/v2/datasets']
  const named = operations.filter(
    ({ kind, query, path }) =>
      kind !== 'open' && query && 'name' in query.shape && 'cursor' in query.shape && !CREATED_ELSEWHERE.includes(path),
  )

  it.each(named.map(({ path }) => path))('%s finds the one with exactly that name', async list => {
    const tenant = await newTenant()
    const { post, path, member, more } = await CREATIONS[list]!(tenant)
    for (const name of ['shop', 'shop-2', 'a-shop'])
      expect((await post(path, { ...more, [member]: name })).status).toBe(201)
    const { get } = list.startsWith('/orgs') || list === '/workspaces' ? tenant.owner : tenant
    const namesOf = async (name: string) => {
      const { status, body } = await get(`${path}?name=${name}`)
      expect(status).toBe(200)
      return body.resources.map((one: Record<string, string>) => one[member])
    }
    expect(await namesOf('shop')).toEqual(['shop'])
    expect(await namesOf('sho')).toEqual([])
    expect(await namesOf('%25')).toEqual([])
    expect(await namesOf('SHOP')).toEqual([])
    expect((await namesOf('')).length).toBeGreaterThanOrEqual(3)
  })
})

describe('a list', () => {
  it('is sorted by time, newest first, then by id', async () => {
    const tenant = await newTenant()
    await createKeys(tenant, 6)
    const copies = sql`
      insert into api_keys
        (organization_id, tenant_id, description, hint, key_hash, role_id, created_at)
      select organization_id, tenant_id, 'copy', hint, gen_random_uuid()::text, role_id, created_at
      from api_keys, generate_series(1, 4)
      where tenant_id = ${tenant.tenant_id}`
    await runAsSystem(getApp().database, copies)
    const rows = await listAll(tenant)
    expect(rows).toHaveLength(35)
    expect(new Set(rows.map(row => row.created_at)).size).toBeLessThan(35)
    const order = sql`select id from api_keys where tenant_id = ${tenant.tenant_id} order by created_at desc, id desc`
    const [expected] = (await runAsSystem(getApp().database, order)) as [[string][]]
    expect(rows.map(row => [row.id])).toEqual(expected)
    const paged: string[] = []
    for (let path: string | undefined = `${KEYS}?limit=2`; path; ) {
      const page = await tenant.get(path)
      paged.push(...idsOf(page))
      path = nextPathOf(page)
    }
    expect(paged).toEqual(rows.map(row => row.id))
  })

  it('returns each row once when it is paged by offset, for any page size', async () => {
    const tenant = await newTenant()
    await createKeys(tenant, 24)
    const all = (await listAll(tenant)).map(row => row.id)
    await fc.assert(
      fc.asyncProperty(sizes, async limits => {
        const listed: string[] = []
        for (let i = 0; listed.length < all.length; i++) {
          const limit = limits[i % limits.length]!
          const page = await tenant.get(`${KEYS}?limit=${limit}&offset=${listed.length}`)
          expect(idsOf(page)).toEqual(all.slice(listed.length, listed.length + limit))
          listed.push(...idsOf(page))
          expect(page.body.offset).toBe(listed.length)
          expect(nextPathOf(page) === undefined).toBe(listed.length === all.length)
        }
      }),
      fewRuns,
    )
  })

  it('returns each row once when it is paged by cursor while other rows are added', async () => {
    await fc.assert(
      fc.asyncProperty(sizes, fc.infiniteStream(fc.nat({ max: 2 })), async (limits, additions) => {
        const tenant = await newTenant()
        await createKeys(tenant, 11)
        const before = (await listAll(tenant)).map(row => row.id)
        const listed: string[] = []
        let path: string | undefined = `${KEYS}?limit=${limits[0]}`
        for (let i = 1; path; i++) {
          const page = await tenant.get(path)
          listed.push(...idsOf(page))
          expect(page.body.offset).toBe(listed.length)
          await createKeys(tenant, additions.next().value!)
          path = nextPathOf(page) && withLimit(nextPathOf(page)!, limits[i % limits.length]!)
        }
        expect(listed).toEqual(before)
      }),
      fewRuns,
    )
  })

  it('has at most `limit` rows, 20 by default, and a link to the next page if there are more', async () => {
    const tenant = await newTenant()
    await createKeys(tenant, 20)
    expect(idsOf(await tenant.get(KEYS))).toHaveLength(20)
    expect(nextPathOf(await tenant.get(KEYS))).toBeDefined()
    expect(nextPathOf(await tenant.get(`${KEYS}?limit=21`))).toBeUndefined()
    expect(idsOf(await tenant.get(`${KEYS}?limit=1`))).toHaveLength(1)
    for (const limit of ['0', '101', '-1', '1.5', 'ten', '']) {
      const { status, body } = await tenant.get(`${KEYS}?limit=${limit}`)
      expect([status, body.errors[0].loc]).toEqual([422, ['query', 'limit']])
    }
    expect((await tenant.get(`${KEYS}?offset=1000`)).body).toEqual({ resources: [], offset: 1000 })
  })
})

describe('a cursor', () => {
  it('wins over the offset, and its link keeps the other parameters', async () => {
    const tenant = await newTenant()
    for (let i = 0; i < 6; i++) await tenant.post('/v2/deployments', makeImageBody())
    const path = nextPathOf(await tenant.get('/v2/deployments?limit=2&name_contains=app%2D&unknown=a%26b'))!
    const { searchParams } = new URL(path, 'http://x')
    const parameters = ['limit', 'offset', 'name_contains', 'unknown'].map(name => searchParams.get(name))
    expect(parameters).toEqual(['2', '2', 'app-', 'a&b'])
    const withOtherOffset = await tenant.get(path.replace('offset=2', 'offset=4'))
    expect(idsOf(withOtherOffset)).toEqual(idsOf(await tenant.get(path)))
  })

  it('from another tenant or list returns only rows of the caller', async () => {
    const [tenant, foreign] = await Promise.all([newTenant(), newTenant()])
    await Promise.all([createKeys(tenant, 4), createKeys(foreign, 4)])
    const cursor = cursorOf(nextPathOf(await foreign.get(`${KEYS}?limit=1`))!)
    const ownIds = (await listAll(tenant)).map(row => row.id)
    for (const id of idsOf(await tenant.get(`${KEYS}?cursor=${cursor}`))) expect(ownIds).toContain(id)
    expect((await tenant.get(`/orgs/current/members?cursor=${cursor}`)).status).toBe(200)
  })

  it('from the previous release is valid, in every time zone that Postgres can write', async () => {
    const tenant = await newTenant()
    await createKeys(tenant, 4)
    const path = nextPathOf(await tenant.get(`${KEYS}?limit=2`))!
    const [seconds, id] = cursorOf(path).split('~') as [string, string]
    const shift = sql`select (to_timestamp(${seconds}::numeric) at time zone 'Asia/Kolkata')::text || '+05:30'`
    const [[[shifted]]] = (await runAsSystem(getApp().database, shift)) as [[[string]]]
    const earlier = Buffer.from(`${shifted}~${id}`).toString('base64url')
    expect(idsOf(await tenant.get(`${KEYS}?limit=2&cursor=${earlier}`))).toEqual(idsOf(await tenant.get(path)))
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
  ])('that encodes %j is refused', async plain => {
    const tenant = await newTenant()
    const { status, body } = await tenant.get(WITH_CURSOR + Buffer.from(plain).toString('base64url'))
    expect([status, body.errors]).toEqual([
      422,
      [expect.objectContaining({ type: 'custom', loc: ['query', 'cursor'] })],
    ])
  })

  it('that is not base64url or is too long is refused', async () => {
    const tenant = await newTenant()
    for (const text of ['%00', 'x', '%F0%9F%98%80', 'x'.repeat(121)]) {
      expect((await tenant.get(WITH_CURSOR + text)).body.errors[0].loc).toEqual(['query', 'cursor'])
    }
  })
})
