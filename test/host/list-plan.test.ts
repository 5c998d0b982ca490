// The plans of the list, as the served statement gets them behind the walls: never a sequential scan, and the covering index for filters.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pageOf } from '../../src/deployments/list.ts'
import { DeploymentQuery } from '../../src/deployments/schema.ts'
import { migrate } from '../../src/host/migrate.ts'
import { hosted } from '../../src/host/node.ts'
import { type Postgres, startPostgres } from '../../src/host/postgres.ts'
import { type Seeded, seed } from '../../src/host/seeding.ts'
import type { Caller } from '../../src/kernel/context.ts'
import { sha256Hex } from '../../src/kernel/crypto.ts'
import { run } from '../../src/kernel/db.ts'

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
const SIZE = { tenants: 8, deployments: 20_000 }
let folder: string
let postgres: Postgres
let host: ReturnType<typeof hosted>
let seeded: Seeded
let admin: pg.Client

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slipway-plans-'))
  postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })
  await migrate(postgres.url, { log: () => {} })
  seeded = await seed(postgres.url, SIZE)
  host = hosted({ SEALING_KEYS, DATABASE_URL: postgres.url, RATE_LIMIT_PER_MINUTE: '0' }, { log: () => {} })
  admin = new pg.Client(postgres.url)
  await admin.connect()
})

afterAll(async () => {
  await admin?.end()
  await host?.close()
  await postgres?.stop()
  await rm(folder, { recursive: true, force: true })
})

type Node = { 'Node Type': string; 'Relation Name'?: string; 'Index Name'?: string; Plans?: Node[] }
const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** What the database does for a query, asked as the app asks. */
async function planOf(query: Record<string, string>, statement = pageOf(DeploymentQuery.parse(query))) {
  const caller: Caller = {
    config: host.config,
    database: host.app.database,
    sealer: undefined as never,
    actor: { kind: 'key', hash: await sha256Hex(seeded.api_key) },
    tenant: null,
    origin: 'http://slipway.test',
    requestId: 'plan',
    ifMatch: null,
    withoutIfMatch: false,
    idempotency: null,
    planDigest: null,
    seen: {},
  }
  const explained = { ...statement, sql: `explain (format json) ${statement.sql}`, read: (rows: unknown[]) => rows }
  const [[text]] = (await run({ ...caller, permission: 'deployments:read' }, explained)) as [[string]]
  return nodesOf(JSON.parse(text)[0].Plan).filter(node => node['Relation Name'] === 'deployments')
}

const ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const AT = Buffer.from(`2025-01-03 00:00:00+00~${ID}`).toString('base64url')
const FILTERS = {
  name_contains: ['agent', 'matches nothing', '%'],
  status: ['READY', 'UNKNOWN', 'READY,UNUSED,AWAITING_DELETE'],
  remote_reconciled: ['true', 'false'],
  tag_value_ids: [ID, Array(100).fill(ID).join()],
  image_version: ['0.1.1', 'none'],
  deployment_type: ['dev', 'prod'],
  deployment_ids: [ID, Array.from({ length: 100 }, () => crypto.randomUUID()).join()],
}
const PAGES: Record<string, string>[] = [{}, { offset: '150' }, { offset: '1500', limit: '100' }, { cursor: AT }]

const scan = (node: Node) => `${node['Node Type']} of ${node['Index Name'] ?? node['Relation Name']}`
const SEQUENTIAL = 'Seq Scan of deployments'
/** A filtered page is found in the index alone; few ids may be looked up instead. */
function expectFound(scans: string[], filters: Record<string, unknown>) {
  const carried = 'Index Only Scan of deployments_list'
  const looked = filters.deployment_ids ? 'Index Scan of deployments_pkey' : carried
  expect(
    [carried, looked].some(one => scans.includes(one)),
    scans.join(),
  ).toBe(true)
  expect(scans).not.toContain(SEQUENTIAL)
}

describe('a list of deployments is read by index', () => {
  const alone = Object.entries(FILTERS).flatMap(([name, values]) => values.map(value => [name, value] as const))

  it.each(PAGES)('without a filter: %o', async page => {
    expect((await planOf(page)).map(scan)).not.toContain(SEQUENTIAL)
  })

  it.each(alone)('%s alone: %s', async (name, value) => {
    for (const page of PAGES) {
      expectFound((await planOf({ ...page, [name]: value })).map(scan), { [name]: value })
    }
  })

  it('in any combination', async () => {
    const filters = Object.fromEntries(
      Object.entries(FILTERS).map(([name, values]) => [name, fc.constantFrom(...values)]),
    )
    await fc.assert(
      fc.asyncProperty(fc.record(filters, { requiredKeys: [] }), fc.constantFrom(...PAGES), async (given, page) => {
        const scans = (await planOf({ ...page, ...(given as Record<string, string>) })).map(scan)
        if (Object.keys(given).length > 0) expectFound(scans, given)
        expect(scans).not.toContain(SEQUENTIAL)
      }),
      { numRuns: 200 },
    )
  })

  it('and only thanks to the index that carries it', async () => {
    const { rows } = await admin.query(`select pg_get_indexdef('deployments_list'::regclass) as made`)
    await admin.query('drop index deployments_list')
    try {
      expect((await planOf({ name_contains: 'agent', offset: '1500' })).map(scan)).toContain(SEQUENTIAL)
    } finally {
      await admin.query(rows[0].made)
      await admin.query('vacuum (analyze) deployments')
    }
  })
})

it('seeding twice adds only what is missing', async () => {
  expect(seeded.counts).toMatchObject({ workspaces: 8, deployments: 20_000, revisions: 20_000, largest: 2000 })
  const again = await seed(postgres.url, { tenants: 9, deployments: 20_010 })
  expect(again.tenant_id).toBe(seeded.tenant_id)
  expect(again.counts).toMatchObject({ workspaces: 9, deployments: 20_010, revisions: 20_010, largest: 2001 })
  const headers = { 'X-Api-Key': again.api_key }
  const reply = await host.app.fetch(new Request('http://x/v2/deployments?limit=100', { headers }))
  const body = (await reply.json()) as { resources: unknown[] }
  expect([reply.status, body.resources.length]).toEqual([200, 100])
})
