// Invalid keys and foreign workspaces, on every route: one request of each kind, because all routes ask enter_by_key(),
// which judges the other keys. For permissions see test/people/access/permission-matrix.test.ts.
import { beforeAll, describe, expect, inject, it } from 'vitest'
import { newApiKey } from '../src/kernel/crypto/crypto.ts'
import type { Operation } from '../src/kernel/http/routes.ts'
import { permissionNames } from '../src/kernel/permissions.ts'
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
import { findUnexpected } from './support/entries.ts'
import { newPathParameters } from './support/path-parameters.ts'

const operations = inject('tries') === 'each route' ? guardedOperations : onePerPermission(guardedOperations)
const listRequests = (workspaces: (string | undefined)[]) =>
  permissionNames.flatMap(permission =>
    [true, false].flatMap(inWorkspace => workspaces.map(workspace => ({ permission, inWorkspace, workspace }))),
  )
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

  it('refuses a key that is valid no longer', async () => {
    const outcome = await withClockAhead(60_000, () => readOutcome({ 'X-Api-Key': keys.expired }))
    expect(outcome).toEqual([401, 'key_expired'])
  })

  it('refuses a request for a workspace of another organization', async () => {
    const headers = { 'X-Api-Key': own.owner.key, 'X-Tenant-Id': other.tenant_id }
    expect(await readOutcome(headers)).toEqual([403, 'workspace_forbidden'])
  })
})

it.each([
  ['was never created', 'key_unknown'],
  ['is revoked', 'key_revoked'],
  ['has expired', 'key_expired'],
] as const)('a key that %s is refused, whatever it asks for', async (_, code) => {
  const key = { key_unknown: newApiKey(), key_revoked: keys.revoked, key_expired: keys.expired }[code]
  const entries = listRequests([undefined, own.tenant_id, other.tenant_id]).map(one => ({ ...one, key, ahead: 60 }))
  expect(await findUnexpected(entries, () => code)).toEqual([])
})

it('no key enters a workspace of another organization, whatever it asks for', async () => {
  const requests = listRequests([other.tenant_id])
  const entries = [own.key, own.owner.key].flatMap(key => requests.map(one => ({ ...one, key })))
  expect(await findUnexpected(entries, () => 'workspace_forbidden')).toEqual([])
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
