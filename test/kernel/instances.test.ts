// Several instances on one database: their scheduled work begins at the same moment, and each effect happens once.
import { sql } from 'drizzle-orm'
import { expect, it, onTestFinished } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { createPinnedFetch } from '../../src/host/pinned-fetch.ts'
import { LISTENER_SILENT_AFTER } from '../../src/hosting/deployments/lifecycle.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { Storage } from '../../src/platform.ts'
import {
  type App,
  foreignServers,
  getApp,
  logLines,
  newTenant,
  startApp,
  type Tenant,
  withClockAhead,
} from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { listRevisions } from '../support/deployments.ts'
import { newAskedTenant } from '../support/insights.ts'
import { query } from '../support/postgres.ts'
import { setUpPreviews } from '../support/previews.ts'
import { DISCOVER_PATH, MCP_ORIGIN, makeDiscoverBody, makeMcpServer } from '../support/providers.ts'
import { deliverAndSettle, newRepository, newRepositoryDeployment, serveRepositories } from '../support/pushes.ts'
import { appendEnded, appliedRuns, newTracedTenant } from '../support/rules.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../support/sync-agent.ts'
import { startReceiver } from '../support/webhook-receiver.ts'
import { database } from '../support/worker-database.ts'

const DAY = 24 * 60 * 60_000
const INSTANCES = 3
const pinnedFetch = createPinnedFetch({ allowLoopback: true })

/** The schedule alone sends their events. `removed` gets the paths that they remove from the store. */
function startInstances(removed: string[]): App[] {
  const mcpServer = makeMcpServer()
  const foreignFetch: typeof fetch = (input, init) => {
    const { hostname, origin } = new URL(input instanceof Request ? input.url : input)
    const isOfProvider = origin === MCP_ORIGIN || hostname === 'auth.example.com'
    return (hostname === '127.0.0.1' ? pinnedFetch : isOfProvider ? mcpServer : foreignServers.fetch)(input, init)
  }
  const storage: Storage = {
    put: async () => {},
    get: async () => null,
    remove: async paths => void removed.push(...paths),
  }
  const overrides = { foreignFetch, deliveriesPerRequest: 0, storage }
  return Array.from({ length: INSTANCES }, () => startApp({ settings: { ALLOW_LOOPBACK: 'true' }, overrides }))
}

async function readRows(statement: ReturnType<typeof sql>): Promise<unknown[][]> {
  const [rows] = await runAsSystem(getApp().database, statement)
  return rows as unknown[][]
}

/** Counts the events of the schedule in a workspace, by type. */
async function countEvents({ tenant_id }: Tenant): Promise<Record<string, number>> {
  const rows = await readRows(sql`
    select type, count(*)
    from events
    where scope_id = ${tenant_id}::uuid and actor_kind = 'cron'
    group by type`)
  return Object.fromEntries(rows.map(([type, count]) => [type as string, Number(count)]))
}

