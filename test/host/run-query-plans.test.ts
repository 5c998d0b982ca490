// Query plans of reading runs, behind row-level security: by index, in the partitions of the time that is asked for.
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createHost } from '../../src/host/host.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
const DAYS = 10
const TRACES = 8000
const DAY_MS = 86_400_000

type Node = {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Actual Rows'?: number
  'Actual Loops'?: number
  'Rows Removed by Filter'?: number
  Plans?: Node[]
}
const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

let host: ReturnType<typeof createHost>
let admin: pg.Client
let key: string
let session: string
let other: string
/** The statements of the last request. */
let statements: { query: string; params: unknown[] }[]
let trace: { id: string; time: Date }

/** A request is counted after its answer. */
const onTrip = ({ queries }: { queries: typeof statements }) => {
  if (!queries.some(({ query }) => query.includes('count_answered_requests('))) statements = queries
}

beforeAll(async () => {
  const databaseUrl = await createMigratedDatabase()
  host = createHost(
    { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: databaseUrl, RATE_LIMIT_PER_MINUTE: '0' },
    { log: () => {} },
    { onTrip },
  )
  const tenant = await bootstrap(host.app.database, { organization: 'Acme', workspace: 'Main' })
  key = tenant.api_key
  admin = await connect(databaseUrl)
  const project = await post('/sessions', { name: 'shop' })
  session = project.id
  other = (await post('/sessions', { name: 'other' })).id
  await fill(tenant, [session, other])
  const { rows } = await admin.query(
    'select id, order_time from runs where id = trace_id and session_id = $1 limit 1',
    [session],
  )
  trace = { id: rows[0].id, time: rows[0].order_time }
})

afterAll(async () => {
  await admin?.end()
  await host?.close()
})

/** Traces of a root and a child, over days that have partitions. All of today is filled, at any time of the day. */
async function fill(tenant: { tenant_id: string }, sessions: string[]): Promise<void> {
  await admin.query('begin')
  await admin.query('set local session_replication_role = replica')
  await admin.query(`select make_runs_partition('longlived', date_trunc('month', now() - interval '${DAYS} days'))`)
  for (let day = 0; day <= DAYS; day++)
    await admin.query(
      `select make_runs_partition('shortlived', date_trunc('day', now()) - $1::integer * interval '1 day')`,
      [day],
    )
  await admin.query(
    `with traces as (
      select n, gen_random_uuid() as id, gen_random_uuid() as child,
        date_trunc('day', now()) + interval '1 day' - n * interval '${(DAYS * DAY_MS) / TRACES} milliseconds' as time
      from generate_series(1, ${TRACES}) n
    )
    insert into runs (
      organization_id, tenant_id, session_id, id, trace_id, trace_time, order_time, trace_tier, dotted_order,
      parent_run_id, name, run_type, start_time, end_time, error, tags, metadata, thread_id, reference_example_id,
      inputs, outputs, total_tokens
    )
    select w.organization_id, w.id, ($2::uuid[])[1 + t.n % 2], r.id, t.id, t.time, r.time,
      case when t.n % 4 = 0 then 'longlived' else 'shortlived' end, r.id::text,
      r.parent, 'run', case when r.parent is null then 'chain' else 'llm' end, r.time, r.time + interval '1 second',
      case when t.n % 50 = 0 then 'boom' end, array['tag'], jsonb_build_object('user', 'u' || t.n % 100),
      case when r.parent is null then 'thread-' || t.n % 500 end, case when t.n % 10 = 0 then gen_random_uuid() end,
      repeat('x', 500), repeat('y', 500), 10
    from traces t
    cross join lateral (
      values (t.id, t.time, null::uuid), (t.child, t.time + interval '1 second', t.id)
    ) r(id, time, parent)
    join workspaces w on w.id = $1`,
    [tenant.tenant_id, sessions],
  )
  await admin.query('commit')
  await admin.query('analyze runs')
}

async function request(path: string, body?: object): Promise<Response> {
  const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
  const init = body ? { method: 'POST', body: JSON.stringify(body) } : {}
  return host.app.fetch(new Request(`http://x${path}`, { headers, ...init }))
}
const post = async (path: string, body: object) => (await (await request(path, body)).json()) as { id: string }

/** The nodes of the plan of the request's last statement that read runs. */
async function planOf(path: string, body?: object): Promise<Node[]> {
  const reply = await request(path, body)
  expect(reply.status, await reply.clone().text()).toBe(200)
  await admin.query('begin')
  try {
    for (const { query, params } of statements.slice(0, -1)) await admin.query(query, params)
    const { query, params } = statements.at(-1)!
    const { rows } = await admin.query(`explain (analyze, format json) ${query}`, params)
    const nodes = nodesOf(rows[0]['QUERY PLAN'][0].Plan)
    return nodes.filter(node => (node['Relation Name'] ?? node['Index Name'])?.startsWith('runs_'))
  } finally {
    await admin.query('rollback')
  }
}

