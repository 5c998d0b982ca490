import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type Tenant, unusedId } from '../../support/app.ts'
import * as as from '../../support/authorization-server.ts'
import { getProviderPath } from '../../support/providers.ts'

const { server, app } = as.makeAuthorizationServer()
beforeEach(() => {
  server.token = () => as.respondWithTokens()
  server.revocation = () => new Response(null)
  server.revoked.length = 0
})

const countTokens = async ({ organization_id }: Tenant) => {
  const query = sql`select from oauth_tokens where organization_id = ${organization_id}::uuid`
  return (await runAsSystem(app.database, query))[0]!.length
}

describe('deleting a provider', () => {
  it('revokes its tokens in all workspaces of the organization, and no other tokens', async () => {
    const [{ tenant }, { tenant: other }] = [await as.setUpProvider(app), await as.setUpProvider(app)]
    const second = (await tenant.owner.post('/workspaces', { display_name: 'Second' })).body.id
    const inside = { 'X-Tenant-Id': second }
    const role_id = '00000000-0000-4000-8000-000000000001'
    const key = { description: 'second', role_id }
    const { body } = await tenant.owner.post('/workspaces/current/api-keys', key, inside)
    const sibling = { ...tenant, ...tenant.as(body.key), tenant_id: second }
    await as.completeAuthentication(app, tenant)
    await as.completeAuthentication(app, sibling)
    await as.completeAuthentication(app, other)
    const id = `trip-end-${unusedId()}`
    expect((await tenant.delete(getProviderPath('example'))).body.code).toBe('provider_not_yours')
    const { status } = await tenant.owner.delete(getProviderPath('example'), undefined, {
      ...inside,
      'X-Request-Id': id,
    })
    expect(status).toBe(204)
    expect(await countTrips(id)).toBe(1)
    const revoked = server.revoked.map(form => form.get('token'))
    expect(revoked.filter(token => token!.startsWith('refresh'))).toHaveLength(2)
    expect([await countTokens(tenant), await countTokens(other)]).toEqual([0, 1])
  })

  it('succeeds even if the server fails to revoke tokens', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    server.revocation = () => new Response(null, { status: 500 })
    expect((await tenant.delete(getProviderPath('example'))).status).toBe(204)
    expect(await countTokens(tenant)).toBe(0)
  })

  it('revokes no token if it is refused', async () => {
    const { tenant } = await as.setUpProvider(app)
    await as.completeAuthentication(app, tenant)
    expect((await tenant.delete(getProviderPath('example'), undefined, { 'If-Match': '"99"' })).status).toBe(412)
    expect([server.revoked.length, await countTokens(tenant)]).toEqual([0, 1])
  })
})
