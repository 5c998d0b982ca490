// The metrics of copies that the agent reports once a minute.
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { KubeConfig } from '@kubernetes/client-node'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { RequestRefused } from '../../src/agent/control-plane/client.ts'
import { MetricsReporter } from '../../src/agent/control-plane/metrics-reporter.ts'
import type { CopyUsage, RevisionUsage, StoreUsage } from '../../src/agent/engine.ts'
import { Cluster } from '../../src/agent/engines/kubernetes/cluster.ts'
import { DEPLOYMENT_LABEL, REVISION_LABEL } from '../../src/agent/engines/kubernetes/names.ts'
import { readPodUsage } from '../../src/agent/engines/kubernetes/pod-usage.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import { Metrics } from '../../src/protocol/metrics.schema.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { waitFor } from '../support/commands.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../support/process-engine.ts'

afterEach(closeEngines)

const MIB = 1024 * 1024
const APPLICATION = `
const { createServer } = require('node:http')
const kept = Buffer.alloc(64 * 1024 * 1024, 1)
createServer((req, res) => {
  if (req.url === '/crash') process.exit(3)
  if (req.url === '/work') for (const end = process.cpuUsage().user + 300000; process.cpuUsage().user < end; );
  res.writeHead(Number(req.url.slice(1)) || 200).end(String(kept.length))
}).listen(process.env.PORT)
`

const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0)

test('copies of the process engine have CPU time, memory, restarts and the answers to their requests', async () => {
  const home = makeTempFolder()
  onTestFinished(() => fs.rmSync(home, { recursive: true, force: true }))
  const ref = makeRevisionRef()
  const { engine } = await openEngine(home)
  const unit = makeUnit(ref, { resources: withDefaults({ min_scale: 2 }, 'dev') })
  await engine.start(unit, writeApplication(home, 'metrics', APPLICATION))
  const isHealthy = async () => (await engine.observe(ref.deployment_id)).running[0]?.phase === 'healthy'
  await waitFor(isHealthy)
  await engine.route(unit)
  const { url } = await engine.observe(ref.deployment_id)
  const ask = (path: string) => requestRouter(url!, path)
  const readCopies = async (from: ProcessEngine = engine) => (await from.readUsage())[0]!.copies
  const totalOf = (copies: CopyUsage[]) => ({
    cpu: sum(copies.map(({ cpu_ms }) => cpu_ms!)),
    statuses: copies.map(({ requests }) => requests!.statuses).reduce((a, b) => a.map((count, i) => count + b[i]!)),
    restarts: sum(copies.map(({ restarts }) => restarts)),
  })

  const idle = await readCopies()
  expect(idle).toMatchObject(['1', '2'].map(copy => ({ copy, running: true, restarts: 0 })))
  expect(totalOf(idle).statuses).toEqual([0, 0, 0, 0, 0])
  for (const path of ['/work', '/work', '/404', '/503', '/302']) await ask(path)
  const worked = await readCopies()
  expect(totalOf(worked).statuses).toEqual([0, 2, 1, 1, 1])
  expect(totalOf(worked).cpu - totalOf(idle).cpu).toBeGreaterThanOrEqual(500)
  for (const { requests, cpu_ms } of worked) {
    expect(sum(requests!.latencies)).toBe(sum(requests!.statuses))
    // The requests take turns, so each copy worked.
    expect(cpu_ms).toBeGreaterThan(250)
  }
  // More than 200 ms: a request to work took 300 ms of CPU. On a busy machine others may take as long.
  expect(sum(worked.flatMap(({ requests }) => requests!.latencies.slice(8)))).toBeGreaterThanOrEqual(2)
  // Memory is measured where its limit is enforced.
  const measured = await waitFor(async () => {
    const copies = await readCopies()
    return copies.every(({ memory_bytes }) => memory_bytes! > 64 * MIB) ? copies : undefined
  })
  for (const { memory_bytes } of measured) expect(memory_bytes).toBeLessThan(512 * MIB)

  // A GET may be sent again, and end another copy.
  expect((await requestRouter(url!, '/crash', { method: 'POST' })).status).toBe(502)
  const crashed = await waitFor(async () => {
    const copies = await readCopies()
    return totalOf(copies).restarts === 1 && copies.every(({ running }) => running) ? copies : undefined
  })
  expect(totalOf(crashed).statuses).toEqual([0, 2, 1, 1, 2])
  expect(totalOf(crashed).cpu).toBeGreaterThanOrEqual(totalOf(worked).cpu)

  // The answers of this minute are not lost with the copies.
  await engine.stop(ref)
  expect((await readCopies()).map(({ running, requests }) => [running, sum(requests!.statuses) > 0])).toEqual([
    [false, true],
    [false, true],
  ])
})

