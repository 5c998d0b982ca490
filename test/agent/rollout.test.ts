// A revision beside the serving one is judged by its requests on processes, and sent back without a control plane.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { RevisionSpec, SplitTotals } from '../../src/agent/engine.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import type { Observation } from '../../src/agent/reconcile/observe.ts'
import { composeReport } from '../../src/agent/reconcile/report.ts'
import { Rollouts } from '../../src/agent/reconcile/rollouts.ts'
import { ROLLOUT_BOUNDS_MS } from '../../src/protocol/latency-histogram.ts'
import type { WorkRollout } from '../../src/protocol/rollout.schema.ts'
import type { Work } from '../../src/protocol/work.schema.ts'
import { waitFor } from '../support/commands.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../support/process-engine.ts'

let home: string
let engine: ProcessEngine
let url: string
let old: RevisionSpec
let canary: RevisionSpec
let changed: string[]

/** Every second request fails, and each is slow, once the file is there. */
const makeCanaryCode = (file: string) => `
const { existsSync } = require('node:fs')
let count = 0
require('node:http').createServer((req, res) => {
  if (req.url === '/end') return process.exit(1)
  res.statusCode = existsSync(${JSON.stringify(file)}) && count++ % 2 ? 500 : 200
  res.end('new')
}).listen(process.env.PORT)
`
const badFile = () => `${home}/bad`
async function start(spec: RevisionSpec, code: string) {
  await engine.start(spec, writeApplication(home, spec.revision_id, code))
  await waitFor(async () => {
    const { running } = await engine.observe(spec.deployment_id)
    return running.find(one => one.revision_id === spec.revision_id)?.phase === 'healthy'
  })
}
const POLICY: WorkRollout = {
  step: 0,
  minutes: 0,
  requests: 20,
  errors: { margin: 0.01, alpha: 0.001 },
  latency: null,
  restarts: { most: 0 },
}
const makeWork = (over: Partial<WorkRollout> = {}, share = 50): Work =>
  ({
    deployment_id: old.deployment_id,
    wanted: 'present',
    revision: { id: canary.revision_id, source: 'internal_source' },
    serving: { id: old.revision_id },
    traffic: { revision_id: canary.revision_id, share, sticky: null, rollout: { ...POLICY, ...over } },
  }) as never
const makeRollouts = () => new Rollouts({ engine, home, changed: id => changed.push(id), logEvent: () => {} })

/** Does what a pass of the reconciler does. */
async function pass(rollouts: Rollouts, work: Work): Promise<Observation> {
  const seen = await engine.observe(old.deployment_id)
  const revisions = Object.fromEntries(seen.running.map(({ revision_id, phase }) => [revision_id, phase]))
  const observation = {
    observed: { revisions, routed: seen.routed, database: 'ready', hasRemains: true },
    ...{ reasons: new Map(), conditions: new Map(), records: new Map(), url, databaseFailure: null },
    split: seen.split,
  } as Observation
  await engine.split(old.deployment_id, rollouts.splitOf(work))
  rollouts.see(work, { ...observation, split: (await engine.observe(old.deployment_id)).split })
  const rollout = { failed: rollouts.failed(work), told: rollouts.told(old.deployment_id, canary.revision_id) }
  return { ...observation, split: (await engine.observe(old.deployment_id)).split, rollout }
}
const reportOf = async (rollouts: Rollouts, work: Work) => composeReport(work, 3, await pass(rollouts, work))
const ask = (path = '/') =>
  requestRouter(url, path, { headers: { traceparent: `00-${'ab'.repeat(16)}-${'1'.repeat(16)}-01` } })
const load = (requests: number) => Promise.all(Array.from({ length: requests }, () => ask('/cart?secret=1')))
const countNew = (answers: { body: string }[]) => answers.filter(({ body }) => body === 'new').length

beforeEach(async () => {
  home = fs.realpathSync(makeTempFolder())
  engine = (await openEngine(home)).engine
  changed = []
  const ref = makeRevisionRef()
  old = makeUnit(ref, { host_labels: [{ label: 'shop', revision_id: null }] })
  canary = { ...old, revision_id: randomUUID(), number: 2 }
  await start(old, makeServerCode('old'))
  await engine.route(old)
  url = (await engine.observe(ref.deployment_id)).url!
  await start(canary, makeCanaryCode(badFile()))
})
afterEach(async () => {
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true, maxRetries: 9 })
})

