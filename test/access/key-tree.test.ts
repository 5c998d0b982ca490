import { afterEach, describe, expect, it } from 'vitest'
import { NewListener } from '../../src/listeners/schema.ts'
import { clock, newTenant, readEvents, type Tenant, unusedId } from '../support/app.ts'

const HOUR = 3_600_000

afterEach(() => {
  clock.ahead = 0
})

type Caller = Pick<Tenant, 'post' | 'get' | 'key'>
type Made = { id: string; key: string }

async function makeKey(
  maker: Pick<Tenant, 'post'>,
  headers: Record<string, string> = {},
  path = '/workspaces/current/api-keys',
) {
  const { status, body } = await maker.post(path, { description: 'made' }, headers)
  expect(status).toBe(201)
  return body as Made
}

/** A workspace's Admin key, a key that it made, one that this made, and one that this made. */
async function lineage(tenant: Tenant, from: Caller = tenant): Promise<Made[]> {
  const keys: Made[] = []
  for (let maker = from; keys.length < 3; maker = tenant.as(keys.at(-1)!.key)) keys.push(await makeKey(maker))
  return keys
}

const codeOf = async (tenant: Tenant, { key }: Pick<Made, 'key'>, headers?: Record<string, string>) =>
  (await tenant.as(key).get('/workspaces', headers)).body.code

describe('revoking a key', () => {
  it('revokes every key created with it, and no other', async () => {
    const tenant = await newTenant()
    const [first, second, third] = await lineage(tenant)
    const sibling = await makeKey(tenant)
    expect((await tenant.delete(`/workspaces/current/api-keys/${second!.id}`)).status).toBe(204)
    for (const key of [second!, third!]) expect(await codeOf(tenant, key)).toBe('key_revoked')
    for (const key of [tenant, first!, sibling]) expect(await codeOf(tenant, key)).toBeUndefined()
  })

  it('revokes keys in every workspace, with an event in the workspace of each', async () => {
    const tenant = await newTenant()
    const { owner, tenant_id, organization_id } = tenant
    const second = (await owner.post('/workspaces', { display_name: 'Second' })).body.id as string
    const maker = await makeKey(owner, {}, '/orgs/current/api-keys')
    const [here, there] = [
      await makeKey(tenant.as(maker.key), { 'X-Tenant-Id': tenant_id }),
      await makeKey(tenant.as(maker.key), { 'X-Tenant-Id': second }),
    ]
    const below = await makeKey(tenant.as(there.key))
    const requestId = `revoke-${unusedId()}`
    await owner.delete(`/orgs/current/api-keys/${maker.id}`, undefined, { 'X-Request-Id': requestId })
    for (const key of [maker, here, there, below]) expect(await codeOf(tenant, key)).toBe('key_revoked')
    const events = await readEvents(requestId)
    const told = events.map(({ type, subject_id, scope_id }) => [type, subject_id, scope_id])
    const wanted = [
      ['api_key.revoked', maker.id, organization_id],
      ['api_key.revoked', here.id, tenant_id],
      ['api_key.revoked', there.id, second],
      ['api_key.revoked', below.id, second],
    ]
    expect(told.toSorted()).toEqual(wanted.toSorted())
    const cascaded = events.filter(event => event.subject_id !== maker.id)
    for (const { data } of cascaded) expect(JSON.parse(data as string)).toEqual({ revoked_with: maker.id })
  })

  it('revokes the keys of agents created with it', async () => {
    const tenant = await newTenant()
    const maker = await makeKey(tenant)
    const listener = (await tenant.post('/v2/listeners', NewListener.meta()!.example)).body.id
    const agent = await makeKey(tenant.as(maker.key), {}, `/v2/listeners/${listener}/keys`)
    await tenant.delete(`/workspaces/current/api-keys/${maker.id}`)
    expect(await codeOf(tenant, agent)).toBe('key_revoked')
  })

  it('leaves other organizations and workspaces alone', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const [, theirs] = await lineage(other)
    for (const caller of [tenant, tenant.owner]) {
      expect(
        (
          await caller.delete(`/workspaces/current/api-keys/${theirs!.id}`, undefined, {
            'X-Tenant-Id': tenant.tenant_id,
          })
        ).status,
      ).toBe(404)
    }
    expect((await tenant.owner.delete(`/orgs/current/api-keys/${theirs!.id}`)).body.code).toBe('key_not_found')
    // A key of one workspace does not reach the keys of another one of its organization.
    const second = (await other.owner.post('/workspaces', { display_name: 'Second' })).body.id
    const elsewhere = await makeKey(other.owner, { 'X-Tenant-Id': second })
    expect((await other.delete(`/workspaces/current/api-keys/${elsewhere.id}`)).body.code).toBe('key_not_found')
    expect(await codeOf(other, theirs!)).toBeUndefined()
    expect(await codeOf(other, elsewhere)).toBeUndefined()
  })

  it('also revokes a key that is created at the same time', async () => {
    const tenant = await newTenant()
    for (let round = 0; round < 4; round++) {
      const [first, second] = await lineage(tenant)
      const makers = [first!, second!].map(({ key }) => tenant.as(key))
      const making = Array.from({ length: 12 }, (_, i) =>
        makers[i % 2]!.post('/workspaces/current/api-keys', { description: 'late' }),
      )
      const revoking = tenant.delete(`/workspaces/current/api-keys/${first!.id}`)
      const [revoked, ...made] = await Promise.all([revoking, ...making])
      expect(revoked.status).toBe(204)
      for (const { status, body } of made) {
        expect([201, 401]).toContain(status)
        expect(await codeOf(tenant, { key: status === 201 ? body.key : first!.key })).toBe('key_revoked')
      }
    }
  })

  it('revokes once when several requests do it at the same time', async () => {
    const tenant = await newTenant()
    const [first, second, third] = await lineage(tenant)
    const replies = await Promise.all(
      [first!, second!, third!, first!].map(({ id }) => tenant.delete(`/workspaces/current/api-keys/${id}`)),
    )
    expect(replies.filter(({ status }) => status === 204).length).toBeGreaterThan(0)
    for (const { status } of replies) expect([204, 404]).toContain(status)
    const events = (await Promise.all(replies.map(({ headers }) => readEvents(headers.get('X-Request-Id')!)))).flat()
    expect(events.map(event => event.subject_id).toSorted()).toEqual([first!.id, second!.id, third!.id].toSorted())
  })
})