describe('the reporter', () => {
  const MINUTE = 60_000
  const start = Date.UTC(2026, 10, 23, 12)
  const counts = (count: number) => ({ statuses: [0, count, 0, 0, 0], latencies: [count, ...Array(15).fill(0)] })
  const makeCopy = (over: Partial<CopyUsage> = {}): CopyUsage => ({
    copy: '1',
    process: 'web',
    running: true,
    restarts: 0,
    cpu_ms: 0,
    memory_bytes: 5,
    requests: counts(0),
    ...over,
  })
  type Sent = {
    points: { at: string; unreached?: number | null; copies: Record<string, unknown>[]; stores?: object[] }[]
  }

  function startReporter(period_ms?: number) {
    const state = {
      now: start,
      hasLease: true,
      usage: [] as RevisionUsage[],
      stores: [] as StoreUsage[],
      sent: [] as Sent[],
      early: [] as Sent[],
      error: undefined as Error | undefined,
      events: [] as unknown[],
    }
    const ref = makeRevisionRef()
    const reporter = new MetricsReporter({
      engine: { readUsage: async () => state.usage, storeUsage: () => state.stores },
      control: {
        async metrics(metrics) {
          if (state.error) throw state.error
          Metrics.parse(metrics)
          state.sent.push(metrics as Sent)
          return { refused: [] }
        },
        async earlyMetrics(metrics) {
          Metrics.parse(metrics)
          state.early.push(metrics as Sent)
          if (state.error) throw state.error
          return { refused: [] }
        },
      },
      currentLease: () => (state.hasLease ? { agent_id: 'agent', fence: 1 } : undefined),
      signal: new AbortController().signal,
      logEvent: (event, fields) => state.events.push([event, fields]),
      period_ms,
      now: () => state.now,
    })
    const use = (copies: CopyUsage[], unreached = 0) => {
      state.usage = [{ ...ref, copies, unreached }]
    }
    /** The requests that are sent after that time. */
    const pass = async (ms: number) => {
      state.now += ms
      if (await reporter.tick()) await reporter.send()
      return state.sent.at(-1)
    }
    return { state, reporter, use, pass }
  }

  test('sends the usage since the minute before, and none from before it began', async () => {
    const { state, reporter, use, pass } = startReporter()
    use([makeCopy({ cpu_ms: 9000, restarts: 3, requests: counts(100) })], 7)
    await reporter.begin()
    use([makeCopy({ cpu_ms: 9500, restarts: 4, requests: counts(102) }), makeCopy({ copy: '2', cpu_ms: 30 })], 9)
    const { points } = (await pass(MINUTE))!
    expect(points).toMatchObject([{ at: new Date(start).toISOString(), unreached: 2 }])
    expect(points[0]!.copies).toMatchObject([
      { copy: '1', cpu_ms: 500, restarts: 1, memory_bytes: 5, statuses: '0,2,0,0,0' },
      { copy: '2', cpu_ms: 30, restarts: 0, statuses: '0,0,0,0,0' },
    ])
    expect(reporter.totals).toMatchObject({ cpu_ms: 530, restarts: 1, unreached: 2, statuses: [0, 2, 0, 0, 0] })
    expect(state.events).toEqual([])
  })

  test('sends failures before their minute is over, which then has them too', async () => {
    const { state, reporter, use, pass } = startReporter()
    const failing = (failed: number) => ({ statuses: [0, 100, 0, 0, failed], latencies: [100, ...Array(15).fill(0)] })
    use([makeCopy()])
    await pass(0)
    const early = async (ms: number) => {
      state.now += ms
      await reporter.lookEarly()
      return state.early.length
    }
    use([makeCopy({ requests: failing(4) })])
    expect(await early(10_000)).toBe(0)
    use([makeCopy({ requests: failing(6) })])
    expect(await early(10_000)).toBe(1)
    expect(state.early[0]!.points).toMatchObject([
      { at: new Date(start).toISOString(), copies: [{ statuses: '0,100,0,0,6' }] },
    ])
    const { points } = (await pass(40_000))!
    expect(points[0]!.copies).toMatchObject([{ statuses: '0,100,0,0,6' }])
    use([makeCopy({ requests: failing(6) })])
    state.now += MINUTE
    expect(await reporter.tick()).toBe('soon')
    use([makeCopy({ requests: failing(16) })])
    state.now += MINUTE
    expect(await reporter.tick()).toBe('now')
    await reporter.send()
    // A control plane that does not know of it is not asked again for an hour.
    state.error = new RequestRefused(404, 'route_not_found', '', null)
    use([makeCopy({ requests: failing(30) })])
    expect([await early(10_000), await early(10_000)]).toEqual([2, 2])
  })

  test('sends the amounts of stores with one of the revisions of their deployment', async () => {
    const { state, pass } = startReporter()
    const { deployment_id } = makeRevisionRef()
    const running = (revision_id: string, copies = [makeCopy()]) => ({
      ...{ deployment_id, revision_id, unreached: 0, copies },
    })
    const [ended, one, two] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()]
    state.usage = [running(ended, [makeCopy({ running: false })]), running(one), running(two)]
    state.stores = [
      { deployment_id, store: 'database', bytes: 9, connections: 2 },
      { deployment_id, store: 'disk:media', bytes: 7 },
      { ...makeRevisionRef(), store: 'redis', bytes: 1 },
    ]
    await pass(0)
    const { points } = (await pass(MINUTE))!
    expect(points.map(({ stores }) => stores)).toEqual([
      [
        { store: 'database', bytes: 9, connections: 2 },
        { store: 'disk:media', bytes: 7 },
      ],
      undefined,
    ])
  })

  test('leaves out values that are not visible, and counts restarted totals from zero', async () => {
    const { use, pass } = startReporter()
    use([makeCopy({ requests: counts(50) }), makeCopy({ copy: '2' }), makeCopy({ copy: '3', cpu_ms: null })])
    await pass(0)
    const unseen = { memory_bytes: null, requests: null }
    use([
      makeCopy({ requests: counts(4) }),
      makeCopy({ copy: '2', ...unseen, cpu_ms: null, cpu_cores: 0.5 }),
      makeCopy({ copy: '3', cpu_ms: 10 }),
    ])
    const [first, second, third] = (await pass(MINUTE))!.points[0]!.copies
    expect(first).toMatchObject({ statuses: '0,4,0,0,0' })
    expect(second).toEqual({ copy: '2', process: 'web', running: true, restarts: 0, cpu_ms: 30_000 })
    // Its total may be of hours.
    expect(third).not.toHaveProperty('cpu_ms')
  })

  test('leaves a gap after a pause and after another agent had the lease', async () => {
    const { state, use, pass } = startReporter()
    use([makeCopy()])
    await pass(0)
    await pass(MINUTE)
    await pass(60 * MINUTE)
    await pass(MINUTE)
    state.hasLease = false
    await pass(MINUTE)
    state.hasLease = true
    await pass(MINUTE)
    await pass(MINUTE)
    const minutes = state.sent.flatMap(({ points }) => points.map(({ at }) => (Date.parse(at) - start) / MINUTE))
    expect(minutes).toEqual([0, 61, 64])
  })

  test('repeats minutes while the control plane does not answer, the newest first, and forgets old ones', async () => {
    const { state, reporter, use, pass } = startReporter()
    use([makeCopy()])
    await pass(0)
    state.error = new Error('fetch failed')
    for (let i = 0; i < 40; i++) await pass(MINUTE)
    expect([state.sent, reporter.waitingRequests]).toEqual([[], 30])
    state.error = undefined
    await pass(MINUTE)
    const minutes = state.sent.map(({ points }) => (Date.parse(points[0]!.at) - start) / MINUTE)
    expect(minutes).toEqual(Array.from({ length: 30 }, (_, i) => 40 - i))
  })

  test('does not repeat a refused request, and tries an older control plane again after an hour', async () => {
    const { state, reporter, use, pass } = startReporter()
    use([makeCopy()])
    await pass(0)
    state.error = new RequestRefused(422, 'invalid_request', '', null)
    await pass(MINUTE)
    expect(state.events).toEqual([['metrics refused', { reason: 'invalid_request' }]])
    state.error = new RequestRefused(404, 'route_not_found', '', null)
    await pass(MINUTE)
    state.error = undefined
    await pass(MINUTE)
    expect([state.sent, reporter.waitingRequests]).toEqual([[], 0])
    await pass(60 * MINUTE)
    await pass(MINUTE)
    expect(state.sent).toHaveLength(1)
  })

  test('sends no copies that ended without a request, and splits points that exceed a body', async () => {
    const { state, use, pass } = startReporter()
    use([])
    await pass(0)
    use([makeCopy({ running: false })])
    expect(await pass(MINUTE)).toBeUndefined()
    const copies = Array.from({ length: 300 }, (_, i) => makeCopy({ copy: String(i) }))
    state.usage = Array.from({ length: 3 }, () => ({ ...makeRevisionRef(), copies, unreached: 0 }))
    await pass(MINUTE)
    expect(state.sent.map(({ points }) => points.length).sort()).toEqual([1, 2])
  })

  test('waits for copies that start within a minute, whose point would else say that none ran', async () => {
    const { state, reporter, use, pass } = startReporter(5000)
    await reporter.begin()
    use([], 3)
    await pass(5000)
    expect(state.sent).toEqual([])
    use([makeCopy({ requests: counts(2) }), makeCopy({ copy: '2' }), makeCopy({ copy: '3' })], 4)
    const { points } = (await pass(5000))!
    expect(points).toMatchObject([{ at: new Date(start).toISOString(), unreached: 4 }])
    expect(points[0]!.copies.filter(({ running }) => running)).toHaveLength(3)
  })

  test('has one point for each minute with a shorter period, the first of them early', async () => {
    const { state, use, pass } = startReporter(2000)
    use([makeCopy()])
    for (let i = 0; i < 60; i++) await pass(2000)
    const minutes = state.sent.flatMap(({ points }) => points.map(({ at }) => (Date.parse(at) - start) / MINUTE))
    expect(minutes).toEqual([0, 1])
  })
})

