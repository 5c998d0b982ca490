// What every route refuses whoever the caller is; which permission it asks for, test/access/permission-matrix.test.ts says.
import { beforeAll, describe, expect, it } from 'vitest'
import { ADMIN } from '../src/access/built-in-roles.ts'
import { newApiKey } from '../src/kernel/crypto.ts'
import {
  getExampleBody,
  getExampleQuery,
  guardedOperations,
  newTenant,
  send,
  type Tenant,
  withClockAhead,
} from './support/app.ts'
import { newPathParameters } from './support/path-parameters.ts'

let own: Tenant
let other: Tenant
let keys: Record<'revoked' | 'expired', string>
/** For every path parameter, a thing of the other tenant. */
let foreign: Record<string, string>

beforeAll(async () => {
  ;[own, other] = await Promise.all([newTenant(), newTenant()])
  const make = async (input: object = {}) =>
    (await own.post('/workspaces/current/api-keys', { description: 'x', ...input })).body
  const revoked = await make()
  await own.delete(`/workspaces/current/api-keys/${revoked.id}`)
  const expired = await make({ expires_at: new Date(Date.now() + 1000).toISOString() })
  keys = { revoked: revoked.key, expired: expired.key }
  foreign = { ...(await newPathParameters(other)), number: '1' }
})

const pathOf = (path: string) => path.replace(/\{(\w+)\}/g, (_, name) => foreign[name] ?? `no foreign ${name}`)

describe.each(guardedOperations.map(operation => [operation.id, operation] as const))('%s', (_, operation) => {
  const call = (headers: Record<string, string>) =>
    send(operation.method.toUpperCase(), pathOf(operation.path) + getExampleQuery(operation), {
      body: getExampleBody(operation),
      headers,
    })
  const outcome = async (headers: Record<string, string>) => {
    const { status, body } = await call(headers)
    return [status, body?.code]
  }

  it('refuses who sends no key', async () => {
    expect(await outcome({})).toEqual([401, 'key_missing'])
  })

  it('refuses a malformed key', async () => {
    expect(await outcome({ 'X-Api-Key': `${own.key}x` })).toEqual([401, 'key_malformed'])
    expect(await outcome({ Authorization: 'Bearer secret' })).toEqual([401, 'key_malformed'])
  })

  it('refuses a key that nobody made', async () => {
    expect(await outcome({ 'X-Api-Key': newApiKey() })).toEqual([401, 'key_unknown'])
  })

  it('refuses a revoked key', async () => {
    expect(await outcome({ 'X-Api-Key': keys.revoked })).toEqual([401, 'key_revoked'])
  })

  it('refuses an expired key', async () => {
    expect(await withClockAhead(60_000, () => outcome({ 'X-Api-Key': keys.expired }))).toEqual([401, 'key_expired'])
  })

  it('refuses to act in another tenant’s workspace', async () => {
    for (const { key } of [own, own.owner]) {
      expect(await outcome({ 'X-Api-Key': key, 'X-Tenant-Id': other.tenant_id })).toEqual([403, 'workspace_forbidden'])
    }
  })

  it('does not find another tenant’s thing', async () => {
    if (!operation.params) return
    const { status } = await call({ 'X-Api-Key': own.owner.key, 'X-Tenant-Id': own.tenant_id })
    expect(status).toBe(404)
    expect((await send('GET', '/workspaces', { headers: { 'X-Api-Key': other.key } })).status).toBe(200)
  })
})

it('leaves the other tenant as it was', async () => {
  const [membership] = (await other.get('/workspaces/current/members')).body.resources
  expect(membership).toMatchObject({ id: foreign.membership_id, role_id: ADMIN })
  expect((await other.owner.get(`/orgs/current/roles/${foreign.role_id}`)).body.display_name).toBe('Role')
  expect((await other.get('/workspaces/current/api-keys')).body.resources).toHaveLength(1)
})
