import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { newSessionToken } from '../../../src/kernel/crypto/crypto.ts'
import { sha256Hex } from '../../../src/kernel/crypto/digest.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { ApiActivity } from '../../../src/people/audit/schema.ts'
import {
  type App,
  getApp,
  logLines,
  newTenant,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import { startStreamingApp } from '../../support/live-streams.ts'
import { asSession, newSession, tokenOf } from '../../support/sessions.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const keyOf = ({ owner }: Tenant) => ({ 'X-Api-Key': owner.key })
const AUDITOR = '00000000-0000-4000-8000-000000000006'
const WINDOW = 'start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z'
type Item = ApiActivity

async function list({ owner }: Pick<Tenant, 'owner'>, query = ''): Promise<{ items: Item[]; cursor: string | null }> {
  await finishPendingWork()
  const { status, body } = await owner.get(`/v1/audit-logs?${WINDOW}&limit=100${query}`)
  expect(status).toBe(200)
  return body
}
const listItems = async (tenant: Pick<Tenant, 'owner'>, query = '') => (await list(tenant, query)).items
const findByRequest = async (tenant: Tenant, requestId: string | null) =>
  (await listItems(tenant)).filter(item => item.unmapped.request_id === requestId)
const requestIdOf = ({ headers }: { headers: Headers }) => headers.get('X-Request-Id')

async function listAllPages(tenant: Tenant, limit: number, between = async () => {}): Promise<Item[]> {
  const items: Item[] = []
  let cursor = ''
  for (;;) {
    const { body } = await tenant.owner.get(`/v1/audit-logs?${WINDOW}&limit=${limit}${cursor}`)
    items.push(...body.items)
    if (body.cursor === null) return items
    cursor = `&cursor=${body.cursor}`
    await between()
  }
}
const idOf = (item: Item) => item.metadata.uid

const body = (name: string) => ({
  name,
  source: 'internal_template',
  source_config: { template_id: 'web-service' },
  source_revision_config: {},
  secrets: [{ name: 'TOKEN', value: 'canary-of-the-audit-log' }],
})

describe('the audit log', () => {
  it('shows each write as one item of OCSF API Activity, with its changes', async () => {
    const tenant = await newTenant()
    const headers = { 'User-Agent': 'curl/8' }
    const created = await tenant.post('/v2/deployments', body('shop'), headers)
    const patched = await tenant.patch(`/workspaces/${tenant.tenant_id}`, { display_name: 'Renamed' }, headers)
    const [item, ...others] = await findByRequest(tenant, requestIdOf(created))
    expect(others).toEqual([])
    expect(ApiActivity.parse(item)).toEqual(item)
    expect(item).toMatchObject({
      class_uid: 6003,
      type_uid: 600301,
      activity_name: 'Create',
      status: 'Success',
      api: { operation: 'create_deployment' },
      http_request: { http_method: 'POST', url: { path: '/v2/deployments' } },
      http_response: { code: 201 },
      unmapped: {
        user_agent: 'curl/8',
        actor_name: 'Key of a test',
        original_audit_log: { workspace_id: tenant.tenant_id, organization_id: tenant.organization_id },
      },
    })
    expect(item!.resources).toContainEqual({ uid: created.body.id })
    const [changed] = await findByRequest(tenant, requestIdOf(patched))
    expect(changed).toMatchObject({ type_uid: 600303, api: { operation: 'update_workspace' } })
    expect(changed!.unmapped.events[0]!.changes).toEqual([
      { path: 'display_name', before: 'Default', after: 'Renamed' },
    ])
  })

  it('shows an agent’s report as one item with all of its events', async () => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    const { id, latest_revision_id } = (
      await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'shop' }))
    ).body
    const agent = makeSyncAgent(tenant, key)
    await agent.pollAll()
    const work = { deployment_id: id, generation: agent.generations.get(id)! }
    await agent.report(work, { revision_id: latest_revision_id, state: 'deployed', message: null })
    const reports = (await listItems(tenant)).filter(item => item.http_request.url.path === '/v1/sync/report')
    expect(reports).toHaveLength(1)
    expect(reports[0]!.unmapped).toMatchObject({ actor_kind: 'listener', actor_name: listener.compute_id })
    expect(reports[0]!.unmapped.events.length).toBeGreaterThan(2)
    expect(reports[0]!.actor.user.uid).toBe(listener.id)
  })

  it('shows a write with many subjects as one item', async () => {
    const tenant = await newTenant()
    const ids = []
    for (const name of ['one', 'two']) ids.push((await tenant.post('/v2/deployments', body(name))).body.id)
    const deleted = await tenant.delete(`/v2/deployments?deployment_ids=${ids}`)
    const [item, ...others] = await findByRequest(tenant, requestIdOf(deleted))
    expect(others).toEqual([])
    expect(item).toMatchObject({ api: { operation: 'delete_deployment' }, type_uid: 600304 })
    expect(item!.resources.map(({ uid }) => uid).sort()).toEqual(ids.sort())
    const bySecond = await listItems(tenant, `&subject_id=${item!.resources[1]!.uid}`)
    expect(bySecond.map(idOf)).toContain(idOf(item!))
  })

  it('filters by time, workspace, actor, subject and operations', async () => {
    const tenant = await newTenant()
    const second = (await tenant.owner.post('/workspaces', { display_name: 'Second' })).body.id
    const inside = { 'X-Tenant-Id': second }
    const tag = await tenant.owner.post('/v2/tag-keys', { key: 'team' }, inside)
    await tenant.post('/v2/tag-keys', { key: 'team' })
    const operations = async (query: string) =>
      (await listItems(tenant, query)).map(item => item.api.operation).filter(name => name !== 'list_audit_logs')
    expect(await operations(`&workspace_id=${second}`)).toEqual(['create_tag_key'])
    expect(await operations(`&subject_id=${tag.body.id}`)).toEqual(['create_tag_key'])
    expect(await operations('&operations=create_workspace&operations=create_tag_key')).toEqual([
      'create_tag_key',
      'create_tag_key',
      'create_workspace',
    ])
    expect(await operations('&operations=create_workspace,create_role')).toEqual(['create_workspace'])
    const key = (await tenant.get('/workspaces/current/api-keys')).body.resources[0].id
    expect(await operations(`&actor_id=${key}`)).toEqual(['create_tag_key'])
    expect(await operations(`&actor_id=${unusedId()}`)).toEqual([])

    const [item] = await listItems(tenant, '&operations=create_workspace')
    const at = new Date(item!.time).toISOString()
    const window = async (start: string, end: string) =>
      (await tenant.owner.get(`/v1/audit-logs?start_time=${start}&end_time=${end}&operations=create_workspace`)).body
        .items.length
    expect(await window(at, at)).toBe(1)
    expect(await window('2020-01-01T00:00:00Z', new Date(item!.time - 1).toISOString())).toBe(0)
    expect((await tenant.owner.get(`/v1/audit-logs?${WINDOW}&operations=made_up`)).status).toBe(422)
    expect((await tenant.owner.get('/v1/audit-logs?start_time=2020-01-01T00:00:00Z')).status).toBe(422)
  })

  it('has every item once in pages of any size, also while events are written', async () => {
    const tenant = await newTenant()
    for (let i = 0; i < 12; i++) await tenant.post('/v2/tag-keys', { key: `key-${i}` })
    for (let i = 0; i < 12; i++) await tenant.post('/v2/tag-keys', { key: 'key-0' })
    await finishPendingWork()
    const before = (await listItems(tenant)).map(idOf)
    expect(before.filter(id => id.startsWith('att_'))).toHaveLength(12)
    let n = 0
    const write = async () => void (await tenant.post('/v2/tag-keys', { key: `more-${n++}` }))
    const items = await listAllPages(tenant, 5, write)
    const ids = items.map(idOf)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).toEqual(expect.arrayContaining(before))
    expect(items.map(item => item.time)).toEqual(items.map(item => item.time).sort((a, b) => b - a))
  })

  it('is of one organization, and refused to keys without the permission', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    await other.post('/v2/tag-keys', { key: 'theirs' })
    const text = JSON.stringify(await listItems(tenant, `&workspace_id=${other.tenant_id}`))
    expect(text).not.toContain(other.organization_id)
    expect(JSON.stringify(await listItems(tenant))).not.toContain(other.organization_id)
    const refused = await tenant.get(`/v1/audit-logs?${WINDOW}`)
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_missing'])
  })

  it('is all that the role Auditor can read, and it can change nothing', async () => {
    const tenant = await newTenant()
    const { key } = (await tenant.owner.post('/orgs/current/api-keys', { description: 'a', role_id: AUDITOR })).body
    const auditor = tenant.as(key)
    for (const path of [`?${WINDOW}`, '/operations', `/export?${WINDOW}`])
      expect((await auditor.get(`/v1/audit-logs${path}`)).status).toBe(200)
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    expect((await auditor.get('/v2/deployments', inside)).status).toBe(403)
    expect((await auditor.get('/orgs/current/api-keys')).status).toBe(403)
    expect((await auditor.post('/v2/tag-keys', { key: 'x' }, inside)).status).toBe(403)
    expect((await auditor.post('/workspaces', { display_name: 'x' })).status).toBe(403)
  })

  it('is filtered by whether a request was done or refused', async () => {
    const tenant = await newTenant()
    await tenant.post('/v2/tag-keys', { key: 'team' })
    await tenant.post('/v2/tag-keys', { key: 'team' })
    const operations = async (succeeded: boolean) =>
      (await listItems(tenant, `&succeeded=${succeeded}`)).map(({ api, status }) => [api.operation, status])
    expect(await operations(false)).toEqual([['create_tag_key', 'Failure']])
    const done = await operations(true)
    expect(done).toContainEqual(['create_tag_key', 'Success'])
    expect(done).toContainEqual(['list_audit_logs', 'Success'])
    expect(done.every(([, status]) => status === 'Success')).toBe(true)
  })

  it('answers 404 and records no attempts where the operator switched it off', async () => {
    const app = startApp({ settings: { AUDIT_LOGS: 'off' } })
    const tenant = await newTenant({ app })
    expect((await tenant.post('/v2/tag-keys', { key: '' })).status).toBe(422)
    for (const path of [`?${WINDOW}`, '/operations', `/export?${WINDOW}`])
      expect(await tenant.owner.get(`/v1/audit-logs${path}`)).toMatchObject({
        status: 404,
        body: { code: 'audit_logs_off' },
      })
    expect((await tenant.post('/v2/tag-keys', { key: 'kept' })).status).toBe(201)
    const on = await send('GET', `/v1/audit-logs?${WINDOW}`, { headers: { 'X-Api-Key': tenant.owner.key } })
    expect(on.body.items.map((item: Item) => item.api.operation)).toEqual([
      'create_tag_key',
      'create_api_key',
      'create_api_key',
    ])
  })
})

