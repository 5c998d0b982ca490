// Conflicting requests that arrive at the same time.
import { expect, it } from 'vitest'
import { VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { newTenant } from '../../support/app.ts'

/** A few at a time: requests that wait too long for a connection are refused. */
async function runRounds(count: number, round: (i: number) => Promise<void>): Promise<void> {
  const atOnce = 5
  for (let first = 0; first < count; first += atOnce)
    await Promise.all(Array.from({ length: Math.min(atOnce, count - first) }, (_, i) => round(first + i)))
}

it('keys and members added to a workspace during its deletion are refused or deleted with it', async () => {
  const { owner } = await newTenant()
  const member_id = (await owner.post('/orgs/current/members', { email: 'a@example.com' })).body.id
  const viewerKey = { description: 'x', role_id: VIEWER }
  await runRounds(40, async i => {
    const { id } = (await owner.post('/workspaces', { display_name: `w${i}` })).body
    const inside = { 'X-Tenant-Id': id }
    const [deleted, ...additions] = await Promise.all([
      owner.delete(`/workspaces/${id}`),
      ...[1, 2, 3].map(() => owner.post('/workspaces/current/api-keys', viewerKey, inside)),
      owner.post('/workspaces/current/members', { member_id }, inside),
    ])
    expect(deleted.status).toBe(204)
    for (const { status, body } of additions) {
      expect([undefined, 'workspace_forbidden', 'workspace_not_found']).toContain(body.code)
      expect([201, 403, 404]).toContain(status)
    }
  })
  const remaining = (await owner.get('/orgs/current/api-keys?limit=100')).body.resources
  expect(remaining.map(({ description }: { description: string }) => description)).not.toContain('x')
})

it('a role that is deleted while it is granted is either deleted or granted, without a deadlock', async () => {
  const { owner } = await newTenant()
  await runRounds(25, async i => {
    const role = { scope: 'organization', display_name: `r${i}`, permissions: ['organization:read'] }
    const role_id = (await owner.post('/orgs/current/roles', role)).body.id
    const [deleted, ...grants] = await Promise.all([
      owner.delete(`/orgs/current/roles/${role_id}`),
      owner.post('/orgs/current/api-keys', { description: 'x', role_id }),
      owner.post('/orgs/current/members', { email: `m${i}@example.com`, role_id }),
      owner.post('/orgs/current/api-keys', { description: 'y', role_id }),
    ])
    expect([204, 'role_in_use']).toContain(deleted.body?.code ?? deleted.status)
    for (const { status, body } of grants) {
      expect(body.code ?? status).toBe(deleted.status === 204 ? 'role_not_found' : 201)
    }
  })
})

it('members can be removed while their workspace or organization is changed or deleted', async () => {
  const { owner } = await newTenant()
  const renameOrganization = (i: number) =>
    owner.patch('/orgs/current', { display_name: `o${i}-${crypto.randomUUID()}` })
  await runRounds(25, async i => {
    const { id } = (await owner.post('/workspaces', { display_name: `w${i}` })).body
    const inside = { 'X-Tenant-Id': id }
    const added = await Promise.all(
      ['a', 'b', 'c'].map(name =>
        owner.post('/workspaces/current/members', { email: `${name}${i}@example.com` }, inside),
      ),
    )
    expect(added.map(({ status, body }) => body.code ?? status)).toEqual([201, 201, 201])
    const [first, second, third] = added.map(({ body }) => body)
    const replies = await Promise.all([
      owner.delete(`/orgs/current/members/${first.member_id}`),
      owner.delete(`/workspaces/current/members/${second.id}`, undefined, inside),
      owner.patch(`/workspaces/current/members/${third.id}`, { role_id: VIEWER }, inside),
      i % 2
        ? owner.delete(`/workspaces/${id}`)
        : owner.patch(`/workspaces/${id}`, { display_name: `renamed ${i}` }, inside),
      renameOrganization(i),
    ])
    const allowed = [200, 204, 'last_admin', 'member_not_found', 'workspace_forbidden']
    for (const { status, body } of replies) expect(allowed).toContain(body?.code ?? status)
  })
})
