import { expect, it } from 'vitest'
import { newTenant } from '../support/app.ts'

it('a response reports all faults of a request at once: in its headers, path, query and body', async () => {
  const { patch, post, get } = await newTenant()
  const headers = { 'X-Tenant-Id': 'mine', 'Idempotency-Key': 'a b' }
  const listLocations = (reply: { body: { errors: { loc: unknown[] }[] } }) =>
    reply.body.errors.map(fault => fault.loc.join('.'))
  const patched = await patch('/orgs/current/members/me', { full_name: 1, role_id: 'x' }, headers)
  expect(listLocations(patched).sort()).toEqual([
    'body.full_name',
    'body.role_id',
    'header.Idempotency-Key',
    'header.X-Tenant-Id',
    'path.member_id',
  ])
  expect(listLocations(await get('/workspaces?limit=0&offset=-1&cursor=x')).sort()).toEqual([
    'query.cursor',
    'query.limit',
    'query.offset',
  ])
  const posted = await post('/workspaces/current/members', { email: 'x', member_id: 'y', role_id: 'z' })
  expect(listLocations(posted).sort()).toEqual(['body.email', 'body.member_id', 'body.role_id'])
})