it('the schedules of several instances do all work that is due once', async () => {
  serveRepositories()
  const removed: string[] = []
  const instances = startInstances(removed)
  const app = instances[0]!
  const receiver = await startReceiver()
  onTestFinished(receiver.close)

  // Messages to a webhook.
  const sender = await newTenant({ app })
  await sender.post('/v2/webhooks', { url: receiver.url, event_types: ['tag_key.*'] })
  for (let i = 0; i < 40; i++) await sender.post('/v2/tag-keys', { key: `key-${i}` })

  // Runs that match a rule, which sends them.
  const ruled = await newTracedTenant({ app })
  const rule = await ruled.createRule({ webhooks: [{ url: receiver.url }], extend_only: true })
  const runs = await appendEnded(ruled.tenant, 30)

  // A job of insights by a schedule.
  const asked = await newAskedTenant({ app })
  const insights = `/sessions/${asked.session_id}/insights`
  const config = { name: 'Daily', config: { model: 'none', last_n_hours: 240 }, schedule_cron: '0 8 * * *' }
  await asked.tenant.post(`${insights}/configs`, config)

  // Deployments of a listener that falls silent, and revisions past their deadline.
  const served = await newTenant({ app })
  const { listener, key } = await newListener(served)
  const agent = makeSyncAgent(served, key)
  for (let i = 0; i < 6; i++)
    await served.post('/v2/deployments', makeListenerDeployment(listener, { name: `app-${i}` }))
  for (const work of await agent.pollAll()) await agent.report(work, { state: 'deployed' })
  const late = await newTenant({ app })
  for (let i = 0; i < 6; i++) await late.post('/v2/deployments', makeImageBody())

  // A delivery of a git host that failed, and a preview that waits for the place of another one.
  const pushed = await newTenant()
  const repository = await newRepository(pushed)
  const deployed = await newRepositoryDeployment(pushed, repository)
  repository.overrides.answer = () => new Response('{}', { status: 500 })
  await deliverAndSettle(repository.integrations[0]!, repository.push())
  repository.overrides.answer = null
  const previews = await setUpPreviews({ max: 1 })
  await previews.pull('opened', 1)
  await previews.pull('opened', 2)
  await previews.pull('closed', 1)

  // A provider that is checked every day, and what has expired.
  const connected = await newTenant({ app })
  await connected.post(DISCOVER_PATH, makeDiscoverBody())
  const { organization_id, tenant_id } = connected
  await readRows(sql`
    insert into model_usage
      (organization_id, tenant_id, day, configuration_id, configuration_name, actor_kind, calls, failed)
    select ${organization_id}::uuid, ${tenant_id}::uuid, '2024-01-01', gen_random_uuid(), 'old', 'key', 1, 0
    from generate_series(1, 6000)`)
  await readRows(sql`
    insert into trace_objects (organization_id, tenant_id, path, trace_id, session_id, run_id, expires_at, bytes)
    select ${organization_id}::uuid, ${tenant_id}::uuid, 'old/' || n, gen_random_uuid(), null, gen_random_uuid(),
      now(), 1
    from generate_series(1, 250) n`)
  await readRows(sql`
    insert into example_objects (id, organization_id, tenant_id, bytes)
    select gen_random_uuid(), ${organization_id}::uuid, ${tenant_id}::uuid, 1
    from generate_series(1, 50)`)
  // Drops the newest partition, so that the next sweep is the first of its day.
  const [{ name }] = (await query(
    database.url,
    `select max(relname) as name from pg_class where relname ~ '^runs_shortlived_\\d{8}$'`,
  )) as [{ name: string }]
  await query(database.url, `drop table ${name}`)

  expect(2 * DAY).toBeGreaterThan(LISTENER_SILENT_AFTER)
  await withClockAhead(2 * DAY, async () => {
    for (let i = 0; i < 2; i++) {
      await Promise.all(instances.map(({ housekeep }) => housekeep()))
      await finishPendingWork()
    }
  })

  expect(logLines.filter(({ level }) => level === 'error')).toEqual([])
  const ofWebhook = receiver.messages.filter(({ json }) => json.type === 'tag_key.created')
  expect(ofWebhook).toHaveLength(40)
  expect(new Set(ofWebhook.map(({ id }) => id)).size).toBe(40)
  const ofRule = receiver.messages.filter(({ json }) => json.rule_id === rule.id)
  expect(ofRule.flatMap(({ json }) => json.runs.map((run: { id: string }) => run.id)).sort()).toEqual(runs)
  expect(await appliedRuns(ruled.tenant, rule)).toEqual(runs)
  expect((await asked.tenant.get(insights)).body.clustering_jobs).toMatchObject([{ status: 'success' }])
  expect(await countEvents(asked.tenant)).toMatchObject({ 'insight_job.created': 1 })
  expect(await countEvents(served)).toEqual({ 'incident.opened': 1, 'deployment.unknown': 6, 'listener.lost': 1 })
  expect(await countEvents(late)).toMatchObject({ 'revision.deploy_failed': 6 })
  expect((await listRevisions(pushed, deployed.id)).map(({ number }) => number)).toEqual([2, 1])
  expect(await previews.live()).toHaveLength(1)
  expect(await countEvents(previews.tenant)).toMatchObject({ 'deployment.created': 1 })
  expect(await countEvents(connected)).toEqual({})
  expect(
    await readRows(sql`
      select count(*)
      from events
      where type = 'oauth_provider.checked' and organization_id = ${organization_id}::uuid`),
  ).toEqual([['1']])
  expect(await readRows(sql`select count(*) from model_usage`)).toEqual([['0']])
  expect([removed.length, new Set(removed).size]).toEqual([300, 300])
  expect(await readRows(sql`select to_regclass(${name}) is not null`)).toEqual([[true]])
  // Each journal has one head, and no number is missing.
  expect(
    await readRows(sql`
      select j.scope_id
      from journals j
      where 1 <> (select count(*) from journal_heads h where h.scope_id = j.scope_id)
        or j.seq <> (select count(*) from events e where e.scope_id = j.scope_id)`),
  ).toEqual([])
})