describe('the tree of keys', () => {
  it('can be listed by creator, and each key shows how many keys revoking it revokes', async () => {
    const tenant = await newTenant()
    const [first, second, third] = await lineage(tenant)
    for (const [caller, base] of [
      [tenant, '/workspaces/current/api-keys'],
      [tenant.owner, '/orgs/current/api-keys'],
    ] as const) {
      const listed = (await caller.get(`${base}?created_by=${second!.id}`)).body.resources
      expect(listed.map((one: Made) => one.id)).toEqual([third!.id])
      const { body } = await caller.get(`${base}/${first!.id}`)
      expect([body.id, body.descendants]).toEqual([first!.id, 2])
      expect((await caller.get(`${base}/${third!.id}`)).body.descendants).toBe(0)
    }
    await tenant.delete(`/workspaces/current/api-keys/${third!.id}`)
    expect((await tenant.get(`/workspaces/current/api-keys/${first!.id}`)).body.descendants).toBe(1)
    expect((await tenant.get(`/workspaces/current/api-keys/${third!.id}`)).body.code).toBe('key_not_found')
  })

  it('never contains a key that expires later than its creator', async () => {
    const tenant = await newTenant()
    const expires_at = new Date(Date.now() + HOUR).toISOString()
    const { body } = await tenant.post('/workspaces/current/api-keys', { description: 'short', expires_at })
    const [, below] = await lineage(tenant, tenant.as(body.key))
    clock.ahead = 2 * HOUR
    expect(await codeOf(tenant, below!)).toBe('key_expired')
  })
})