describe('an attempt', () => {
  const attempts = async (tenant: Tenant, app: App = getApp()) => {
    await finishPendingWork()
    const [rows] = await runAsSystem(
      app.database,
      sql<unknown[]>`
        select operation, status, code, tenant_id, left_out
        from audit_attempts
        where organization_id = ${tenant.organization_id}::uuid
        order by id`,
    )
    return (rows as [string, string, string | null, string | null, string][]).map(
      ([operation, status, code, workspace, leftOut]) => [operation, Number(status), code, workspace, Number(leftOut)],
    )
  }

  it('is recorded for a refused write, a missing permission, and a key that is revoked or expired', async () => {
    const tenant = await newTenant()
    const { tenant_id, owner } = tenant
    const inside = { 'X-Tenant-Id': tenant_id }
    const make = async (input: object) => (await tenant.post('/workspaces/current/api-keys', input)).body
    const revoked = await make({ description: 'revoked' })
    const expiring = await make({ description: 'b', expires_at: new Date(Date.now() + 5000).toISOString() })
    const narrow = await make({ description: 'narrow', permissions: ['workspaces:read'] })
    await tenant.delete(`/workspaces/current/api-keys/${revoked.id}`)
    await tenant.as(revoked.key).get('/v2/deployments')
    await withClockAhead(60_000, () => tenant.as(expiring.key).get('/v2/deployments'))
    await tenant.as(narrow.key).get('/v2/deployments')
    await owner.post('/v2/tag-keys', {}, inside)
    await tenant.delete(`/v2/deployments/${unusedId()}`)
    expect(await attempts(tenant)).toEqual([
      ['list_deployments', 401, 'key_revoked', tenant_id, 0],
      ['list_deployments', 401, 'key_expired', tenant_id, 0],
      ['list_deployments', 403, 'permission_missing', tenant_id, 0],
      ['create_tag_key', 422, 'invalid_request', tenant_id, 0],
      ['delete_deployment', 404, 'deployment_not_found', tenant_id, 0],
    ])
    const failures = (await listItems(tenant)).filter(item => item.status === 'Failure')
    expect(failures).toHaveLength(5)
    expect(failures.find(item => item.http_response.code === 403)).toMatchObject({
      http_response: { code: 403 },
      api: { operation: 'list_deployments' },
      actor: { user: { credential_uid: narrow.id } },
      unmapped: { actor_name: 'narrow', error_code: 'permission_missing', events: [] },
      resources: [],
    })
    expect(await listItems(tenant, '&operations=delete_deployment')).toHaveLength(1)
  })

  it('by a session names its person, also when the session has ended', async () => {
    const tenant = await newTenant()
    const session = await newSession(tenant, { workspaceRole: VIEWER })
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    const written = await session.post('/v2/deployments', body('shop'), inside)
    expect(written.status).toBe(403)
    await session.delete('/v2/me/sessions/current')
    await session.get('/v2/deployments', inside)
    await asSession(newSessionToken()).get('/v2/deployments', inside)
    expect(await attempts(tenant)).toEqual([
      ['create_deployment', 403, 'permission_missing', tenant.tenant_id, 0],
      ['list_deployments', 401, 'session_ended', tenant.tenant_id, 0],
    ])
    const items = await listItems(tenant, `&actor_id=${session.member_id}`)
    expect(items.map(item => item.api.operation).sort()).toEqual([
      'create_deployment',
      'delete_session',
      'list_deployments',
    ])
    for (const item of items)
      expect(item).toMatchObject({
        actor: { user: { uid: session.member_id, credential_uid: '' } },
        unmapped: {
          actor_kind: 'session',
          actor_name: `${session.member_id}@example.com`,
          original_audit_log: { user_id: session.member_id, api_key_id: null },
        },
      })
    const all = JSON.stringify([await listItems(tenant), logLines])
    for (const value of [session.token, sha256Hex(session.token)]) expect(all).not.toContain(value)
  })

  it('by a session that a key opened names the key', async () => {
    const tenant = await newTenant()
    const { id, key } = (await tenant.post('/workspaces/current/api-keys', { description: 'opener' })).body
    const token = tokenOf(await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': key } }))!
    await asSession(token).post('/v2/tag-keys', {})
    await tenant.delete(`/workspaces/current/api-keys/${id}`)
    await asSession(token).get('/v2/deployments')
    expect(await attempts(tenant)).toEqual([
      ['create_tag_key', 422, 'invalid_request', tenant.tenant_id, 0],
      ['list_deployments', 401, 'key_revoked', tenant.tenant_id, 0],
    ])
    const [item] = await listItems(tenant, '&operations=list_deployments')
    expect(item).toMatchObject({
      actor: { user: { uid: id, credential_uid: id } },
      unmapped: { actor_kind: 'key', actor_name: 'opener' },
    })
  })

  it('is not recorded for a failed read, a key that never existed, or a malformed workspace', async () => {
    const tenant = await newTenant()
    await tenant.get(`/v2/deployments/${unusedId()}`)
    await tenant.get('/v2/deployments?limit=1000')
    expect(await attempts(tenant)).toEqual([])
    await tenant.post('/v2/tag-keys', { key: 'x' }, { 'X-Tenant-Id': 'none' })
    expect(await attempts(tenant)).toEqual([['create_tag_key', 422, 'invalid_request', tenant.tenant_id, 0]])
    expect(logLines.filter(line => line.error === 'attempts not recorded')).toEqual([])
  })

  it('is recorded at most 30 times a minute for a key, and the others are counted', async () => {
    const tenant = await newTenant()
    await Promise.all(Array.from({ length: 50 }, () => tenant.post('/v2/tag-keys', {})))
    const other = startApp()
    await finishPendingWork()
    for (let i = 0; i < 5; i++)
      await send('POST', '/v2/tag-keys', { body: {}, headers: { 'X-Api-Key': tenant.key }, app: other })
    expect(await attempts(tenant)).toHaveLength(30)
    // The next attempt brings what its instance has not sent yet.
    await withClockAhead(61_000, () => tenant.post('/v2/tag-keys', {}))
    const rows = await attempts(tenant)
    expect(rows).toHaveLength(31)
    expect(rows.reduce((sum, row) => sum + Number(row[4]), 0)).toBe(25)
  })

  it('is recorded for reads of the audit log', async () => {
    const tenant = await newTenant()
    await tenant.owner.get(`/v1/audit-logs?${WINDOW}`)
    await tenant.owner.get(`/v1/audit-logs/export?${WINDOW}`)
    expect(await attempts(tenant)).toEqual([
      ['list_audit_logs', 200, null, null, 0],
      ['export_audit_logs', 200, null, null, 0],
    ])
    const [item] = await listItems(tenant, '&operations=export_audit_logs')
    expect(item).toMatchObject({ status: 'Success', activity_name: 'Read', http_response: { code: 200 } })
  })

  it('by an agent is recorded only if its key may not do that', async () => {
    const tenant = await newTenant()
    const { key } = await newListener(tenant)
    const agent = tenant.as(key)
    await agent.post('/v1/sync/report', {})
    expect(await attempts(tenant)).toEqual([])
    await agent.get('/v2/deployments')
    expect(await attempts(tenant)).toEqual([['list_deployments', 403, 'permission_missing', tenant.tenant_id, 0]])
  })

  it('is deleted with the events of its age', async () => {
    const tenant = await newTenant()
    await tenant.post('/v2/tag-keys', {})
    const age = async (days: number) => {
      await finishPendingWork()
      const set = sql`update audit_attempts set created_at = now() - ${`${days} days`}::interval
        where organization_id = ${tenant.organization_id}::uuid`
      await runAsSystem(getApp().database, set)
      await getApp().housekeep()
      return (await attempts(tenant)).length
    }
    expect(await age(399)).toBe(1)
    expect(await age(401)).toBe(0)
  })
})

/** A parser of RFC 4180. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = [[]]
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g)) {
    rows.at(-1)!.push(quoted === undefined ? plain! : quoted.replaceAll('""', '"'))
    if (end === '\r\n') rows.push([])
    if (end === '') break
  }
  return rows.slice(0, -1)
}

it('keeps only the start of a long path and user agent of a refused request', async () => {
  const tenant = await newTenant()
  const headers = { 'User-Agent': 'u'.repeat(6000) }
  const refused = await tenant.delete(`/v2/deployments/${'p'.repeat(6000)}`, undefined, headers)
  const [item] = await findByRequest(tenant, requestIdOf(refused))
  expect([item!.http_request.url.path.length, item!.unmapped.user_agent!.length]).toEqual([1024, 512])
})

describe('an export', () => {
  it('counts as a stream of its key until it is read, cancelled or refused', async () => {
    const tenant = await newTenant()
    const app = startStreamingApp({ perKey: 1 })
    const path = `/v1/audit-logs/export?${WINDOW}`
    const request = (method = 'GET') => new Request(`http://slipway.test${path}`, { method, headers: keyOf(tenant) })
    const open = async (method?: string) => app.fetch(request(method))
    const unread = await open()
    expect([unread.status, (await open()).status]).toEqual([200, 429])
    await unread.body!.cancel()
    expect((await open('HEAD')).status).toBe(200)
    const read = await open()
    expect(read.status).toBe(200)
    await read.text()
    const asWorkspace = { headers: { 'X-Api-Key': tenant.key } }
    expect((await app.fetch(new Request(`http://slipway.test${path}`, asWorkspace))).status).toBe(403)
    expect((await app.fetch(new Request(`http://slipway.test${path}`, asWorkspace))).status).toBe(403)
  })

  const exportAs = async (tenant: Tenant, format: string, query = '') => {
    await finishPendingWork()
    const reply = await tenant.owner.get(`/v1/audit-logs/export?${WINDOW}&format=${format}${query}`)
    expect(reply.status).toBe(200)
    return reply
  }
  const parseLines = ({ text }: { text: string }) =>
    text
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))

  it('has every item of the list, oldest first, over many pages', async () => {
    const tenant = await newTenant()
    await runAsSystem(
      getApp().database,
      sql`
        with numbered as (
          update journals set seq = seq + 450 where scope_id = ${tenant.tenant_id}::uuid returning seq
        )
        insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
        select ${tenant.tenant_id}::uuid, 1 + n, ${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid,
          'tag_key.created', gen_random_uuid(), 'operator', 'many', '{}'
        from numbered, generate_series(1, 450) n
        order by n`,
    )
    const reply = await exportAs(tenant, 'ndjson')
    expect(reply.headers.get('Content-Disposition')).toBe(
      'attachment; filename="audit-log-2020-01-01-2099-01-01.ndjson"',
    )
    const items = parseLines(reply)
    expect(new Set(items.map(({ id }) => id)).size).toBe(452)
    expect(items.map(({ time }) => time)).toEqual(items.map(({ time }) => time).sort())
    const many = await exportAs(tenant, 'ndjson', '&operations=create_tag_key')
    expect(parseLines(many)).toHaveLength(450)
  })

  it('has changes in NDJSON, CSV and OCSF, and no secret', async () => {
    const tenant = await newTenant()
    const { id } = (await tenant.post('/v2/deployments', body('shop'))).body
    await tenant.patch(`/v2/deployments/${id}`, { secrets: [{ name: 'TOKEN', value: 'canary-of-the-audit-log-2' }] })
    await tenant.get(`/v2/deployments/${id}?reveal=true`)
    await tenant.patch(`/workspaces/${tenant.tenant_id}`, { display_name: '=cmd()' }, { 'User-Agent': '=1+1, "x"' })
    const role = await tenant.owner.post('/orgs/current/roles', { display_name: 'R', permissions: [] })
    const replies = { ndjson: await exportAs(tenant, 'ndjson'), csv: await exportAs(tenant, 'csv') }
    const ocsf = await exportAs(tenant, 'ocsf')
    for (const { text } of [...Object.values(replies), ocsf]) expect(text).not.toContain('canary-of-the-audit-log')
    expect(JSON.stringify(await listItems(tenant))).not.toContain('canary-of-the-audit-log')

    const renamed = parseLines(replies.ndjson).find(({ operation }) => operation === 'update_workspace')
    expect(renamed.events[0].changes).toEqual([{ path: 'display_name', before: 'Default', after: '=cmd()' }])

    const [header, ...rows] = parseCsv(replies.csv.text)
    for (const row of rows) expect(row).toHaveLength(header!.length)
    const cells = Object.fromEntries(
      header!.map((name, i) => [name, rows.find(row => row[1] === 'update_workspace')![i]]),
    )
    expect(cells).toMatchObject({
      succeeded: 'true',
      status: '200',
      user_agent: `'=1+1, "x"`,
      subjects: tenant.tenant_id,
    })
    expect(rows.flat().filter(cell => /^[=+\-@]/.test(cell))).toEqual([])
    expect(replies.csv.headers.get('Content-Type')).toContain('text/csv')

    const lines = parseLines(ocsf)
    for (const line of lines.filter(({ class_uid }) => class_uid === 6003))
      expect(ApiActivity.parse(line)).toEqual(line)
    expect(lines.find(({ class_uid, entity }) => class_uid === 3004 && entity.uid === role.body.id)).toMatchObject({
      type_uid: 300401,
      activity_name: 'Create',
      entity: { type: 'role' },
    })
  })
})