test('a bad one is sent back at once with the evidence, and stays back with the next agent', async () => {
  const rollouts = makeRollouts()
  const work = makeWork()
  await pass(rollouts, work)
  await rollouts.judge()
  fs.writeFileSync(badFile(), '')
  expect(countNew(await load(200))).toBeGreaterThan(40)
  await rollouts.judge()
  expect(countNew(await load(40))).toBe(0)
  expect(changed).toContain(old.deployment_id)
  const report = await reportOf(rollouts, work)
  expect(report).toMatchObject({ state: 'failed', revision_id: canary.revision_id, traffic: { share: 0 } })
  const { gates, failing_requests, requests } = report!.traffic!.rollout!
  expect(gates.map(({ gate, verdict }) => [gate, verdict])).toEqual([
    ['errors', 'failed'],
    ['restarts', 'passed'],
  ])
  expect(gates[0]!.canary!.count).toBe(requests)
  expect(gates[0]!.canary!.value).toBeGreaterThan(0.3)
  expect(failing_requests).toHaveLength(20)
  expect(failing_requests![0]).toMatchObject({ path: '/cart', status: 500, method: 'GET', trace_id: 'ab'.repeat(16) })

  // The stored failure holds, although the control plane has not heard of it and still wants the share.
  const next = makeRollouts()
  expect(await reportOf(next, work)).toEqual(report)
  await next.judge()
  expect(countNew(await load(20))).toBe(0)
  // Another revision has nothing to do with it.
  await pass(next, { ...work, traffic: null } as Work)
  expect(makeRollouts().splitOf(work)).toMatchObject({ share: 50 })
})

test('a good one passes its step once it has its requests, and the next step counts anew', async () => {
  const rollouts = makeRollouts()
  const work = makeWork()
  await pass(rollouts, work)
  await load(10)
  await rollouts.judge()
  expect((await reportOf(rollouts, work))!.traffic!.rollout).toMatchObject({ step: 0, outcome: 'holds' })
  await load(200)
  await rollouts.judge()
  const told = (await reportOf(rollouts, work))!.traffic!.rollout!
  expect(told).toMatchObject({ step: 0, outcome: 'passed' })
  expect(told.requests).toBeGreaterThanOrEqual(20)
  const later = makeWork({ step: 1, minutes: 60 }, 60)
  await pass(rollouts, later)
  await rollouts.judge()
  await load(100)
  await rollouts.judge()
  const report = await reportOf(rollouts, later)
  expect(report).toMatchObject({ state: 'deploying', traffic: { share: 60, rollout: { step: 1, outcome: 'holds' } } })
})

/** A router and copies as somebody tells them. */
function scriptEngine(over: object = {}) {
  const revision = (requests: number, failed = 0) => {
    const latencies = Array(ROLLOUT_BOUNDS_MS.length + 1).fill(0)
    latencies[0] = requests
    return { requests, failed, latencies }
  }
  const shares: (number | undefined)[] = []
  const totals: SplitTotals = { revisions: {}, failing: [], slow: [], restarts: {} }
  const scripted = new Rollouts({
    engine: {
      split: async (_, split) => void shares.push(split?.share),
      readSplit: async () => structuredClone(totals),
    },
    home,
    changed: id => changed.push(id),
    logEvent: () => {},
    ...over,
  })
  const see = (phase: string) => {
    const split = { revision_id: canary.revision_id, share: 50 }
    const observed = { revisions: { [canary.revision_id]: phase }, routed: old.revision_id }
    scripted.see(makeWork(), { observed, split } as unknown as Observation)
    return scripted.judge()
  }
  const tell = (own: [number, number], other: [number, number]) =>
    Object.assign(totals, {
      revisions: { [canary.revision_id]: revision(...own), [old.revision_id]: revision(...other) },
    })
  return { rollouts: scripted, see, tell, shares }
}

test('one without a ready copy passes no step, and a router that starts again begins it anew', async () => {
  const { rollouts, see, tell } = scriptEngine()
  const told = () => rollouts.told(old.deployment_id, canary.revision_id)
  await see('healthy')
  tell([5000, 0], [5000, 0])
  await see('unhealthy')
  expect(told()).toMatchObject({ outcome: 'holds', requests: 0 })
  await see('healthy')
  expect(told()).toMatchObject({ outcome: 'passed', requests: 5000 })
  // Fewer than before: without the new beginning, the counts would be negative.
  tell([4000, 30], [3000, 0])
  await see('healthy')
  expect(rollouts.failed(makeWork())).toBeNull()
  tell([4100, 80], [3100, 0])
  await see('healthy')
  const { requests, gates } = rollouts.failed(makeWork())!.traffic!.rollout!
  expect([requests, gates[0]!.canary]).toEqual([100, { count: 100, value: 0.5 }])
})

test('a full disk keeps no request at a bad one', async () => {
  fs.writeFileSync(`${home}/full`, '')
  const { rollouts, see, tell, shares } = scriptEngine({ home: `${home}/full` })
  await see('healthy')
  tell([100, 50], [100, 0])
  await see('healthy')
  expect(shares).toEqual([0])
  expect(changed).toContain(old.deployment_id)
  expect(rollouts.splitOf(makeWork())).toMatchObject({ share: 0 })
})

test('one whose copies restart is sent back', async () => {
  const rollouts = makeRollouts()
  const work = makeWork({ errors: null, requests: 1_000 })
  await pass(rollouts, work)
  await load(20)
  await rollouts.judge()
  const crashed = Date.now()
  while ((await ask('/end').catch(() => ({ status: 502 }))).status !== 502);
  await waitFor(async () => {
    await rollouts.judge()
    return rollouts.failed(work) !== null
  })
  const { gates, since } = rollouts.failed(work)!.traffic!.rollout!
  expect(gates).toMatchObject([{ gate: 'restarts', verdict: 'failed' }])
  // While it had no copy, the step did not begin anew.
  expect(Date.parse(since)).toBeLessThanOrEqual(crashed)
})
