// Invalid keys and foreign workspaces, on every route. For permissions see
// test/people/access/permission-matrix.test.ts.
import { beforeAll, describe, expect, inject, it } from 'vitest'
import { newApiKey } from '../src/kernel/crypto/crypto.ts'
import type { Operation } from '../src/kernel/http/routes.ts'
import { ADMIN } from '../src/people/access/built-in-roles.ts'
import {
  getExampleQuery,
  getExampleRequest,
  guardedOperations,
  newTenant,
  onePerPermission,
  send,
  type Tenant,
  withClockAhead,
} from './support/app.ts'
import { newPathParameters } from './support/path-parameters.ts'

const operations = inject('tries') === 'each route' ? guardedOperations : onePerPermission(guardedOperations)
let own: Tenant
let other: Tenant
let keys: Record<'revoked' | 'expired', string>
/** Ids of the other tenant's resources, by the name of the path parameter. */
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
const callOperation = (operation: Operation, headers: Record<string, string>) => {
  const example = getExampleRequest(operation)
  return send(operation.method.toUpperCase(), pathOf(operation.path) + getExampleQuery(operation), {
    ...example,
    headers: { ...example.headers, ...headers },
  })
}

describe.each(operations.map(operation => [operation.id, operation] as const))('%s', (_, operation) => {
  const readOutcome = async (headers: Record<string, string>) => {
    const { status, body } = await callOperation(operation, headers)
    return [status, body?.code]
  }

  it('refuses a request without a key', async () => {
    expect(await readOutcome({})).toEqual([401, 'key_missing'])
  })

  it('refuses a malformed key', async () => {
    expect(await readOutcome({ 'X-Api-Key': `${own.key}x` })).toEqual([401, 'key_malformed'])
    expect(await readOutcome({ Authorization: 'Bearer secret' })).toEqual([401, 'key_malformed'])
  })

  it('refuses a key that was never created', async () => {
    expect(await readOutcome({ 'X-Api-Key': newApiKey() })).toEqual([401, 'key_unknown'])
  })

  it('refuses a revoked key', async () => {
    expect(await readOutcome({ 'X-Api-Key': keys.revoked })).toEqual([401, 'key_revoked'])
  })

  it('refuses an expired key', async () => {
    expect(await withClockAhead(60_000, () => readOutcome({ 'X-Api-Key': keys.expired }))).toEqual([401, 'key_expired'])
  })

  it('refuses a request for a workspace of another organization', async () => {
    for (const { key } of [own, own.owner]) {
      const outcome = await readOutcome({ 'X-Api-Key': key, 'X-Tenant-Id': other.tenant_id })
      expect(outcome).toEqual([403, 'workspace_forbidden'])
    }
  })
})

describe('an operation on a resource of another tenant answers 404', () => {
  const withParameters = operations.filter(operation => operation.params)
  it.each(withParameters.map(operation => [operation.id, operation] as const))('%s', async (_, operation) => {
    const { status } = await callOperation(operation, { 'X-Api-Key': own.owner.key, 'X-Tenant-Id': own.tenant_id })
    expect(status).toBe(404)
  })
})

it('none of the refused requests above changed the other tenant', async () => {
  expect((await other.get('/workspaces')).status).toBe(200)
  const [membership] = (await other.get('/workspaces/current/members')).body.resources
  expect(membership).toMatchObject({ id: foreign.membership_id, role_id: ADMIN })
  expect((await other.owner.get(`/orgs/current/roles/${foreign.role_id}`)).body.display_name).toBe('Role')
  expect((await other.get('/workspaces/current/api-keys')).body.resources).toHaveLength(1)
})
