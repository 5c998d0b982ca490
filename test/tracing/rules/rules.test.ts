// Automation rules: what a client can say of them, find them by, and what is refused.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { deny, hasTag, newLimitedCaller, type Policy, tagValue } from '../../support/access-policies.ts'
import { getApp, newTenant, readEvents, type Tenant, unusedId } from '../../support/app.ts'

const TAG = 'Secret=yes'
const SECRET = hasTag('Secret', 'yes')

let tenant: Tenant
let session_id: string
beforeAll(async () => {
  tenant = await newTenant()
  session_id = await newProject(tenant)
})

async function newProject(owner: Tenant, name: string = unusedId()): Promise<string> {
  const id = crypto.randomUUID()
  await runAsSystem(
    getApp().database,
    sql`
      insert into projects (id, organization_id, tenant_id, name)
      select ${id}::uuid, organization_id, id, ${name}
      from workspaces
      where id = ${owner.tenant_id}::uuid`,
  )
  return id
}

const makeBody = (body: Record<string, unknown> = {}) => ({
  display_name: unusedId(),
  sampling_rate: 1,
  session_id,
  ...body,
})
const create = async (body: Record<string, unknown> = {}) => (await tenant.post('/runs/rules', makeBody(body))).body
const list = async (query: string) => (await tenant.get(`/runs/rules?${query}`)).body

describe('a rule', () => {
  it('is created with the members of a published client, and listed', async () => {
    const dataset = (await tenant.post('/datasets', { name: unusedId() })).body
    const filter = 'and(eq(status, "error"), gt(latency, "5s"))'
    const created = await create({
      display_name: 'Slow failures',
      sampling_rate: 0.25,
      filter,
      trace_filter: ' ',
      add_to_dataset_id: dataset.id,
      add_to_dataset_prefer_correction: true,
      webhooks: [{ url: 'https://hooks.example.com/in?key=1', headers: { 'X-Token': 'secret' } }],
      // A published client sends these members.
      evaluators: [],
      alerts: null,
      use_corrections_dataset: false,
    })
    const { webhook_secret, ...rule } = created
    expect(webhook_secret).toMatch(/^whsec_/)
    expect(rule).toMatchObject({
      tenant_id: tenant.tenant_id,
      is_enabled: true,
      session_id,
      dataset_id: null,
      dataset_name: null,
      display_name: 'Slow failures',
      sampling_rate: 0.25,
      filter,
      trace_filter: null,
      tree_filter: null,
      add_to_dataset_id: dataset.id,
      add_to_dataset_name: dataset.name,
      add_to_dataset_prefer_correction: true,
      webhooks: [{ url: 'https://hooks.example.com/in?key=1', headers: { 'X-Token': '*****' } }],
      extend_only: false,
      backfill_id: null,
      backfill_status: null,
      backfill_progress: null,
    })
    expect(rule.session_name).toEqual(expect.any(String))
    expect(await list(`id=${rule.id}`)).toEqual([rule])
  })

  it('is changed member by member, and null removes a value', async () => {
    const { id } = await create({ filter: 'eq(is_root, true)', sampling_rate: 0.5 })
    const path = `/runs/rules/${id}`
    expect((await tenant.patch(path, { is_enabled: false })).body).toMatchObject({
      is_enabled: false,
      filter: 'eq(is_root, true)',
      sampling_rate: 0.5,
      webhooks: [],
    })
    const hooked = (await tenant.patch(path, { webhooks: [{ url: 'https://hooks.example.com/' }] })).body
    expect(hooked).toMatchObject({ webhooks: [{ url: 'https://hooks.example.com/', headers: {} }] })
    expect(hooked.webhook_secret).toMatch(/^whsec_/)
    // A published client sends all members.
    const renamed = (await tenant.patch(path, { display_name: 'New', sampling_rate: 1, session_id, filter: null })).body
    expect(renamed).toMatchObject({
      display_name: 'New',
      filter: null,
      webhooks: [{ url: 'https://hooks.example.com/' }],
    })
    expect(renamed.webhook_secret).toBeUndefined()
    expect((await tenant.patch(path, { webhooks: null })).body.webhooks).toEqual([])
  })

  it('does not show the values of its headers, in no event and not in the database', async () => {
    const body = makeBody({
      webhooks: [{ url: 'https://hooks.example.com/in?key=query-canary', headers: { 'X-Token': 'header-canary' } }],
    })
    const reply = await tenant.post('/runs/rules', body)
    const [rows] = await runAsSystem(
      getApp().database,
      sql`select to_json(r)::text from run_rules r where id = ${reply.body.id}::uuid`,
    )
    expect(JSON.stringify(rows)).not.toContain('header-canary')
    const events = JSON.stringify(await readEvents(reply.headers.get('X-Request-Id')!))
    expect(events).toContain('https://hooks.example.com/in')
    expect(events).not.toMatch(/canary/)
  })

  it('is deleted, and goes with its project or dataset', async () => {
    const gone = await newProject(tenant)
    const dataset = (await tenant.post('/datasets', { name: unusedId() })).body
    const [one, two, three, four] = [
      await create(),
      await create({ session_id: gone }),
      await create({ session_id: null, dataset_id: dataset.id }),
      await create({ add_to_dataset_id: dataset.id }),
    ]
    expect((await tenant.delete(`/runs/rules/${one.id}`)).body).toEqual({ id: one.id })
    await runAsSystem(getApp().database, sql`delete from projects where id = ${gone}::uuid`)
    await tenant.delete(`/datasets/${dataset.id}`)
    const ids = [one, two, three, four].map(({ id }) => `id=${id}`).join('&')
    expect(await list(ids)).toMatchObject([{ id: four.id, add_to_dataset_id: null }])
  })
})

