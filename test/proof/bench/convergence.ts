// P17: one agent brings a thousand new deployments to their desired state; then what it costs while nothing
// changes.
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { Agent } from '../../../src/agent/agent.ts'
import { type ControlPlaneClient, createControlPlaneClient } from '../../../src/agent/control-plane/client.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import type { BenchDatabase } from '../support/database.ts'
import { withClient } from '../support/seeded-database.ts'
import { formatNumber, median } from '../support/statistics.ts'
import { makeTempFolder, serveWorkers } from '../support/workerd.ts'

const [DEPLOYMENTS, CONCURRENCY, PATCHES] = [1000, 8, 5]
/** Without another request than those of logs. */
const SETTLED_MS = 3000
const IDLE_S = 30
const TIMEOUT_MS = 300_000
const TARGETS = { seconds: 20, requests: 4, trips: 45, patch: 1 }
/** No target yet: it is reckoned from one agent's trips. */
const [MANY_AGENTS, GOAL_OF_MANY] = [10_000, 200]
const IMAGE = `registry.example.com/bench@sha256:${'a'.repeat(64)}`

export default {
  id: 'P17',
  what: `${DEPLOYMENTS} deployments, one agent: until DEPLOYED; requests and round trips per idle minute; a patch`,
  target: `≤ ${TARGETS.seconds} s; ≤ ${TARGETS.requests} and ≤ ${TARGETS.trips}; ≤ ${TARGETS.patch} s`,
  async run(context: BenchContext) {
    const database = await context.database()
    const { modules } = await context.worker()
    const { urls } = await serveWorkers(context, { slipway: { modules, bindings: database.bindings() } })
    const call = makeApiCall(urls.slipway, database)
    // The row is measured again on a busy machine.
    const compute_id = `bench-${crypto.randomUUID()}`
    const { id: listener_id } = await call('POST', '/v2/listeners', { compute_type: 'local', compute_id })
    const { key } = await call('POST', `/v2/listeners/${listener_id}/keys`, {})
    const ids = await createDeployments(context, call, listener_id)

    const control = countRequests(createControlPlaneClient({ url: urls.slipway, key }))
    const agent = new Agent({
      agent_id: 'bench',
      version: 'bench',
      home: await makeTempFolder(context),
      engine: new FakeEngine(),
      control,
      logToOperator: () => {},
    })
    context.defer(() => agent.close({ stop: true }))
    const startMeasuring = () => {
      const [requests, logs, trips] = [control.requests(), control.requests('logs'), database.trips()]
      const start = performance.now()
      return () => ({
        seconds: (performance.now() - start) / 1000,
        requests: control.requests() - requests,
        logs: control.requests('logs') - logs,
        trips: database.trips() - trips,
      })
    }
    const measureConvergence = startMeasuring()
    const ended = agent.run()
    await Promise.race([
      ended,
      waitUntilDeployed(database.url, listener_id, DEPLOYMENTS, done => context.progress(`${done} deployed`)),
    ])
    const [converged, kinds] = [measureConvergence(), control.formatCounts()]

    // Reports of what serves and tokens for models follow the start.
    const countOthers = () => control.requests() - control.requests('logs')
    for (let count = -1; count !== countOthers(); await delay(SETTLED_MS)) count = countOthers()
    context.progress(`idle for ${IDLE_S} s`)
    const measureIdle = startMeasuring()
    await delay(IDLE_S * 1000)
    const idle = measureIdle()

    const patches: number[] = []
    for (let i = 1; i <= PATCHES; i++) {
      context.progress(`patch ${i} of ${PATCHES}`)
      const start = performance.now()
      await call('PATCH', `/v2/deployments/${ids[i * 100]}`, { secrets: [{ name: 'TOKEN', value: `patch-${i}` }] })
      await waitUntilDeployed(database.url, listener_id, DEPLOYMENTS)
      patches.push((performance.now() - start) / 1000)
    }
    // The agent still sends the logs of the start. A request of them is a trip.
    const perMinute = (count: number) => ((count - idle.logs) * 60) / idle.seconds
    const [requests, trips, patch] = [perMinute(idle.requests), perMinute(idle.trips), median(patches)]
    return {
      measured: [
        `${formatNumber(converged.seconds, 1)} s`,
        `${formatNumber(requests, 1)} and ${formatNumber(trips, 0)}`,
        `${formatNumber(patch, 1)} s`,
      ].join('; '),
      met:
        converged.seconds <= TARGETS.seconds &&
        requests <= TARGETS.requests &&
        trips <= TARGETS.trips &&
        patch <= TARGETS.patch,
      notes: [
        `until all DEPLOYED: ${converged.requests} requests (${kinds}), ${converged.trips} database round trips`,
        `while idle: ${idle.logs} requests with logs of the start; the engine runs nothing`,
        `${MANY_AGENTS.toLocaleString('en')} idle agents at this rate: ` +
          `${formatNumber((MANY_AGENTS * trips) / 60, 0)} trips a second together (goal ≤ ${GOAL_OF_MANY})`,
      ],
      figures: { converged, logs: idle.logs, idle: { requests, trips }, patches, kinds },
    }
  },
} satisfies Bench

