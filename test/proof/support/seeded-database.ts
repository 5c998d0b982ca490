// Databases of deployments: a large one, BENCH_ROWS of a thousand tenants, which is kept between runs and only read,
// and small ones on the server of the run.
import pg from 'pg'
import { createHost } from '../../../src/host/host.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { type SeedResult, seed } from '../../../src/host/seed-data.ts'
import { deploymentPageQuery } from '../../../src/hosting/deployments/list.ts'
import { DeploymentQuery } from '../../../src/hosting/deployments/schema.ts'
import {
  type BenchDatabase,
  makeTenant,
  SETTINGS,
  type ServedDatabase,
  serveDatabase,
  WITHOUT_LIMITS,
} from './database.ts'
import { type DatasetOptions, openDataset } from './dataset.ts'
import type { Cleanup } from './processes.ts'
import { median } from './statistics.ts'

export const ROWS = Number(process.env.BENCH_ROWS || 1_000_000)
export const ROWS_TEXT = ROWS.toLocaleString('en')
const LARGE = { tenants: 1000, deployments: ROWS }

export type SeededDatabase = ServedDatabase & SeedResult
/** With a key of a tenant that has few deployments. */
export type LargeDatabase = SeededDatabase & { small_tenant_key: string }
type Statement = { query: string; params: unknown[] }

export async function openLargeDatabase(cleanup: Cleanup, options: DatasetOptions): Promise<LargeDatabase> {
  const { url, pid, info } = await openDataset(
    cleanup,
    {
      name: 'deployments',
      what: `${ROWS_TEXT} deployments`,
      size: LARGE,
      sources: ['src/host/seed-data.ts'],
      async make({ url }, progress) {
        const seeded = await seed(url, { ...LARGE, onProgress: done => progress(`${done} of ${ROWS_TEXT}`) })
        const { api_key } = await makeTenant(url, { organization: 'Seed', workspace: `Seed ${LARGE.tenants - 100}` })
        return { ...seeded, small_tenant_key: api_key }
      },
    },
    options,
  )
  return { ...(await serveDatabase(cleanup, url, pid)), ...info }
}

export async function openSeededDatabase(
  cleanup: Cleanup,
  server: BenchDatabase,
  size: { tenants: number; deployments: number },
): Promise<SeededDatabase> {
  const url = await createDatabase(server.url)
  await migrate(url, { log: () => {} })
  const seeded = await seed(url, size)
  return { ...(await serveDatabase(cleanup, url, server.pid)), ...seeded }
}

/** An empty one on the same server, or a copy of another one. */
export async function createDatabase(serverUrl: string, template?: string): Promise<string> {
  const name = `bench_${crypto.randomUUID().replaceAll('-', '')}`
  const source = template ? ` template ${new URL(template).pathname.slice(1)}` : ''
  await withClient(serverUrl, client => client.query(`create database ${name}${source}`))
  return Object.assign(new URL(serverUrl), { pathname: `/${name}` }).href
}

/** Deployments of the biggest tenant that can be patched. */
export async function findIdleDeployments({ url, tenant_id }: SeededDatabase, count: number): Promise<string[]> {
  const { rows } = await withClient(url, client =>
    client.query('select id from deployments where tenant_id = $1 and deleting_at is null limit $2', [
      tenant_id,
      count,
    ]),
  )
  return rows.map(({ id }) => id)
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

/** The statements of a request's one round trip, in order. A baseline sends them and counts no requests. */
export async function captureStatements(
  { url, api_key }: { url: string; api_key: string },
  path: string,
  init: RequestInit = {},
) {
  const trips: Statement[][] = []
  const onTrip = ({ queries }: { queries: Statement[] }) => trips.push(queries)
  const { app, close } = createHost(
    { ...SETTINGS, ...WITHOUT_LIMITS, DATABASE_URL: url },
    { log: () => {} },
    { onTrip },
  )
  const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
  const { status } = await app.fetch(new Request(`http://bench${path}`, { ...init, headers }))
  await close()
  if (status !== 200) throw new Error(`${path} answers ${status}`)
  // Later ones send what was counted.
  return trips[0]!
}

/** A text within a parameter becomes what its expression, of pgbench's variables, gives at each run. */
export const inlineParameters = ({ query, params }: Statement, replacements: Record<string, string> = {}): string =>
  query.replace(/\$(\d+)/g, (_, number) => {
    const value = params[number - 1] as string | null
    if (value === null) return 'null'
    const replaced = Object.entries(replacements).filter(([text]) => String(value).includes(text))
    return replaced.reduce(
      (literal, [text, expression]) => (value === text ? expression : `replace(${literal}, '${text}', ${expression})`),
      escapeLiteral(String(value)),
    )
  })

/** pgbench takes a colon for the beginning of a variable, also within a string. */
const escapeLiteral = (text: string): string =>
  ` E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''").replaceAll(':', '\\x3a')}'`
