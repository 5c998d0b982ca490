import { afterEach, describe, expect, it } from 'vitest'
import { NewListener } from '../../../src/hosting/listeners/schema.ts'
import { clock, newTenant, readEvents, type Tenant, unusedId } from '../../support/app.ts'

const HOUR = 3_600_000

afterEach(() => {
  clock.ahead = 0
})

type Caller = Pick<Tenant, 'post' | 'get' | 'key'>
type Key = { id: string; key: string }

async function createKey(
  creator: Pick<Tenant, 'post'>,
  headers: Record<string, string> = {},
  path = '/workspaces/current/api-keys',
) {
  const { status, body } = await creator.post(path, { description: 'test' }, headers)
  expect(status).toBe(201)
  return body as Key
}

/** Creates three keys: the first with the given key, each further one with the key before it. */
async function createKeyChain(tenant: Tenant, from: Caller = tenant): Promise<Key[]> {
  const keys: Key[] = []
  for (let creator = from; keys.length < 3; creator = tenant.as(keys.at(-1)!.key)) keys.push(await createKey(creator))
  return keys
}

const codeOf = async (tenant: Tenant, { key }: Pick<Key, 'key'>, headers?: Record<string, string>) =>
  (await tenant.as(key).get('/workspaces', headers)).body.code

describe('revoking a key', () => {
  it('revokes every key created with it, and no other', async () => {
    const tenant = await newTenant()
    const [first, second, third] = await createKeyChain(tenant)
    const sibling = await createKey(tenant)
    expect((await tenant.delete(`/workspaces/current/api-keys/${second!.id}`)).status).toBe(204)
    for (const key of [second!, third!]) expect(await codeOf(tenant, key)).toBe('key_revoked')
    for (const key of [tenant, first!, sibling]) expect(await codeOf(tenant, key)).toBeUndefined()
  })

  it('revokes keys in every workspace, with an event in the workspace of each', async () => {
    const tenant = await newTenant()
    const { owner, tenant_id, organization_id } = tenant
    const second = (await owner.post('/workspaces', { display_name: 'Second' })).body.id as string
    const creator = await createKey(owner, {}, '/orgs/current/api-keys')
    const [firstChild, secondChild] = [
      await createKey(tenant.as(creator.key), { 'X-Tenant-Id': tenant_id }),
      await createKey(tenant.as(creator.key), { 'X-Tenant-Id': second }),
    ]
    const grandchild = await createKey(tenant.as(secondChild.key))
    const requestId = `revoke-${unusedId()}`
    await owner.delete(`/orgs/current/api-keys/${creator.id}`, undefined, { 'X-Request-Id': requestId })
    for (const key of [creator, firstChild, secondChild, grandchild])
      expect(await codeOf(tenant, key)).toBe('key_revoked')
    const events = await readEvents(requestId)
    const revocations = events.map(({ type, subject_id, scope_id }) => [type, subject_id, scope_id])
    const expected = [
      ['api_key.revoked', creator.id, organization_id],
      ['api_key.revoked', firstChild.id, tenant_id],
      ['api_key.revoked', secondChild.id, second],
      ['api_key.revoked', grandchild.id, second],
    ]
    expect(revocations.toSorted()).toEqual(expected.toSorted())
    const cascaded = events.filter(event => event.subject_id !== creator.id)
    for (const { data } of cascaded) expect(JSON.parse(data as string)).toEqual({ revoked_with: creator.id })
  })

  it('revokes the keys of agents created with it', async () => {
    const tenant = await newTenant()
    const creator = await createKey(tenant)
    const listener = (await tenant.post('/v2/listeners', NewListener.meta()!.example)).body.id
    const agent = await createKey(tenant.as(creator.key), {}, `/v2/listeners/${listener}/keys`)
    await tenant.delete(`/workspaces/current/api-keys/${creator.id}`)
    expect(await codeOf(tenant, agent)).toBe('key_revoked')
  })

  it('is refused for a key of another organization or workspace', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const [, foreignKey] = await createKeyChain(other)
    for (const caller of [tenant, tenant.owner]) {
      expect(
        (
          await caller.delete(`/workspaces/current/api-keys/${foreignKey!.id}`, undefined, {
            'X-Tenant-Id': tenant.tenant_id,
          })
        ).status,
      ).toBe(404)
    }
    expect((await tenant.owner.delete(`/orgs/current/api-keys/${foreignKey!.id}`)).body.code).toBe('key_not_found')
    // The same between two workspaces of one organization.
    const second = (await other.owner.post('/workspaces', { display_name: 'Second' })).body.id
    const secondWorkspaceKey = await createKey(other.owner, { 'X-Tenant-Id': second })
    expect((await other.delete(`/workspaces/current/api-keys/${secondWorkspaceKey.id}`)).body.code).toBe(
      'key_not_found',
    )
    expect(await codeOf(other, foreignKey!)).toBeUndefined()
    expect(await codeOf(other, secondWorkspaceKey)).toBeUndefined()
  })

  it('also revokes the keys that it creates at the same time', async () => {
    const tenant = await newTenant()
    for (let round = 0; round < 4; round++) {
      const [first, second] = await createKeyChain(tenant)
      const creators = [first!, second!].map(({ key }) => tenant.as(key))
      const creations = Array.from({ length: 12 }, (_, i) =>
        creators[i % 2]!.post('/workspaces/current/api-keys', { description: 'late' }),
      )
      const revocation = tenant.delete(`/workspaces/current/api-keys/${first!.id}`)
      const [revoked, ...created] = await Promise.all([revocation, ...creations])
      expect(revoked.status).toBe(204)
      for (const { status, body } of created) {
        expect([201, 401]).toContain(status)
        expect(await codeOf(tenant, { key: status === 201 ? body.key : first!.key })).toBe('key_revoked')
      }
    }
  })

  it('writes one event per key when several requests revoke the same keys at the same time', async () => {
    const tenant = await newTenant()
    const [first, second, third] = await createKeyChain(tenant)
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
  it('can be listed by creator, and each key shows how many keys are below it', async () => {
    const tenant = await newTenant()
    const [first, second, third] = await createKeyChain(tenant)
    for (const [caller, base] of [
      [tenant, '/workspaces/current/api-keys'],
      [tenant.owner, '/orgs/current/api-keys'],
    ] as const) {
      const listed = (await caller.get(`${base}?created_by=${second!.id}`)).body.resources
      expect(listed.map((one: Key) => one.id)).toEqual([third!.id])
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
    const [, descendant] = await createKeyChain(tenant, tenant.as(body.key))
    clock.ahead = 2 * HOUR
    expect(await codeOf(tenant, descendant!)).toBe('key_expired')
  })
})
