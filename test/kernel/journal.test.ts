import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { createKeylessCaller } from '../../src/kernel/http/context.ts'
import { changeWorkspace } from '../../src/people/access/service.ts'
import { getApp, getServices, newTenant, readEvents, unusedId } from '../support/app.ts'

const readSequence = async (scope: string) => {
  const query = sql`select seq, type from events where scope_id = ${scope} order by seq`
  const [rows] = await runAsSystem(getApp().database, query)
  return rows as [string, string][]
}

describe('the journal', () => {
  // `send` asserts for every request of every test that a successful write leaves an event.

  it('records the actor, the event type, the subject and the request', async () => {
    const { owner, tenant_id, organization_id } = await newTenant()
    const headers = { 'X-Tenant-Id': tenant_id, 'X-Request-Id': `journal-${unusedId()}` }
    const created = await owner.post('/workspaces/current/api-keys', { description: 'CI' }, headers)
    const [event, ...otherEvents] = await readEvents(headers['X-Request-Id'])
    expect(otherEvents).toEqual([])
    expect(event).toMatchObject({
      type: 'api_key.created',
      subject_id: created.body.id,
      actor_kind: 'key',
      actor_id: created.body.created_by,
      organization_id,
      tenant_id,
      scope_id: tenant_id,
    })
    expect(JSON.parse(event!.changes as string)).toContainEqual({ path: 'description', before: null, after: 'CI' })
    expect(JSON.stringify(event)).not.toContain(created.body.key.slice(4, 20))
  })

  it('records a change of an organization in the sequence of the organization', async () => {
    const { owner, organization_id } = await newTenant()
    const headers = { 'X-Request-Id': `journal-${unusedId()}` }
    await owner.post('/workspaces', { display_name: 'Staging' }, headers)
    expect(await readEvents(headers['X-Request-Id'])).toMatchObject([{ scope_id: organization_id, tenant_id: null }])
  })

  it('records actors without a key, which cannot change another tenant either', async () => {
    const [{ tenant_id, organization_id }, other] = [await newTenant(), await newTenant()]
    const actor = { kind: 'cron' as const, id: null, organization: organization_id, tenant: tenant_id }
    const caller = createKeylessCaller(getServices(), actor, `cron-${unusedId()}`, 'http://slipway.test')
    await changeWorkspace(caller, { workspace_id: tenant_id, display_name: 'Tidied' })
    expect(await readEvents(caller.requestId)).toMatchObject([
      {
        type: 'workspace.updated',
        subject_id: tenant_id,
        actor_kind: 'cron',
        actor_id: null,
        organization_id,
        tenant_id,
      },
    ])
    const foreign = changeWorkspace(caller, { workspace_id: other.tenant_id, display_name: 'Taken' })
    await expect(foreign).rejects.toMatchObject({ code: 'workspace_not_found' })
    expect((await other.get(`/workspaces/${other.tenant_id}`)).body.display_name).not.toBe('Taken')
  })

  it('records nothing for a refused request', async () => {
    const { owner, tenant_id } = await newTenant()
    const headers = { 'X-Request-Id': `journal-${unusedId()}` }
    await owner.patch(`/workspaces/${tenant_id}`, { display_name: 'X' }, { ...headers, 'If-Match': '"9"' })
    await owner.delete(`/workspaces/${unusedId()}`, undefined, headers)
    await owner.post('/orgs/current/members', { email: 'owner@example.com' }, headers)
    expect(await readEvents(headers['X-Request-Id'])).toEqual([])
  })

  it('numbers the events of a workspace without gaps under parallel writes', async () => {
    const tenant = await newTenant()
    const path = `/workspaces/${tenant.tenant_id}`
    const before = (await readSequence(tenant.tenant_id)).length
    const writeRepeatedly = async (n: number) => {
      for (let i = 0; i < 12; i++) expect((await tenant.patch(path, { display_name: `${n}-${i}` })).status).toBe(200)
    }
    await Promise.all(Array.from({ length: 8 }, (_, n) => writeRepeatedly(n)))
    const rows = await readSequence(tenant.tenant_id)
    expect(rows.map(([seq]) => Number(seq))).toEqual(Array.from({ length: before + 96 }, (_, i) => i + 1))
    expect((await tenant.get(path)).headers.get('ETag')).toBe('"97"')
  })
})
