// The large databases of a run: BENCH_ROWS deployments of a thousand tenants, and small ones beside it on the same
// server.
import pg from 'pg'
import { deploymentPageQuery } from '../../src/deployments/list.ts'
import { DeploymentQuery } from '../../src/deployments/schema.ts'
import { createGateway } from '../../src/host/gateway.ts'
import { migrate } from '../../src/host/migrate.ts'
import { createHost } from '../../src/host/node.ts'
import { type SeedResult, seed } from '../../src/host/seed-data.ts'
import type { BenchDatabase } from './database.ts'
import { SEALING_KEYS } from './database.ts'
import type { Cleanup } from './processes.ts'
import { median } from './statistics.ts'

export const ROWS = Number(process.env.BENCH_ROWS || 1_000_000)
export const ROWS_TEXT = ROWS.toLocaleString('en')

export type SeededDatabase = SeedResult & {
  url: string
  gateway: string
  bindings(gateway?: string): Record<string, string>
}
type Statement = { query: string; params: unknown[] }

export async function openSeededDatabase(
  cleanup: Cleanup,
  server: BenchDatabase,
  size: { tenants: number; deployments: number },
  onProgress?: (text: string) => void,
): Promise<SeededDatabase> {
  const name = `seeded_${crypto.randomUUID().replaceAll('-', '')}`
  await withClient(server.url, client => client.query(`create database ${name}`))
  const url = Object.assign(new URL(server.url), { pathname: `/${name}` }).toString()
  await migrate(url, { log: () => {} })
  const showSeeded = (done: number) => onProgress?.(`${done} of ${size.deployments} deployments`)
  const seeded = await seed(url, { ...size, onProgress: showSeeded })
  const gateway = createGateway({ databaseUrl: url })
  cleanup.defer(() => gateway.close())
  const address = (await gateway.listen()).url
  const bindings = (through = address) => ({
    PUBLIC_URL: 'http://slipway.test',
    DATABASE_URL: gateway.connectionString,
    DATABASE_GATEWAY_URL: through,
    SEALING_KEYS,
    RATE_LIMIT_PER_MINUTE: '0',
    EVENTS_PER_DAY: '0',
  })
  return { ...seeded, url, gateway: address, bindings }
}

export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url)
  await client.connect()
  return work(client).finally(() => client.end())
}

/** A connection with the app's role, on which row-level security shows the biggest tenant only. */
export async function connectAsTenant(cleanup: Cleanup, { url, tenant_id }: SeededDatabase): Promise<pg.Client> {
  const client = new pg.Client(url)
  await client.connect()
  cleanup.defer(() => client.end())
  await client.query(`select set_config('app.tenant_id', $1, false)`, [tenant_id])
  await client.query('set role slipway_app')
  return client
}

export const makeListStatement = (query: Record<string, string>): Statement => {
  const { sql, params } = deploymentPageQuery(DeploymentQuery.parse(query))
  return { query: sql, params }
}

/** The median milliseconds of a statement. */
export async function measureStatement(
  client: pg.Client,
  { query, params }: Statement,
  times: number,
): Promise<number> {
  const measured: number[] = []
  for (let i = 0; i < times; i++) {
    const start = performance.now()
    await client.query(query, params)
    measured.push(performance.now() - start)
  }
  return median(measured)
}

type PlanNode = { 'Node Type': string; 'Index Name'?: string; Plans?: PlanNode[] } & Record<string, unknown>

export async function explainStatement(client: pg.Client, { query, params }: Statement) {
  const { rows } = await client.query(`explain (analyze, buffers, format json) ${query}`, params)
  const root: PlanNode = rows[0]['QUERY PLAN'][0].Plan
  const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]
  const scans = nodesOf(root).filter(node => 'Relation Name' in node)
  return {
    buffers: Number(root['Shared Hit Blocks']) + Number(root['Shared Read Blocks']),
    scans: scans.map(node => `${node['Node Type']} of ${node['Index Name'] ?? node['Relation Name']}`),
  }
}

/** The statements of a request's one round trip, in order. */
export async function captureStatements({ url, api_key }: SeededDatabase, path: string, init: RequestInit = {}) {
  let statements: Statement[] = []
  const onTrip = ({ queries }: { queries: Statement[] }) => {
    statements = queries
  }
  const env = {
    PUBLIC_URL: 'http://slipway.test',
    SEALING_KEYS,
    DATABASE_URL: url,
    RATE_LIMIT_PER_MINUTE: '0',
    EVENTS_PER_DAY: '0',
  }
  const { app, close } = createHost(env, { log: () => {} }, { onTrip })
  const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
  const { status } = await app.fetch(new Request(`http://bench${path}`, { ...init, headers }))
  await close()
  if (status !== 200) throw new Error(`${path} answers ${status}`)
  return statements
}

export const inlineParameters = ({ query, params }: Statement): string =>
  query.replace(/\$(\d+)/g, (_, number) => {
    const value = params[number - 1] as string | null
    return value === null ? 'null' : pg.escapeLiteral(String(value))
  })
