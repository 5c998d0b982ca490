import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { type App, newTenant, type Reply, type Tenant, unusedId } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { signInByOperator, startAdministeredApp } from '../support/instance-admins.ts'

const DAY_MS = 86_400_000
const today = () => new Date().toISOString().slice(0, 10)
const PATH = '/orgs/current/usage/backfill-export'
const ENDS = { start: '2026-01-01', end: '2026-01-01' }

let tenant: Tenant
let app: App
let email: string
beforeAll(async () => {
  ;({ app, email } = startAdministeredApp())
  tenant = await newTenant({ app })
})
const rowsOf = ({ body }: Reply) => body as Record<string, unknown>[]
const traceRun = (to: Tenant, inputs: object) => {
  const id = unusedId()
  return to.post('/runs', { id, trace_id: id, name: 'run', run_type: 'chain', inputs, ...atNow(id) })
}
function atNow(id: string) {
  const start_time = new Date().toISOString()
  return {
    start_time,
    dotted_order: `${start_time.replace(/[-:.]/g, '').slice(0, 15)}${start_time.slice(20, 23)}000Z${id}`,
  }
}

describe('the usage of an organization', () => {
  it('has traces, bytes and deployments of each workspace and day', async () => {
    const inputs = { text: 'x'.repeat(1000) }
    for (let i = 0; i < 2; i++) expect((await traceRun(tenant, inputs)).status).toBe(202)
    const kept = (await tenant.post('/v2/deployments', makeImageBody())).body
    const gone = (await tenant.post('/v2/deployments', makeImageBody())).body
    const [row] = rowsOf(await tenant.owner.get(PATH))
    expect(row).toMatchObject({
      organization_id: tenant.organization_id,
      workspace_id: tenant.tenant_id,
      workspace_name: 'Default',
      day: today(),
      traces: 2,
      deployments: 2,
    })
    expect(row!.bytes).toBeGreaterThan(2000)
    expect(row!.bytes).toBeLessThan(4000)
    expect(kept.id).not.toBe(gone.id)
  })

  it('keeps the deployments of a day that are deleted later', async () => {
    const own = await newTenant({ app })
    const { id } = (await own.post('/v2/deployments', makeImageBody())).body
    await runAsSystem(
      app.database,
      sql`update deployments set created_at = now() - interval '3 days' where id = ${id}::uuid`,
      sql`select set_config('app.clock_offset', '0', true)`,
      sql`delete from deployments where id = ${id}::uuid`,
    )
    const days = rowsOf(await own.owner.get(PATH)).map(({ day, deployments }) => [day, deployments])
    const dayBefore = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10)
    expect(days).toEqual([3, 2, 1].map(n => [dayBefore(n), 1]))
  })

  it('has no usage of another organization', async () => {
    const own = await newTenant({ app })
    expect(rowsOf(await own.owner.get(PATH))).toEqual([])
  })

  it('is a file of CSV if the query or Accept asks for it, whose cells run nothing', async () => {
    await tenant.owner.patch('/orgs/current', { display_name: '=HYPERLINK("https://evil.example")' })
    const files = [await tenant.owner.get(`${PATH}?format=csv`), await tenant.owner.get(PATH, { Accept: 'text/csv' })]
    for (const { headers, text } of files) {
      expect(headers.get('Content-Type')).toMatch(/^text\/csv/)
      const [header, row] = text.split('\r\n')
      expect(header).toBe('organization_id,organization_name,workspace_id,workspace_name,day,traces,bytes,deployments')
      expect(row).toContain(`,"'=HYPERLINK(""https://evil.example"")",`)
    }
    const preferring = await tenant.owner.get(PATH, { Accept: 'text/csv;q=0.5, application/json' })
    expect(preferring.headers.get('Content-Type')).toBe('application/json')
    expect((await tenant.owner.get(`${PATH}?format=json`, { Accept: 'text/csv' })).body).toHaveLength(1)
  })

  it.each(['/v1', '/api/v1', ''])('is served below %j', async prefix => {
    expect((await tenant.owner.get(prefix + PATH)).status).toBe(200)
  })

  it.each([
    'start=2026-01-02&end=2026-01-01',
    'start=2026-01-01&end=2026-04-03',
    'start=yesterday',
    'format=xml',
    'installation=maybe',
  ])('is refused for %s', async query => {
    expect((await tenant.owner.get(`${PATH}?${query}`)).status).toBe(422)
  })

  it('is read in pages of workspaces', async () => {
    const own = await newTenant({ app })
    for (let i = 0; i < 12; i++) await own.owner.post('/workspaces', { display_name: `w${i}` })
    await runAsSystem(
      app.database,
      sql`
        insert into deployments (
          organization_id, tenant_id, name, source, deployment_type, status, source_config, source_revision_config,
          secrets, created_at
        )
        select organization_id, id, 'x', 'external_container', 'dev', 'READY', '{}', '{}', '[]',
          now() - interval '91 days'
        from workspaces
        where organization_id = ${own.organization_id}::uuid`,
    )
    const start = new Date(Date.now() - 90 * DAY_MS).toISOString().slice(0, 10)
    const rows = rowsOf(await own.owner.get(`${PATH}?start=${start}`))
    expect(rows).toHaveLength(13 * 91)
    expect(new Set(rows.map(row => row.workspace_id)).size).toBe(13)
  })
})

describe('a reader of the usage', () => {
  it('manages the organization, or is an instance admin', async () => {
    const readers = {
      owner: tenant.owner,
      'instance admin without a role': await signInByOperator(tenant, email, app),
      'workspace key': tenant,
      'organization key without the permission': tenant.as(
        (
          await tenant.owner.post('/orgs/current/api-keys', {
            description: 'x',
            permissions: ['organization:read', 'audit-logs:read'],
          })
        ).body.key,
      ),
    }
    const codes: Record<string, string | number> = {}
    for (const [name, reader] of Object.entries(readers)) {
      const { status, body } = await reader.get(`${PATH}?start=${ENDS.start}&end=${ENDS.end}`)
      codes[name] = body?.code ?? status
    }
    expect(codes).toEqual({
      owner: 200,
      'instance admin without a role': 200,
      'workspace key': 'usage_forbidden',
      'organization key without the permission': 'usage_forbidden',
    })
  })

  it('is in the audit log', async () => {
    const own = await newTenant({ app })
    const { headers } = await own.owner.get(PATH)
    await own.owner.get('/v2/admin/fleet')
    await finishPendingWork()
    const window = 'start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&operations=export_usage,read_fleet'
    const { body } = await own.owner.get(`/v1/audit-logs?${window}`)
    const operations = body.items.map((item: { api: { operation: string } }) => item.api.operation)
    expect(operations.toSorted()).toEqual(['export_usage', 'read_fleet'])
    expect(headers.get('Cache-Control')).toBe('no-store')
  })
})

it('an instance admin exports all organizations', async () => {
  const own = await newTenant({ app })
  await own.post('/v2/deployments', makeImageBody())
  const admin = await signInByOperator(own, email, app)
  const rows = rowsOf(await admin.get(`${PATH}?installation=true`))
  const found = new Set(rows.map(row => row.organization_id))
  expect([found.has(own.organization_id), found.has(tenant.organization_id)]).toEqual([true, true])
})
