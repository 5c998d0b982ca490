// The traffic of later revisions moves by steps, until a gate fails.
import { beforeEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { lookAtRollouts } from '../../../src/hosting/rollouts/sweep.ts'
import { CLOSED_POLICY, type ListenerPolicy } from '../../../src/protocol/listener-policy.ts'
import type { ReportedRollout } from '../../../src/protocol/rollout.schema.ts'
import { signBySecret } from '../../../src/protocol/webhook-signing.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { foreignServers, getServices, newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { type FakeFetch, makeFakeFetch } from '../../support/fake-fetch.ts'
import { storeRuns } from '../../support/runs.ts'
import { makeListenerDeployment, makeSyncAgent, newListener, type SyncAgent } from '../../support/sync-agent.ts'

const FEATURES = ['images', 'disks', 'traffic', 'traffic_router', 'rollout']
const POLICY: ListenerPolicy = { ...CLOSED_POLICY, engine: 'container', features: [...FEATURES, 'rollout_gates'] }
const STEPS = [
  { share: 5, minutes: 0, requests: 50 },
  { share: 50, minutes: 0 },
]
const NO_TRAFFIC = { starts_at: 100, sticky: null }

let tenant: Tenant
let agent: SyncAgent
let id: string

const path = (rest = '') => `/v2/deployments/${id}${rest}`
const read = async () => (await tenant.get(path())).body
const setRollout = (gates: object = { errors: {} }, steps: object[] = STEPS) =>
  tenant.put(path('/rollout'), { steps, gates })
const move = (action: string) => tenant.post(path(`/rollout/${action}`))
const revisionOf = async (revision_id: string) => (await tenant.get(path(`/revisions/${revision_id}`))).body
const work = async (): Promise<Work> => {
  const { changes } = await agent.poll({ cursor: null })
  return changes.find(one => one.deployment_id === id)!
}
const listTypes = async () =>
  (await tenant.get('/v2/events?limit=100')).body.resources.map(({ type }: { type: string }) => type)

async function push() {
  const { status, body } = await tenant.patch(path(), {
    source_revision_config: { image_uri: `registry.example.com/shop:${unusedId()}` },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.latest_revision_id as string
}
async function deploy() {
  await agent.report(await work(), { state: 'deployed' })
}
const ERRORS = {
  gate: 'errors',
  verdict: 'passed',
  canary: { count: 80, value: 0 },
  serving: { count: 1500, value: 0.001 },
  p: 1,
  message: 'no more than before',
} as const
/** Its agent has judged the present step. */
async function judge(over: Partial<ReportedRollout>, report: object = { state: 'deploying' }, of?: string) {
  const now = await work()
  const { share, revision_id, rollout } = now.traffic!
  const judged = { step: rollout!.step, since: new Date().toISOString(), requests: 80, gates: [ERRORS], ...over }
  return agent.report(now, { ...report, traffic: { revision_id: of ?? revision_id, share, rollout: judged } } as never)
}

async function setUp(policy = POLICY) {
  tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  agent = makeSyncAgent(tenant, key)
  await agent.poll({ policy })
  const body = makeListenerDeployment(listener, { name: `shop-${unusedId().slice(0, 8)}` })
  id = (await tenant.post('/v2/deployments', body)).body.id
  await deploy()
}
beforeEach(() => setUp())

describe('a later revision', () => {
  it('goes by the steps until it serves alone, and keeps the numbers of each', async () => {
    const set = await setRollout({ errors: {}, restarts: null })
    expect(set.status, JSON.stringify(set.body)).toBe(200)
    expect(set.body.rollout).toMatchObject({ steps: [{ share: 5 }, { share: 50, minutes: 0, requests: 0 }] })
    const first = set.body.active_revision_id
    const canary = await push()
    expect((await work()).traffic).toMatchObject({
      revision_id: canary,
      share: 5,
      rollout: { step: 0, minutes: 0, requests: 50, errors: { margin: 0.01 }, latency: null, restarts: null },
    })
    const etag = async () => (await tenant.get(path())).headers.get('etag')
    const before = await etag()
    await judge({ outcome: 'holds' })
    const held = await read()
    expect(held.rollout_progress).toMatchObject({ step: 0, share: 5, requests: 80, gates: [{ gate: 'errors' }] })
    expect(await etag()).not.toBe(before)
    await judge({ outcome: 'passed' })
    expect(await read()).toMatchObject({
      active_revision_id: first,
      rollout_progress: { step: 1, share: 50, requests: null, gates: [] },
    })
    // A report of the step before is late, and moves nothing.
    await judge({ outcome: 'passed', step: 0 })
    expect((await work()).traffic).toMatchObject({ share: 50, rollout: { step: 1 } })
    await judge({ outcome: 'passed' })
    expect((await work()).traffic).toMatchObject({ share: 100, rollout: null })
    await deploy()
    expect(await read()).toMatchObject({ active_revision_id: canary, rollout_progress: null })
    expect((await revisionOf(canary)).rollout).toMatchObject({
      steps: [
        { share: 5, requests: 80, gates: [ERRORS] },
        { share: 50, requests: 80 },
      ],
      failure: null,
    })
    expect(await listTypes()).toEqual(expect.arrayContaining(['deployment.rollout_changed', 'deployment.rollout_step']))
  })

  it('that its agent sends back fails with the evidence, and holds pushes until someone deploys', async () => {
    await setRollout()
    const first = (await read()).active_revision_id
    const canary = await push()
    const failing_requests = [
      { at: new Date().toISOString(), method: 'GET', path: '/cart', status: 500, ms: 3, trace_id: null },
    ]
    const gates = [{ ...ERRORS, verdict: 'failed' as const, canary: { count: 80, value: 0.3 } }]
    await judge({ outcome: 'holds' })
    await judge({ outcome: 'failed', gates, failing_requests }, { state: 'failed', message: 'worse' })
    expect(await revisionOf(canary)).toMatchObject({
      status: 'DEPLOY_FAILED',
      status_message: 'worse',
      rollout: { steps: [], failure: { step: 0, share: 5, message: 'worse', gates, failing_requests } },
    })
    expect(await read()).toMatchObject({
      active_revision_id: first,
      rollout_progress: null,
      traffic: [{ share: 100 }],
      hold: { reason: 'rollout_failed', revision_id: canary, until: 'released' },
    })
    expect(await work()).toMatchObject({ revision: null, traffic: null })
    const { resources } = (await tenant.get(path('/explain'))).body
    expect(resources.map(({ code }: { code: string }) => code)).toEqual(['revision_failed', 'held_by_rollout'])
    expect(await listTypes()).toEqual(expect.arrayContaining(['deployment.rollout_failed', 'deployment.held']))

    await push()
    expect((await read()).hold).toBeNull()
    expect((await work()).traffic).toMatchObject({ share: 5, rollout: { step: 0 } })
  })

  it('that crashes at its share is sent back, too; one that never ran fails without a hold', async () => {
    await setRollout()
    await push()
    await agent.report(await work(), { state: 'failed', message: 'no' })
    expect((await read()).hold).toBeNull()
    const canary = await push()
    await judge({ outcome: 'holds' })
    await agent.report(await work(), { state: 'failed', message: 'It crashes.' })
    expect((await read()).hold).toMatchObject({ reason: 'rollout_failed' })
    expect((await revisionOf(canary)).rollout.failure).toMatchObject({ gates: [{ gate: 'health' }] })
  })

  it('is superseded by a newer one, which begins at step one; a rollback ends it', async () => {
    await setRollout()
    const first = (await read()).active_revision_id
    const canary = await push()
    await judge({ outcome: 'passed' })
    const newer = await push()
    expect((await revisionOf(canary)).status).toBe('INTERRUPTED')
    // Numbers of the one before it say nothing of it.
    await judge({ outcome: 'passed' }, { state: 'deploying' }, canary)
    expect((await work()).traffic).toMatchObject({ revision_id: newer, share: 5, rollout: { step: 0 } })
    expect((await tenant.post(path('/rollback'), { revision_id: first })).status).toBe(200)
    expect((await work()).traffic).toBeNull()
    expect(await read()).toMatchObject({ rollout_progress: null, hold: { reason: 'rolled_back' } })
  })

  it('keeps the policy with which it began, and a share set by hand ends its steps', async () => {
    await setRollout()
    const first = (await read()).active_revision_id
    const canary = await push()
    await judge({ outcome: 'holds' })
    await setRollout({}, [{ share: 20 }])
    expect((await read()).rollout_progress.steps).toMatchObject([{ share: 5 }, { share: 50 }])
    const shares = (share: number) => [
      { revision_id: first, share: 100 - share },
      { revision_id: canary, share },
    ]
    await tenant.put(path('/traffic'), { shares: shares(5), sticky: { by: 'cookie' } })
    expect((await work()).traffic).toMatchObject({ sticky: { by: 'cookie' }, rollout: { step: 0 } })
    await tenant.put(path('/traffic'), { shares: shares(6) })
    expect((await work()).traffic).toMatchObject({ share: 6, rollout: null })
    expect((await move('promote')).body.code).toBe('rollout_not_running')
    await push()
    expect((await work()).traffic).toMatchObject({ share: 20, rollout: { step: 0 } })
  })
})

describe('an agent', () => {
  it('moves nothing before the minutes are over, and by no judgement that lacks a gate or the requests', async () => {
    await setRollout({ errors: {}, restarts: {} }, [{ share: 5, minutes: 10, requests: 50 }, { share: 50 }])
    await push()
    const restarts = { gate: 'restarts', verdict: 'passed', message: 'none' } as const
    const isPassed = async () => (await read()).rollout_progress.is_passed
    await judge({ outcome: 'passed' })
    await judge({ outcome: 'passed', gates: [ERRORS, { ...restarts, verdict: 'failed' }] })
    await judge({ outcome: 'passed', gates: [ERRORS, restarts], requests: 49 })
    expect(await isPassed()).toBe(false)
    // Its clock is ahead.
    await judge({ outcome: 'passed', gates: [ERRORS, restarts], requests: Number.MAX_SAFE_INTEGER })
    await finishPendingWork()
    expect((await read()).rollout_progress).toMatchObject({ step: 0, share: 5, is_passed: true })
    await lookAtRollouts(getServices(), [id])
    expect((await read()).rollout_progress.step).toBe(0)
    await withClockAhead(10 * 60_000, () => lookAtRollouts(getServices(), [id]))
    expect((await read()).rollout_progress).toMatchObject({ step: 1, share: 50, is_passed: false })
    const canary = (await read()).latest_revision_id
    expect((await revisionOf(canary)).rollout.steps).toMatchObject([{ requests: Number.MAX_SAFE_INTEGER }])
  })
})

describe('by hand', () => {
  it('a rollout is paused and resumed, and goes on at once if its step was passed', async () => {
    await setRollout()
    await push()
    expect((await move('pause')).body.rollout_progress).toMatchObject({ paused: true })
    expect((await move('pause')).status).toBe(200)
    await judge({ outcome: 'passed' })
    expect((await read()).rollout_progress).toMatchObject({ step: 0, is_passed: true })
    expect((await move('resume')).body.rollout_progress).toMatchObject({ step: 1, share: 50, paused: false })
    const types = await listTypes()
    expect(types).toEqual(expect.arrayContaining(['deployment.rollout_paused', 'deployment.rollout_resumed']))
  })

  it('it is promoted or aborted', async () => {
    await setRollout()
    const first = (await read()).active_revision_id
    const canary = await push()
    await judge({ outcome: 'holds' })
    expect((await move('promote')).body).toMatchObject({ rollout_progress: { step: 2, share: 100 } })
    expect((await move('promote')).status).toBe(200)
    expect((await work()).traffic).toMatchObject({ share: 100, rollout: null })
    await deploy()
    const other = await push()
    await judge({ outcome: 'holds' })
    expect((await move('abort')).body).toMatchObject({ rollout_progress: null, hold: null })
    expect((await revisionOf(other)).status).toBe('INTERRUPTED')
    expect((await move('abort')).body.code).toBe('rollout_not_running')
    expect(await read()).toMatchObject({ active_revision_id: canary, traffic: [{ share: 100 }] })
    expect(first).not.toBe(canary)
  })
})

describe('the control plane', () => {
  const URL_OF_GATE = 'https://ci.example.com/gate'
  /** Reports start it, too. */
  const look = async () => {
    await finishPendingWork()
    await lookAtRollouts(getServices(), [id])
  }
  const lookLater = (minutes = 2) => withClockAhead(minutes * 60_000, look)
  /** The webhook answers with these statuses, one after the other. */
  function serveGate(...statuses: number[]) {
    foreignServers.fetch = makeFakeFetch({
      'https://ci.example.com': () => new Response(null, { status: statuses.shift()! }),
    })
    return (foreignServers.fetch as FakeFetch).requests
  }

  it('asks the webhook once the rest is passed, and goes on, waits or fails by its answer', async () => {
    await setRollout({ errors: {}, webhook: { url: URL_OF_GATE, secret: 'hush-hush' } })
    const canary = await push()
    const asked = serveGate(503, 204, 403)
    await judge({ outcome: 'holds' })
    await look()
    expect(asked).toHaveLength(0)
    await judge({ outcome: 'passed' })
    await look()
    expect(asked).toHaveLength(1)
    expect((await read()).rollout_progress).toMatchObject({
      step: 0,
      is_passed: true,
      gates: [{ gate: 'errors' }, { gate: 'webhook', verdict: 'undecided' }],
    })
    const signature = await signBySecret('hush-hush', {
      id: asked[0]!.headers.get('webhook-id')!,
      timestamp: Number(asked[0]!.headers.get('webhook-timestamp')),
      body: asked[0]!.body,
    })
    expect(asked[0]!.headers.get('webhook-signature')).toBe(signature)
    expect(JSON.parse(asked[0]!.body)).toMatchObject({ type: 'rollout.step_ended', revision_id: canary, share: 5 })
    // It waits a minute until it asks again.
    await look()
    expect(asked).toHaveLength(1)
    await lookLater()
    expect((await read()).rollout_progress).toMatchObject({ step: 1, share: 50 })
    expect(asked[1]!.headers.get('webhook-id')).toBe(asked[0]!.headers.get('webhook-id'))
    await judge({ outcome: 'passed' })
    await lookLater(5)
    const { status, rollout } = await revisionOf(canary)
    expect([status, rollout.failure.step]).toEqual(['DEPLOY_FAILED', 1])
    expect(rollout.failure.gates).toMatchObject([{ gate: 'errors' }, { gate: 'webhook', verdict: 'failed' }])
    expect((await read()).hold).toMatchObject({ reason: 'rollout_failed' })
    expect((await work()).revision).toBeNull()
  })

  it('signs with the secret of the policy for its address alone, and waits at one that is gone', async () => {
    const old = 'https://old.example.com/gate'
    const serveBoth = () => {
      const answer = () => new Response(null, { status: 401 })
      foreignServers.fetch = makeFakeFetch({ 'https://old.example.com': answer, 'https://ci.example.com': answer })
      return (foreignServers.fetch as FakeFetch).requests
    }
    await setRollout({ webhook: { url: old, secret: 'hush-hush' } })
    await push()
    const asked = serveBoth()
    await setRollout({ webhook: { url: URL_OF_GATE, secret: 'another secret' } })
    await judge({ outcome: 'passed' })
    await look()
    expect(asked).toHaveLength(0)
    expect((await read()).rollout_progress).toMatchObject({
      step: 0,
      gates: [{ gate: 'errors' }, { gate: 'webhook', verdict: 'undecided' }],
    })
    await tenant.delete(path('/rollout'))
    await lookLater()
    expect(asked).toHaveLength(0)
    expect((await read()).hold).toBeNull()
    expect((await move('promote')).body.rollout_progress).toMatchObject({ share: 100 })
  })

  it('judges the scores of traces by their revision', async () => {
    await setRollout({ scores: [{ key: 'helpful', least: 5 }] }, [{ share: 5, minutes: 0 }])
    const { name, active_revision_id: first } = await read()
    const canary = await push()
    const score = async (revision_id: string, scores: number[]) => {
      const extra = JSON.stringify({ metadata: { revision_id } })
      const runs = await storeRuns(
        tenant,
        scores.map(() => ({ session_name: name, extra })),
      )
      for (const [i, run_id] of runs.entries())
        expect((await tenant.post('/feedback', { run_id, key: 'helpful', score: scores[i] })).status).toBeLessThan(300)
    }
    await judge({ outcome: 'passed' })
    await score(first, [1, 0.9, 1, 0.9, 1, 0.9])
    await score(canary, [1, 0.9])
    await lookLater()
    expect((await read()).rollout_progress.gates).toMatchObject([
      { gate: 'errors' },
      { gate: 'scores', key: 'helpful', verdict: 'undecided', canary: { count: 2 }, serving: { count: 6 } },
    ])
    await score(canary, [0.1, 0, 0.1, 0, 0.1, 0, 0.1, 0, 0.1, 0, 0.1, 0])
    await lookLater(5)
    expect((await revisionOf(canary)).rollout.failure).toMatchObject({
      gates: [{ gate: 'errors' }, { gate: 'scores', verdict: 'failed', canary: { count: 14 } }],
    })
  })
})

describe('a policy', () => {
  it('is removed, and then later revisions take all traffic at once', async () => {
    expect((await tenant.delete(path('/rollout'))).body.code).toBe('rollout_not_found')
    await setRollout()
    expect((await tenant.delete(path('/rollout'))).body.rollout).toBeNull()
    await push()
    expect((await work()).traffic).toBeNull()
  })

  it('is refused beside `starts_at`, and with all its faults at once', async () => {
    const body = { shares: [], ...NO_TRAFFIC }
    await tenant.put(path('/traffic'), { ...body, starts_at: 10 })
    expect((await setRollout()).body).toMatchObject({ code: 'rollout_refused' })
    await tenant.put(path('/traffic'), body)
    expect((await setRollout()).status).toBe(200)
    expect((await tenant.put(path('/traffic'), { ...body, starts_at: 10 })).body.code).toBe('traffic_refused')
    const { status, body: refusal } = await setRollout(
      { scores: [{ key: 'a' }, { key: 'a' }], errors: { margin: 2 } },
      [{ share: 5 }, { share: 5 }],
    )
    expect(status).toBe(422)
    expect(refusal.errors.length).toBe(3)
  })

  it('whose gates the engine cannot judge is refused by name', async () => {
    await setUp({ ...CLOSED_POLICY, engine: 'kubernetes', features: FEATURES })
    const refused = await setRollout({ errors: {}, restarts: {} })
    expect(refused.body).toMatchObject({ code: 'not_allowed_by_listener' })
    for (const name of ['gates.errors', 'gates.restarts', 'steps.0.requests'])
      expect(refused.body.detail).toContain(name)
    expect((await setRollout({}, [{ share: 10 }])).status).toBe(200)
    await setUp({ ...CLOSED_POLICY, engine: 'container', features: ['images', 'traffic'] })
    expect((await setRollout({}, [{ share: 10 }])).body.code).toBe('not_allowed_by_listener')
  })

  it('reads scores for those alone who may read the traces', async () => {
    const permissions = ['deployments:read', 'deployments:update']
    const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'few', permissions })).body
    const set = (scores: object[]) => tenant.as(key).put(path('/rollout'), { steps: STEPS, gates: { scores } })
    expect((await set([])).status).toBe(200)
    expect(await set([{ key: 'helpful' }])).toMatchObject({ status: 403, body: { code: 'permission_missing' } })
    await setRollout({ scores: [{ key: 'helpful' }] })
    expect((await set([{ key: 'helpful' }])).status).toBe(200)
  })

  it('shows the secret of its webhook masked', async () => {
    const webhook = { url: 'https://ci.example.com/gate', secret: 'hush-hush' }
    const set = await setRollout({ webhook })
    expect(set.body.rollout.gates.webhook).toEqual({ ...webhook, secret: '********' })
    expect(JSON.stringify((await tenant.get('/v2/events')).body)).not.toContain('hush-hush')
    expect((await setRollout({ webhook: set.body.rollout.gates.webhook })).status).toBe(200)
    expect((await setRollout({ webhook: { url: webhook.url } })).body.rollout.gates.webhook.secret).toBeNull()
    expect((await setRollout({ webhook: { ...webhook, secret: '********' } })).body.code).toBe('secret_unknown')
  })
})