describe('a list of rules', () => {
  it.each([
    ['', ['dataset', 'Session']],
    ['type=session', ['Session']],
    ['type=dataset', ['dataset']],
    ['name_contains=SESS', ['Session']],
    ['name_contains=%25', []],
    [`evaluator_id=${unusedId()}`, []],
    [`session_id=${unusedId()}`, []],
    ['include_backfill_progress=true', ['dataset', 'Session']],
  ])('with %j has %j', async (query, names) => {
    const own = await newTenant()
    const dataset = (await own.post('/datasets', { name: unusedId() })).body
    await own.post('/runs/rules', { display_name: 'Session', sampling_rate: 1, session_id: await newProject(own) })
    await own.post('/runs/rules', { display_name: 'dataset', sampling_rate: 1, dataset_id: dataset.id })
    const { body } = await own.get(`/runs/rules?${query}`)
    expect(body.map(({ display_name }: { display_name: string }) => display_name)).toEqual(names)
  })
})

it('the second version lists rules page by page, in its words', async () => {
  const own = await newTenant()
  const project = await newProject(own)
  const alerts = [{ type: 'pagerduty', routing_key: 'key', severity: 'warning' }]
  const make = async (display_name: string, more = {}): Promise<string> =>
    (await own.post('/runs/rules', { display_name, sampling_rate: 1, session_id: project, ...more })).body.id
  const ids = [await make('a', { alerts, spend_limit: { limit_usd: 5 } }), await make('b'), await make('c')]
  await own.patch(`/runs/rules/${ids[0]}`, { sampling_rate: 0.5 })
  const page = async (query: string) => (await own.get(`/v2/runs/rules?${query}`)).body
  const first = await page(`project_id=${project}&type=PROJECT&page_size=2`)
  expect(first.items.map(({ id }: { id: string }) => id)).toEqual([ids[0], ids[2]])
  expect(first.items[0]).toMatchObject({
    project_id: project,
    alerts: [{ type: 'PAGERDUTY', severity: 'WARNING' }],
    spend_limit: { limit_usd: '5', window: 'WEEKLY' },
    group_by: null,
  })
  const second = await page(`page_size=2&cursor=${first.next_cursor}`)
  expect(second).toMatchObject({ items: [{ id: ids[1] }], next_cursor: null, has_more: false })
  expect((await page('type=DATASET')).items).toEqual([])
})

