import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { ADMIN, ORGANIZATION_ADMIN } from '../../../src/people/access/built-in-roles.ts'
import { getApp, newTenant, unusedId } from '../../support/app.ts'

it('a bootstrap with the names of an earlier or concurrent one adds a key and creates nothing else', async () => {
  // Opens the connections on which the bootstraps meet.
  const [{ as }] = await Promise.all([newTenant(), newTenant(), newTenant()])
  const names = { organization: `org-${unusedId()}`, emails: ['owner@example.com'] }
  const run = (scope: 'workspace' | 'organization') => bootstrap(getApp().database, { ...names, scope })
  const [first, ...others] = await Promise.all([run('workspace'), run('organization'), run('workspace')])
  const { api_key: lastKey, ...last } = await run('organization')
  for (const { api_key, ...ids } of [first, ...others]) {
    expect(ids).toEqual(last)
    expect((await as(api_key).get('/orgs/current/info')).body.id).toBe(last.organization_id)
  }

  const owner = as(lastKey)
  const { resources: workspaces } = (await owner.get('/workspaces')).body
  expect(workspaces).toMatchObject([{ id: last.tenant_id, display_name: 'Default' }])
  const { resources: members } = (await owner.get('/orgs/current/members')).body
  expect(members).toMatchObject([{ email: 'owner@example.com', role_id: ORGANIZATION_ADMIN }])
  const { resources: workspaceMembers } = (await as(first.api_key).get('/workspaces/current/members')).body
  expect(workspaceMembers).toMatchObject([{ email: 'owner@example.com', role_id: ADMIN }])
  const organizations = sql`
    select id
    from organizations
    where display_name = ${names.organization}`
  const journal = sql`
    select scope_id, seq, type
    from events
    where organization_id = ${last.organization_id}
    order by scope_id = ${last.tenant_id}, seq`
  const [ids, events] = await runAsSystem(getApp().database, organizations, journal)
  expect(ids).toEqual([[last.organization_id]])
  expect(events).toEqual(
    [last.organization_id, last.tenant_id].flatMap(scope => ['1', '2'].map(seq => [scope, seq, 'api_key.created'])),
  )
})
