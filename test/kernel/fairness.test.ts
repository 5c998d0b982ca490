// A hostile workspace beside a quiet one, for each resource that all workspaces share.
import { expect, it, onTestFinished } from 'vitest'
import { openPools } from '../../src/host/database-pools.ts'
import type { SendStatements } from '../../src/platform.ts'
import { type App, newTenant, startApp, type Tenant, unusedId } from '../support/app.ts'
import { appendRuns, newTrace, projectId } from '../support/new-traces.ts'
import { connect } from '../support/postgres.ts'
import { database } from '../support/worker-database.ts'

const inParallel = <T>(times: number, act: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: times }, act))
const GATE = 4_711

/** An app with a pool of its own, whose slow reads of one workspace wait until the gate opens. */
async function startGated(overrides: Parameters<typeof startApp>[0] = {}) {
  let gated: string = unusedId()
  const pools = openPools({
    databaseUrl: database.logins.app,
    systemUrl: database.logins.system,
    rewrite: text =>
      text.replace(
        "select set_config('statement_timeout', $1, true)",
        `$&, case when setting('tenant_id') = '${gated}' then pg_advisory_xact_lock_shared(${GATE}) end`,
      ),
  })
  onTestFinished(pools.close)
  const app = startApp({
    ...overrides,
    overrides: {
      databaseConnections: pools.connections,
      ...overrides.overrides,
    },
  })
  const holder = await connect(database.url)
  onTestFinished(() => holder.end())
  await holder.query(`select pg_advisory_lock(${GATE})`)
  return {
    app,
    pools,
    holder,
    gate: ({ tenant_id }: Tenant) => {
      gated = tenant_id
    },
    open: () => holder.query(`select pg_advisory_unlock(${GATE})`),
  }
}

async function openTenants(app: App): Promise<[loud: Tenant, quiet: Tenant]> {
  const tenants = await Promise.all([newTenant({ app }), newTenant({ app })])
  // The instance learns the workspaces of the keys.
  for (const tenant of tenants) expect((await tenant.get('/v2/tag-keys')).status).toBe(200)
  return tenants
}

async function readStatistics(tenant: Tenant): Promise<() => Promise<{ status: number }>> {
  await appendRuns(tenant, [newTrace().root])
  const session = [await projectId(tenant, 'traced')]
  return () => tenant.post('/runs/stats', { session })
}

it('slow reads of a workspace leave connections to its own short requests and to slow reads of others', async () => {
  const { app, pools, gate, open } = await startGated()
  const [loud, quiet] = await openTenants(app)
  const [readLoudly, readQuietly] = [await readStatistics(loud), await readStatistics(quiet)]
  gate(loud)
  const reads = inParallel(12, readLoudly)
  expect((await readQuietly()).status).toBe(200)
  expect((await quiet.get('/v2/tag-keys')).status).toBe(200)
  expect((await loud.get('/v2/tag-keys')).status).toBe(200)
  expect(pools.poolState().waiting).toBeGreaterThan(0)
  await open()
  await reads
})

it('requests of a workspace that wait for a lock leave connections to others', async () => {
  const { app, holder } = await startGated()
  const [loud, quiet] = await openTenants(app)
  const { body: key } = await loud.post('/v2/tag-keys', { key: 'loud' })
  await holder.query('begin')
  await holder.query('select from tag_keys where id = $1 for update', [key.id])
  const writes = inParallel(12, () => loud.patch(`/v2/tag-keys/${key.id}`, { key: 'still loud' }))
  expect((await quiet.get('/v2/tag-keys')).status).toBe(200)
  expect((await quiet.post('/v2/tag-keys', { key: 'quiet' })).status).toBe(201)
  await holder.query('rollback')
  await writes
})

it('a workspace that has spent its database time is refused, and no other', async () => {
  let isSlow = false
  const { pools } = await startGated()
  const slowly: SendStatements = (statements, use, signal) => {
    const onReleased = (ms: number) => use.onReleased?.(ms + (isSlow ? 2000 : 0))
    return pools.connections.app(statements, { ...use, onReleased }, signal)
  }
  const budgeted = startApp({
    settings: { DATABASE_SECONDS_PER_MINUTE: '1' },
    overrides: { databaseConnections: { ...pools.connections, app: slowly } },
  })
  const [loud, quiet] = await openTenants(budgeted)
  isSlow = true
  expect((await loud.get('/v2/tag-keys')).status).toBe(200)
  isSlow = false
  const refused = await loud.get('/v2/tag-keys')
  expect([refused.status, refused.body.code]).toEqual([429, 'database_time_spent'])
  expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(0)
  expect((await quiet.get('/v2/tag-keys')).status).toBe(200)
})

it('large answers that a workspace does not take leave memory to others', async () => {
  const app = startApp({ overrides: { answerBytes: 2_000_000 } })
  const [loud, quiet] = await openTenants(app)
  const share = async (tenant: Tenant) => {
    const { root } = newTrace()
    await appendRuns(tenant, [{ ...root, inputs: JSON.stringify({ text: 'ž'.repeat(400_000) }) }])
    return `/runs/${root.id}`
  }
  const [large, small] = [await share(loud), await share(quiet)]
  const take = async (tenant: Tenant, path: string) =>
    app.fetch(new Request(`http://slipway.test${path}`, { headers: { 'X-Api-Key': tenant.key } }))
  const untaken = await inParallel(5, () => take(loud, large))
  const statuses = untaken.map(({ status }) => status)
  expect(statuses).toContain(200)
  expect(statuses).toContain(503)
  expect((await quiet.get(small)).body.inputs.text).toHaveLength(400_000)
  for (const { body } of untaken) await body?.cancel()
  expect((await loud.get(large)).body.inputs.text).toHaveLength(400_000)
})
