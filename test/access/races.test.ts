// Conflicting requests that arrive at the same time.
import { expect, it } from 'vitest'
import { newTenant } from '../support/app.ts'

it('adding members to a workspace that is being deleted fails, and leaves no rows behind', async () => {
  const { owner } = await newTenant()
  const member_id = (await owner.post('/orgs/current/members', { email: 'a@example.com' })).body.id
  const narrow = { description: 'x', role_id: '00000000-0000-4000-8000-000000000003' }
  const rounds = Array.from({ length: 40 }, async (_, i) => {
    const { id } = (await owner.post('/workspaces', { display_name: `w${i}` })).body
    const inside = { 'X-Tenant-Id': id }
    const [deleted, ...others] = await Promise.all([
      owner.delete(`/workspaces/${id}`),
      ...[1, 2, 3].map(() => owner.post('/workspaces/current/api-keys', narrow, inside)),
      owner.post('/workspaces/current/members', { member_id }, inside),
    ])
    expect(deleted.status).toBe(204)
    for (const { status, body } of others) {
      expect([undefined, 'workspace_forbidden', 'workspace_not_found']).toContain(body.code)
      expect([201, 403, 404]).toContain(status)
    }
  })
  await Promise.all(rounds)
  const left = (await owner.get('/orgs/current/api-keys?limit=100')).body.resources
  expect(left.map(({ description }: { description: string }) => description)).not.toContain('x')
})

const ROUNDS = 25
const VIEWER = '00000000-0000-4000-8000-000000000003'
const rounds = <T>(one: (i: number) => Promise<T>) => Promise.all(Array.from({ length: ROUNDS }, (_, i) => one(i)))

it('deleting a role while it is granted to keys and members fails or wins, without a deadlock', async () => {
  const { owner } = await newTenant()
  await rounds(async i => {
    const wanted = { scope: 'organization', display_name: `r${i}`, permissions: ['organization:read'] }
    const role_id = (await owner.post('/orgs/current/roles', wanted)).body.id
    const [deleted, ...given] = await Promise.all([
      owner.delete(`/orgs/current/roles/${role_id}`),
      owner.post('/orgs/current/api-keys', { description: 'x', role_id }),
      owner.post('/orgs/current/members', { email: `m${i}@example.com`, role_id }),
      owner.post('/orgs/current/api-keys', { description: 'y', role_id }),
    ])
    expect([204, 'role_in_use']).toContain(deleted.body?.code ?? deleted.status)
    for (const { status, body } of given) {
      expect(body.code ?? status).toBe(deleted.status === 204 ? 'role_not_found' : 201)
    }
  })
})

it('members can be removed while their workspace or organization is changed or deleted', async () => {
  const { owner } = await newTenant()
  const organization = (i: number) => owner.patch('/orgs/current', { display_name: `o${i}-${crypto.randomUUID()}` })
  await rounds(async i => {
    const { id } = (await owner.post('/workspaces', { display_name: `w${i}` })).body
    const inside = { 'X-Tenant-Id': id }
    const people = await Promise.all(
      ['a', 'b', 'c'].map(name =>
        owner.post('/workspaces/current/members', { email: `${name}${i}@example.com` }, inside),
      ),
    )
    const [first, second, third] = people.map(({ body }) => body)
    const replies = await Promise.all([
      owner.delete(`/orgs/current/members/${first.member_id}`),
      owner.delete(`/workspaces/current/members/${second.id}`, undefined, inside),
      owner.patch(`/workspaces/current/members/${third.id}`, { role_id: VIEWER }, inside),
      i % 2
        ? owner.delete(`/workspaces/${id}`)
        : owner.patch(`/workspaces/${id}`, { display_name: `renamed ${i}` }, inside),
      organization(i),
    ])
    const allowed = [200, 204, 'last_admin', 'member_not_found', 'workspace_forbidden']
    for (const { status, body } of replies) expect(allowed).toContain(body?.code ?? status)
  })
})
