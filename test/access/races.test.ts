// What happens when two requests want opposite things at the same moment.
import { expect, it } from 'vitest'
import { newTenant } from '../support/app.ts'

it('a workspace that is deleted while others join it is not found, and nothing of it is left', async () => {
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
