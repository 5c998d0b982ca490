// Query plans of lists behind row-level security: no sequential scan, and the covering index for filters.
import { sql } from 'drizzle-orm'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { createHost } from '../../src/host/host.ts'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { type SeedResult, seed } from '../../src/host/seed-data.ts'
import { deploymentPageQuery } from '../../src/hosting/deployments/list.ts'
import { DeploymentQuery } from '../../src/hosting/deployments/schema.ts'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { run } from '../../src/kernel/db/db.ts'
import type { Caller } from '../../src/kernel/http/context.ts'
import { organizationPermissions } from '../../src/kernel/permissions.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'
import * as fc from '../support/seeded-fast-check.ts'

const operations = await loadOperations()

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
const SIZE = { tenants: 8, deployments: 20_000 }
let databaseUrl: string
let host: ReturnType<typeof createHost>
let seeded: SeedResult
let admin: pg.Client
/** The statements of the last request. */
let statements: { query: string; params: unknown[] }[]

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
  seeded = await seed(databaseUrl, SIZE)
  host = createHost(
    { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: databaseUrl, RATE_LIMIT_PER_MINUTE: '0' },
    { log: () => {} },
    { onTrip },
  )
  admin = await connect(databaseUrl)
})

const onTrip = ({ queries }: { queries: typeof statements }) => {
  // A request is counted after its answer, and a read of the audit log is recorded.
  if (!queries.some(({ query }) => /(record_attempts|count_answered_requests)\(/.test(query))) statements = queries
}

afterAll(async () => {
  await admin?.end()
  await host?.close()
})

type Node = { 'Node Type': string; 'Relation Name'?: string; 'Index Name'?: string; Plans?: Node[] }
const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** The query plan, behind the same row-level security as a request of the app. */
async function planOf(query: Record<string, string>, statement = deploymentPageQuery(DeploymentQuery.parse(query))) {
  const caller: Caller = {
    config: host.config,
    platform: host.app.platform,
    database: host.app.database,
    sealer: undefined as never,
    traces: undefined as never,
    logs: undefined as never,
    shareGroups: host.app.shareGroups,
    actor: { kind: 'key', hash: sha256Hex(seeded.api_key) },
    tenant: null,
    origin: 'http://slipway.test',
    requestId: 'plan',
    request: null,
    ifMatch: null,
    withoutIfMatch: false,
    idempotency: null,
    planDigest: null,
    warnings: [],
    requestInfo: {},
  }
  const explained = { ...statement, sql: `explain (format json) ${statement.sql}`, read: (rows: unknown[]) => rows }
  const [[text]] = (await run({ ...caller, permission: 'deployments:read' }, explained)) as [[string]]
  return nodesOf(JSON.parse(text)[0].Plan).filter(node => node['Relation Name'] === 'deployments')
}

const ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const CURSOR = Buffer.from(`2025-01-03 00:00:00+00~${ID}`).toString('base64url')
const FILTERS = {
  name: ['agent-1', 'none'],
  name_contains: ['agent', 'matches nothing', '%'],
  status: ['READY', 'UNKNOWN', 'READY,UNUSED,AWAITING_DELETE'],
  health: ['healthy', 'unhealthy,crash_looping'],
  remote_reconciled: ['true', 'false'],
  tag_value_ids: [ID, Array(100).fill(ID).join()],
  image_version: ['0.1.1', 'none'],
  deployment_type: ['dev', 'prod'],
  deployment_ids: [ID, Array.from({ length: 100 }, () => crypto.randomUUID()).join()],
}
const PAGES: Record<string, string>[] = [{}, { offset: '150' }, { offset: '1500', limit: '100' }, { cursor: CURSOR }]

const scan = (node: Node) => `${node['Node Type']} of ${node['Index Name'] ?? node['Relation Name']}`
const SEQUENTIAL = 'Seq Scan of deployments'
/** A filtered page is read from the covering index alone. Few ids may be looked up instead. */
function expectIndexScan(scans: string[], filters: Record<string, unknown>) {
  const allowed = ['Index Only Scan of deployments_list']
  if (filters.deployment_ids) allowed.push('Index Scan of deployments_pkey')
  expect(
    allowed.some(name => scans.includes(name)),
    scans.join(),
  ).toBe(true)
  expect(scans).not.toContain(SEQUENTIAL)
}

describe('a list of deployments is read by index', () => {
  const singleFilters = Object.entries(FILTERS).flatMap(([name, values]) => values.map(value => [name, value] as const))

  it.each(PAGES)('without a filter: %o', async page => {
    expect((await planOf(page)).map(scan)).not.toContain(SEQUENTIAL)
  })

  it.each(singleFilters)('with the filter %s=%s', async (name, value) => {
    for (const page of PAGES) {
      expectIndexScan((await planOf({ ...page, [name]: value })).map(scan), { [name]: value })
    }
  })

  it('with any combination of filters', async () => {
    const filters = Object.fromEntries(
      Object.entries(FILTERS).map(([name, values]) => [name, fc.constantFrom(...values)]),
    )
    await fc.assert(
      fc.asyncProperty(fc.record(filters, { requiredKeys: [] }), fc.constantFrom(...PAGES), async (given, page) => {
        const scans = (await planOf({ ...page, ...(given as Record<string, string>) })).map(scan)
        if (Object.keys(given).length > 0) expectIndexScan(scans, given)
        expect(scans).not.toContain(SEQUENTIAL)
      }),
      { numRuns: 200 },
    )
  })

  it('with filters that no index has, in the order of the list, and each summary by keys', async () => {
    const { listener_id } = (await admin.query('select listener_id from deployments limit 1')).rows[0]
    for (const filter of [{ state: 'attention' }, { source: 'githost' }, { listener_id: listener_id ?? ID }, {}]) {
      for (const page of PAGES) {
        const scans = (await planOf({ ...page, ...filter, include: 'summary' } as Record<string, string>)).map(scan)
        expect(scans, JSON.stringify({ ...page, ...filter })).not.toContain(SEQUENTIAL)
      }
    }
  })

  it('by a plan for the values of each request, however often it is sent on one connection', async () => {
    const { app, close } = createHost(
      { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: databaseUrl, RATE_LIMIT_PER_MINUTE: '0' },
      { log: () => {} },
      { poolSize: 1 },
    )
    try {
      const headers = { 'X-Api-Key': seeded.api_key }
      for (const filter of [{ limit: '19' }, ...singleFilters.map(([name, value]) => ({ [name]: value }))]) {
        const url = `http://slipway.test/v2/deployments?${new URLSearchParams(filter)}`
        for (let i = 0; i < 7; i++) expect((await app.request(url, { headers })).status).toBe(200)
      }
      const [plans] = await app.database([
        sql`select count(*), sum(generic_plans) from pg_prepared_statements where statement like 'select "id",%'`,
      ])
      const [statements, genericPlans] = plans![0] as string[]
      expect(Number(statements)).toBeGreaterThan(Object.keys(FILTERS).length)
      expect(genericPlans).toBe('0')
    } finally {
      await close()
    }
  })

  it('only because of the covering indexes: without them it is read sequentially', async () => {
    const { rows } = await admin.query(
      `select pg_get_indexdef(name::regclass) as definition
        from unnest(array['deployments_list', 'deployments_page']) name`,
    )
    await admin.query('drop index deployments_list, deployments_page')
    try {
      expect((await planOf({ name_contains: 'agent', offset: '1500' })).map(scan)).toContain(SEQUENTIAL)
    } finally {
      for (const { definition } of rows) await admin.query(definition)
      await admin.query('vacuum (analyze) deployments')
    }
  })
})

type Scan = Node & { 'Heap Fetches'?: number; 'Shared Hit Blocks': number; 'Shared Read Blocks': number }
/** The cost of a list query of the largest tenant, with row-level security. */
async function measure(query: Record<string, string>) {
  const { sql: text, params } = deploymentPageQuery(DeploymentQuery.parse(query))
  await admin.query('begin')
  try {
    await admin.query(`select set_config('app.tenant_id', $1, true)`, [seeded.tenant_id])
    await admin.query('set local role slipway_app')
    const { rows } = await admin.query(`explain (analyze, buffers, format json) ${text}`, params)
    const root: Scan = rows[0]['QUERY PLAN'][0].Plan
    const index = nodesOf(root).find(node => node['Node Type'] === 'Index Only Scan') as Scan
    return { root, index, buffers: root['Shared Hit Blocks'] + root['Shared Read Blocks'] }
  } finally {
    await admin.query('rollback')
  }
}

describe('the buffers that a list reads are bounded', () => {
  const PAGE = 21

  it('for a deep page, by an index entry for each skipped row and the rows of the page', async () => {
    const [deep, deeper] = [await measure({ offset: '1000' }), await measure({ offset: '1900' })]
    expect(scan(deeper.index)).toBe('Index Only Scan of deployments_page')
    expect(deeper.index['Heap Fetches']).toBe(0)
    // A buffer holds 40 index entries. Each row of the page costs up to four buffers: three index levels and the row.
    expect(deeper.buffers - deep.buffers).toBeLessThanOrEqual(900 / 40)
    expect(deep.buffers).toBeLessThanOrEqual(1000 / 40 + PAGE * 4)
  })

  it('for summaries, by a few rows of each deployment of the page', async () => {
    const [plain, summaries] = [await measure({ limit: '100' }), await measure({ limit: '100', include: 'summary' })]
    expect(summaries.buffers - plain.buffers).toBeLessThanOrEqual(100 * 30)
  })

  it('for a filter without matches, by the covering index, and no row is read', async () => {
    for (const filters of [{ name_contains: 'no such name' }, { image_version: 'none', remote_reconciled: 'true' }]) {
      const { index, buffers } = await measure(filters)
      expect(scan(index)).toBe('Index Only Scan of deployments_list')
      expect(index['Heap Fetches']).toBe(0)
      expect(buffers).toBeLessThanOrEqual(2000 / 20)
    }
  })
})

it('the state at a moment reads no more events of a deployment than its limit', async () => {
  const { rows } = await admin.query('select id from deployments where tenant_id = $1 limit 1', [seeded.tenant_id])
  const headers = { 'X-Api-Key': seeded.api_key }
  const url = `http://x/v2/deployments/${rows[0].id}/state?at=2020-01-01T00:00:00Z`
  await admin.query('begin')
  try {
    await admin.query('set local session_replication_role = replica')
    await admin.query('update deployments set created_at = $2 where id = $1', [rows[0].id, '2019-01-01'])
    await admin.query(
      `insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
      select tenant_id, 100 + n, organization_id, tenant_id, 'deployment.ready', id, 'cron', 'many', '{}'
      from deployments, generate_series(1, 20000) n
      where id = $1`,
      [rows[0].id],
    )
    await admin.query('analyze events')
    expect((await host.app.fetch(new Request(url, { headers }))).status).toBe(200)
    for (const { query, params } of statements.slice(0, -1)) await admin.query(query, params)
    const { query, params } = statements.at(-1)!
    const explained = await admin.query(`explain (analyze, format json) ${query}`, params)
    const nodes: (Node & { 'Actual Rows'?: number })[] = nodesOf(explained.rows[0]['QUERY PLAN'][0].Plan)
    const read = nodes.filter(node => node['Relation Name'] === 'events').map(node => node['Actual Rows'])
    expect(Math.max(...read.map(Number))).toBe(5000)
  } finally {
    await admin.query('rollback')
  }
})

it('a page of events reads only its own rows, wherever in the journal it begins', async () => {
  const { tenant_id, organization_id, api_key } = seeded
  await admin.query('begin')
  try {
    await admin.query(
      `insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
      select $1, 100 + n, $2, $1, 'deployment.ready', $1, 'cron', 'many', '{}'
      from generate_series(1, 20000) n`,
      [tenant_id, organization_id],
    )
    await admin.query('update journals set seq = 20100 where scope_id = $1', [tenant_id])
    await admin.query('analyze events')
    const url = 'http://x/v2/events?after=10000&limit=20'
    await host.app.fetch(new Request(url, { headers: { 'X-Api-Key': api_key } }))
    for (const { query, params } of statements.slice(0, -1)) await admin.query(query, params)
    const { query, params } = statements.at(-1)!
    const explained = await admin.query(`explain (analyze, format json) ${query}`, params)
    const nodes: (Node & Record<string, number>)[] = nodesOf(explained.rows[0]['QUERY PLAN'][0].Plan) as never
    const reads = nodes.filter(node => node['Relation Name'] === 'events')
    expect(reads.map(node => node['Actual Rows'])).toContain(21)
    expect(reads.map(node => node['Rows Removed by Filter'] ?? 0).filter(count => count > 0)).toEqual([])
  } finally {
    await admin.query('rollback')
  }
})

it('the fleet and the usage of an organization read no rows of another one, and none from before', async () => {
  const own = await bootstrap(host.app.database, { organization: 'Small', scope: 'organization' })
  const paths = ['/v2/admin/fleet', '/orgs/current/usage/backfill-export']
  const batches: (typeof statements)[] = []
  for (const path of paths) {
    const reply = await host.app.fetch(new Request(`http://x${path}`, { headers: { 'X-Api-Key': own.api_key } }))
    await reply.text()
    expect(reply.status).toBe(200)
    batches.push(statements)
  }
  const countReads = async () => {
    const { rows } = await admin.query<{ name: string; rows: number }>(
      `select relname as name, (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
      from pg_stat_xact_user_tables
      where relname in (
        'webhook_deliveries', 'preview_hooks', 'rule_evaluations', 'insight_jobs', 'revisions', 'session_minutes'
      )
      order by relname`,
    )
    return new Map(rows.map(row => [row.name, row.rows]))
  }
  await admin.query('begin')
  try {
    await admin.query('set local session_replication_role = replica')
    const ids = 'organization_id, tenant_id'
    for (const [table, columns, values] of [
      ['webhook_deliveries', 'webhook_id, seq, type', `gen_random_uuid(), n, 'x'`],
      ['preview_hooks', 'preview_id, url, parent_id, secret, body', `id, 'https://x', id, 's', '{}'`],
      [
        'rule_evaluations',
        'id, rule_id, run_id, evaluator_id, is_of_evaluator',
        `gen_random_uuid(), id, gen_random_uuid(), id, true`,
      ],
      ['insight_jobs', 'session_id, name, method, request', `id, 'x', 'lexical', '{}'`],
    ])
      await admin.query(
        `insert into ${table} (${ids}, ${columns})
        select organization_id, id, ${values} from workspaces, generate_series(1, 1000) n where organization_id = $1`,
        [seeded.organization_id],
      )
    await admin.query(`update revisions set status = 'BUILDING' where tenant_id = $1`, [seeded.tenant_id])
    await admin.query(`insert into projects (${ids}, name) values ($1, $2, 'old')`, [
      own.organization_id,
      own.tenant_id,
    ])
    await admin.query(
      `insert into session_minutes (${ids}, session_id, minute, slot, runs)
      select ${ids}, id, now() - interval '50 days' - n * interval '1 hour', -1, 1
      from projects, generate_series(1, 5000) n
      where tenant_id = $1`,
      [own.tenant_id],
    )
    await admin.query('analyze')
    const before = await countReads()
    for (const batch of batches) {
      for (const { query, params } of batch) await admin.query(query, params)
      await admin.query('reset role')
    }
    const read = [...(await countReads())].map(([name, rows]) => [name, rows - (before.get(name) ?? 0)])
    expect(read).toHaveLength(6)
    // The planner reads the ends of an index.
    expect(read.filter(([, rows]) => Number(rows) > 10)).toEqual([])
  } finally {
    await admin.query('rollback')
  }
})

describe('every other list is read in the order of an index', () => {
  // The plans of runs are in run-query-plans.test.ts.
  const paged = operations
    .filter(one => one.kind !== 'open')
    .filter(({ query, path }) => query && 'cursor' in query.shape && path !== '/v2/threads/{thread_id}/traces')
  /**
   * No index orders own and built-in roles together, the items of a queue for each reviewer, or datasets by their
   * latest experiment. They are few, so they are sorted. So are rules, of which all are read.
   */
  const SORTED = [
    '/orgs/current/roles',
    '/v1/platform/annotation-queues/{queue_id}/items',
    '/v2/datasets',
    '/v2/runs/rules',
  ]
  const idOf = async (table: string) =>
    (await admin.query(`select id from ${table} where tenant_id = $1 limit 1`, [seeded.tenant_id])).rows[0].id

  async function newPaused(path: string, value: object): Promise<string> {
    const headers = { 'X-Api-Key': seeded.api_key, 'Content-Type': 'application/json' }
    const body = JSON.stringify({ ...value, enabled: false })
    const reply = await host.app.fetch(new Request(`http://x${path}`, { method: 'POST', headers, body }))
    // Its event is sent to webhooks after the answer.
    await finishPendingWork()
    return ((await reply.json()) as { id: string }).id
  }

  const newWebhook = () => newPaused('/v2/webhooks', { url: 'https://ci.example.com/' })
  const newChannel = () =>
    newPaused('/v2/channels', {
      name: crypto.randomUUID(),
      target: { kind: 'webhook', url: 'https://ci.example.com/' },
    })

  async function newRule(): Promise<string> {
    const headers = { 'X-Api-Key': seeded.api_key, 'Content-Type': 'application/json' }
    const post = async (path: string, value: object) => {
      const request = new Request(`http://x${path}`, { method: 'POST', headers, body: JSON.stringify(value) })
      return ((await (await host.app.fetch(request)).json()) as { id: string }).id
    }
    const session_id = await post('/sessions', { name: 'ruled' })
    const id = await post('/runs/rules', { display_name: 'Rule', sampling_rate: 1, session_id })
    await finishPendingWork()
    return id
  }

  const queriesOf = ({ path, query, verb }: (typeof paged)[number]) => {
    const search = new URLSearchParams((query!.meta()?.example ?? {}) as Record<string, string>)
    const url = `${path}?${search}`
    const urls = 'name' in query!.shape ? [url, `${path}?name=none`] : [url]
    return urls.map(one => [one, verb.permission] as const)
  }
  /** Functions of the database read the fleet, whose plans are not seen from here. */
  const isOfFleet = (path: string) => path.startsWith('/v2/admin/')
  const inOrder = paged.filter(({ path }) => !SORTED.includes(path) && !isOfFleet(path)).flatMap(queriesOf)

  it.each(inOrder)('%s', async (path, permission) => {
    const options = { organization: 'Seed', workspace: 'Seed 1', scope: 'organization' } as const
    const isOfOrganization = path.startsWith('/orgs') || path.startsWith('/workspaces?')
    const key =
      isOfOrganization || (permission !== null && organizationPermissions.includes(permission))
        ? await bootstrap(host.app.database, options)
        : seeded
    const ids: Record<string, string> = {
      deployment_id: await idOf('deployments'),
      tag_key_id: await idOf('tag_keys'),
      ...(path.includes('{rule_id}') && { rule_id: await newRule() }),
      ...(path.includes('{webhook_id}') && { webhook_id: await newWebhook() }),
      ...(path.includes('{channel_id}') && { channel_id: await newChannel() }),
    }
    const url = `http://x${path.replace(/\{(\w+)\}/g, (_, name) => ids[name]!)}`
    const reply = await host.app.fetch(new Request(url, { headers: { 'X-Api-Key': key.api_key } }))
    expect(reply.status).toBe(200)

    await admin.query('begin')
    try {
      for (const { query, params } of statements.slice(0, -1)) await admin.query(query, params)
      // The tables are small. With these settings, a plan sorts or scans only if no index serves.
      for (const method of ['sort', 'seqscan', 'bitmapscan']) await admin.query(`set local enable_${method} = off`)
      const { query, params } = statements.at(-1)!
      const { rows } = await admin.query(`explain (format json) ${query}`, params)
      const nodes = nodesOf(rows[0]['QUERY PLAN'][0].Plan)
      // The rows of one page may be sorted, and the elements of an array, which are of no table.
      const readingNodes = nodes.filter(node => {
        const inner = nodesOf(node)
        return inner.some(one => one['Relation Name']) && !inner.some(one => one['Node Type'] === 'Limit')
      })
      expect(readingNodes.map(node => node['Node Type']).filter(type => /Sort|Seq Scan/.test(type))).toEqual([])
      expect(nodes.map(node => node['Node Type'])).toContain('Limit')
    } finally {
      await admin.query('rollback')
    }
  })
})

it('seeding twice adds only the missing rows', async () => {
  expect(seeded.counts).toMatchObject({ workspaces: 8, deployments: 20_000, revisions: 20_000, largest: 2000 })
  const again = await seed(databaseUrl, { tenants: 9, deployments: 20_010 })
  expect(again.tenant_id).toBe(seeded.tenant_id)
  expect(again.counts).toMatchObject({ workspaces: 9, deployments: 20_010, revisions: 20_010, largest: 2001 })
  const headers = { 'X-Api-Key': again.api_key }
  const reply = await host.app.fetch(new Request('http://x/v2/deployments?limit=100', { headers }))
  const body = (await reply.json()) as { resources: unknown[] }
  expect([reply.status, body.resources.length]).toEqual([200, 100])
})