const wasRun = (node: Node) => node['Actual Loops']! > 0
/** An empty partition has nothing to look up. */
const hasRead = (node: Node) => node['Actual Rows']! > 0 || node['Rows Removed by Filter']! > 0
/** An index of `runs_trace`, which leads from a root to the other runs of its trace. */
const leadsThroughTrace = (node: Node) => node['Index Name']?.endsWith('_tenant_id_trace_id_idx') ?? false
const scans = (nodes: Node[]) => nodes.filter(node => node['Relation Name'] !== undefined && wasRun(node))
const partitionsOf = (nodes: Node[]) => [...new Set(scans(nodes).map(node => node['Relation Name']!))]
const expectNoSequentialScan = (nodes: Node[]) => {
  const sequential = nodes.filter(node => node['Node Type'] === 'Seq Scan' && hasRead(node))
  expect(sequential.map(node => node['Relation Name'])).toEqual([])
}
const FILTERS = [
  undefined,
  'and(eq(run_type, "chain"), neq(error, null))',
  'and(eq(metadata_key, "user"), eq(metadata_value, "u8"))',
]
/** Counts days from noon, so that no bound is near the end of a day. */
const noonAgo = (days: number) => new Date((Math.floor(Date.now() / DAY_MS) + 0.5 - days) * DAY_MS).toISOString()
const within = () => ({ start_time: noonAgo(3), end_time: noonAgo(2) })
const dayOf = (time: string) => `runs_shortlived_${time.slice(0, 10).replaceAll('-', '')}`

describe.each(FILTERS)('with the filter %s', filter => {
  const READS: [string, string, () => object][] = [
    ['a page', '/runs/query', () => ({ session: [session], filter, ...within() })],
    ['a page of roots', '/runs/query', () => ({ session: [session], filter, is_root: true, ...within() })],
    ['a page of several projects', '/runs/query', () => ({ session: [session, other], filter, ...within() })],
    ['statistics', '/runs/stats', () => ({ session: [session], filter, ...within() })],
    ['statistics of roots', '/runs/stats', () => ({ session: [session], filter, is_root: true, ...within() })],
    ['groups', '/runs/stats', () => ({ session: [session], filter, ...within(), group_by: { attribute: 'name' } })],
    ['threads', '/runs/group', () => ({ session_id: session, group_by: 'conversation', filter, ...within() })],
  ]
  it.each(READS)('%s of a day is read by index, in the partitions of that time', async (_, path, body) => {
    const nodes = await planOf(path, body())
    expectNoSequentialScan(nodes)
    const read = partitionsOf(nodes.filter(node => !leadsThroughTrace(node) && hasRead(node)))
    const { start_time, end_time } = within()
    const [first, last] = [dayOf(start_time), dayOf(end_time)]
    expect(read.filter(name => name.startsWith('runs_shortlived')).toSorted()).toEqual([first, last])
    // Tokens of a trace are looked up from an hour before its root on.
    const looked = partitionsOf(nodes).filter(name => /^runs_shortlived_\d/.test(name))
    const earliest = dayOf(new Date(Date.parse(start_time) - 3_700_000).toISOString())
    expect(looked.filter(name => name < earliest)).toEqual([])
  })
})

describe('without times', () => {
  const of = { session: [] as string[], select: ['id'] }
  const READS: [string, () => [string, object?], RegExp][] = [
    ['a page', () => ['/runs/query', { ...of, session: [session], limit: 20 }], /session_id_order_time/],
    ['a run by its id', () => ['/runs/query', { id: [trace.id], select: ['id'] }], /_pkey$/],
    ['a run by its id and its start', () => [`/runs/${trace.id}?start_time=${trace.time.toISOString()}`], /_pkey$/],
    ['a trace', () => ['/runs/query', { trace: trace.id, select: ['id'] }], /_tenant_id_trace_id_idx$/],
    ['the runs below one', () => ['/runs/query', { parent_run: trace.id, select: ['id'] }], /_trace_id_idx$/],
    ['runs of an example', () => ['/runs/query', { reference_example: [trace.id] }], /reference_example/],
    [
      'a thread',
      () => ['/runs/query', { session: [session], is_root: true, filter: 'eq(thread_id, "thread-8")' }],
      /session_id_thread_id/,
    ],
    ['the traces of a thread', () => [`/v2/threads/thread-8/traces?project_id=${session}`], /session_id_thread_id/],
    [
      'what a thread adds up to',
      () => [`/v2/threads/thread-8/stats?session_id=${session}&selects=TURNS`],
      /session_id_thread_id/,
    ],
  ]
  it.each(READS)('%s is found by its index', async (_, read, index) => {
    const [path, body] = read()
    const nodes = await planOf(path, body)
    expectNoSequentialScan(nodes)
    expect(nodes.filter(node => wasRun(node) && index.test(node['Index Name'] ?? ''))).not.toEqual([])
  })

  it('a page of the newest runs reads them alone', async () => {
    const nodes = await planOf('/runs/query', { session: [session], limit: 20, select: ['id'] })
    const rows = scans(nodes).reduce((sum, node) => sum + node['Actual Rows']! * node['Actual Loops']!, 0)
    expect(rows).toBeLessThan(100)
  })
})