describe('pods of a cluster', () => {
  const pod = (name: string, revision?: string) => ({
    metadata: { name, labels: { [DEPLOYMENT_LABEL]: 'd', ...(revision && { [REVISION_LABEL]: revision }) } },
    status: { phase: 'Running', containerStatuses: [{ restartCount: 2 }, { restartCount: 1 }] },
  })
  async function readUsage(metrics: object | undefined): Promise<RevisionUsage[]> {
    const server = createServer((req, res) => {
      const { pathname } = new URL(req.url!, 'http://cluster')
      const answers: Record<string, object | undefined> = {
        '/api/v1': { resources: [{ name: 'pods', kind: 'Pod', namespaced: true }] },
        '/api/v1/namespaces/apps/pods': { items: [pod('app-1', 'r'), pod('database')] },
        '/apis/metrics.k8s.io/v1beta1/namespaces/apps/pods': metrics,
      }
      const answer = answers[pathname]
      res.writeHead(answer ? 200 : 404, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer ?? {}))
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const config = new KubeConfig()
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    config.loadFromClusterAndUser({ name: 'test', server: url, skipTLSVerify: true }, { name: 'test' })
    const usage = await readPodUsage(new Cluster(config, 'owner'), ['apps'])
    server.closeAllConnections()
    return usage
  }
  const seen = { copy: 'app-1', process: 'web', running: true, restarts: 3, requests: null }

  test('have CPU and memory of all their containers with a metrics API', async () => {
    const containers = [{ usage: { cpu: '250000000n', memory: '64Mi' } }, { usage: { cpu: '1m', memory: '1024Ki' } }]
    const usage = await readUsage({ items: [{ metadata: { name: 'app-1' }, containers }] })
    const copies = [{ ...seen, cpu_cores: 0.251, memory_bytes: 65 * MIB }]
    expect(usage).toEqual([{ deployment_id: 'd', revision_id: 'r', unreached: null, copies }])
  })

  test.each([
    ['without a metrics API', undefined],
    ['before they were measured', { items: [] }],
    ['when a container was not measured', { items: [{ metadata: { name: 'app-1' }, containers: [{}] }] }],
  ])('have neither CPU nor memory %s', async (_, metrics) => {
    const [usage] = await readUsage(metrics)
    expect(usage!.copies).toEqual([{ ...seen, cpu_cores: null, memory_bytes: null }])
  })
})