type ApiCall = ReturnType<typeof makeApiCall>

function makeApiCall(url: string | undefined, { tenant }: BenchDatabase) {
  const headers = { 'X-Api-Key': tenant.api_key, 'X-Tenant-Id': tenant.tenant_id, 'Content-Type': 'application/json' }
  return async (method: string, path: string, body: object) => {
    const answer = await fetch(url + path, { method, headers, body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`${method} ${path} answers ${answer.status}: ${await answer.text()}`)
    return (await answer.json()) as { id: string; key: string }
  }
}

async function createDeployments(context: BenchContext, call: ApiCall, listener_id: string): Promise<string[]> {
  const ids: string[] = []
  let started = 0
  const createNext = async () => {
    while (started < DEPLOYMENTS) {
      const { id } = await call('POST', '/v2/deployments', {
        name: `bench-${listener_id.slice(0, 8)}-${started++}`,
        source: 'internal_container',
        source_config: { listener_id },
        source_revision_config: { image_uri: IMAGE },
        secrets: [{ name: 'TOKEN', value: 'hush' }],
      })
      ids.push(id)
      context.progress(`${ids.length} created`)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, createNext))
  return ids
}

/** Until so many serve their newest revision and are reconciled. */
const waitUntilDeployed = (url: string, listener: string, count: number, progress: (done: number) => void = () => {}) =>
  withClient(url, async (client: pg.Client) => {
    await client.query('set role slipway_system')
    for (const deadline = Date.now() + TIMEOUT_MS; Date.now() < deadline; await delay(25)) {
      const { rows } = await client.query(
        `select count(*)::integer as done from deployments
          where listener_id = $1 and active_revision_id = latest_revision_id and remote_reconciled`,
        [listener],
      )
      if (rows[0].done >= count) return
      progress(rows[0].done)
    }
    throw new Error(`Not all ${count} deployments are DEPLOYED within ${TIMEOUT_MS / 1000} s`)
  })

/** The client with a counter for each of its methods. */
function countRequests(control: ControlPlaneClient) {
  const counts = new Map<string, number>()
  const counted = Object.fromEntries(
    Object.entries(control).map(([name, method]) => [
      name,
      (...args: never[]) => {
        counts.set(name, (counts.get(name) ?? 0) + 1)
        return (method as (...args: never[]) => unknown)(...args)
      },
    ]),
  ) as ControlPlaneClient
  const requests = (name?: string) =>
    name ? (counts.get(name) ?? 0) : [...counts.values()].reduce((sum, count) => sum + count, 0)
  return { ...counted, requests, formatCounts: () => [...counts].map(([name, count]) => `${name} ${count}`).join(', ') }
}