describe('a refusal', () => {
  const url = 'https://hooks.example.com/'
  const cases: [string, Record<string, unknown>, string, number][] = [
    ['no scope', { session_id: null }, 'invalid_request', 1],
    ['two scopes', { dataset_id: unusedId() }, 'invalid_request', 1],
    ['an unknown project', { session_id: unusedId() }, 'project_not_found', 0],
    ['an unknown dataset', { session_id: null, dataset_id: unusedId() }, 'dataset_not_found', 0],
    ['an unknown target', { add_to_dataset_id: unusedId() }, 'dataset_not_found', 0],
    ['faulty filters, all at once', { filter: 'eq(', tree_filter: 'eq(nothing, 1)' }, 'filter_invalid', 2],
    ['a rate beyond 1', { sampling_rate: 1.1 }, 'invalid_request', 1],
    ['code, which would run here', { code_evaluators: [{ code: 'print(1)' }] }, 'invalid_request', 1],
    ['a routing key that is not shown', { alerts: [{ routing_key: '*****' }] }, 'invalid_request', 1],
    ['threads', { group_by: 'thread_id' }, 'invalid_request', 1],
    ['a private address', { webhooks: [{ url: 'http://10.0.0.1/' }] }, 'blocked_url', 0],
    ['the headers that we set', { webhooks: [{ url, headers: { 'webhook-id': '1' } }] }, 'invalid_request', 1],
    ['a value that is not shown', { webhooks: [{ url, headers: { 'X-Token': '*****' } }] }, 'invalid_request', 1],
  ]
  it.each(cases)('%s', async (_, body, code, faults) => {
    for (const path of ['/runs/rules', '/runs/rules/validate']) {
      const refused = await tenant.post(path, makeBody(body))
      expect([refused.body.code, refused.body.errors?.length ?? 0]).toEqual([code, faults])
    }
  })

  it('does not meet a valid rule that is validated', async () => {
    const body = makeBody({ filter: 'eq(status, "error")' })
    expect((await tenant.post('/runs/rules/validate', body)).body).toEqual([])
    expect(await list(`name_contains=${body.display_name}`)).toEqual([])
  })

  it('meets another scope for a rule, and a later backfill', async () => {
    const { id } = await create()
    const moved = await tenant.patch(`/runs/rules/${id}`, { session_id: await newProject(tenant) })
    expect([moved.status, moved.body.code]).toEqual([400, 'rule_scope_fixed'])
    const late = await tenant.patch(`/runs/rules/${id}`, { backfill_from: '2026-01-01T00:00:00Z' })
    expect(late.body.code).toBe('invalid_request')
  })

  describe('for an action that the caller may not take', () => {
    const webhooks = [{ url }]
    const rights = ['rules:create', 'rules:update']
    let target: string
    let locked: string
    let queue: string
    beforeAll(async () => {
      target = (await tenant.post('/datasets', { name: unusedId() })).body.id
      locked = (await tenant.post('/datasets', { name: unusedId(), tag_value_ids: [await tagValue(tenant, TAG)] })).body
        .id
      queue = (await tenant.post('/annotation-queues', { name: unusedId() })).body.id
    })

    it.each<[string, string[], Policy[], () => object, string]>([
      ['extending retention', [], [], () => ({ extend_only: true }), 'permission_missing'],
      ['sending runs', [], [], () => ({ webhooks }), 'permission_missing'],
      ['copying runs', ['datasets:update'], [], () => ({ add_to_dataset_id: target }), 'permission_missing'],
      ['changing a dataset', ['runs:read'], [], () => ({ add_to_dataset_id: target }), 'permission_missing'],
      ['changing a queue', ['runs:read'], [], () => ({ add_to_annotation_queue_id: queue }), 'permission_missing'],
      [
        'changing a dataset that a policy keeps',
        ['runs:read', 'datasets:update'],
        [deny('datasets:update', SECRET)],
        () => ({ add_to_dataset_id: locked }),
        'denied_by_policy',
      ],
      [
        'sending the runs of all experiments, of which a policy hides some',
        ['runs:read'],
        [deny('runs:read', SECRET)],
        () => ({ webhooks, session_id: null, dataset_id: target }),
        'denied_by_policy',
      ],
    ])('%s', async (_, permissions, policies, action, code) => {
      const limited = await newLimitedCaller(tenant, [...rights, ...permissions], policies)
      const body = makeBody(action() as Record<string, unknown>)
      const refused = await limited.post('/runs/rules', body)
      expect([refused.status, refused.body.code]).toEqual([403, code])
      const { session_id: project, dataset_id = null } = body as Record<string, unknown>
      const { id } = await create({ session_id: project, dataset_id })
      const { session_id: _session, dataset_id: _dataset, ...patch } = action() as Record<string, unknown>
      const kept = await limited.patch(`/runs/rules/${id}`, patch)
      expect([kept.status, kept.body.code]).toEqual([403, code])
      expect((await limited.patch(`/runs/rules/${id}`, { is_enabled: false })).status).toBe(200)
      expect((await tenant.patch(`/runs/rules/${id}`, patch)).status).toBe(200)
    })
  })

  it('meets the 201st rule, also of two at once', async () => {
    const own = await newTenant()
    const project = await newProject(own)
    await runAsSystem(
      getApp().database,
      sql`
        insert into run_rules (
          organization_id, tenant_id, display_name, session_id, sampling_rate, webhook_secret, position
        )
        select organization_id, tenant_id, 'Rule', id, 1, '', 0
        from projects, generate_series(1, 199)
        where id = ${project}::uuid`,
    )
    const body = { display_name: 'Last', sampling_rate: 1, session_id: project }
    const replies = await Promise.all([1, 2, 3].map(() => own.post('/runs/rules', body)))
    expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 400, 400])
    expect(replies.filter(({ status }) => status === 400).map(reply => reply.body.code)).toEqual([
      'rules_full',
      'rules_full',
    ])
    expect((await own.get('/runs/rules')).body).toHaveLength(200)
  })
})
