// Failures outside of builds: permanent or lasting ones fail the new revision, and the old revision keeps serving.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { expect, type TestContext, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { PermanentError, TransientError } from '../../src/agent/engine.ts'
import { FakeEngine } from '../proof/kit/fake-engine.ts'
import { silenceRejection, waitFor } from '../support/commands.ts'
import { startControlPlane } from '../support/fake-control-plane.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const REASON = 'The cluster refuses the host shop.example.com: choose another custom_url.'
const image = { source: 'internal_container' as const, image_uri: `registry.example.com/shop@sha256:${'a'.repeat(64)}` }
type FailingMethod = keyof FakeEngine['failures']

/** An agent with an engine of its own: the tests mostly wait for retries, so they run at the same time. */
async function startAgent({ onTestFinished }: TestContext, give_up_ms = 3_000) {
  const home = makeTempFolder()
  const id = randomUUID()
  const control = await startControlPlane()
  const engine = new FakeEngine()
  const agent = new Agent({
    agent_id: 'agent-1',
    version: 'test',
    home,
    engine,
    wait: 5,
    give_up_ms,
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
    logToOperator: () => {},
  })
  const ended = silenceRejection(agent.run())
  onTestFinished(async () => {
    await agent.close({ stop: true })
    await control.stop()
    fs.rmSync(home, { recursive: true, force: true })
    await ended
  })
  const waitForOutcome = (revision: string) =>
    waitFor(() => control.reports.find(one => one.revision_id === revision && /deployed|failed/.test(one.state)))
  const listRunning = async () => (await engine.observe(id)).running.map(({ revision_id }) => revision_id)
  return { id, control, engine, waitForOutcome, listRunning }
}

test.concurrent.for<[FailingMethod, object]>([
  ['start', {}],
  ['route', {}],
  ['provide', { needs_database: true }],
])('a permanent failure of `%s` fails the revision with its reason', async ([method, more], context) => {
  const { id, control, engine, waitForOutcome, listRunning } = await startAgent(context)
  const old = control.want(id, image)
  expect(await waitForOutcome(old)).toMatchObject({ state: 'deployed' })
  engine.failures[method] = new PermanentError(REASON)
  const revision = control.want(id, image, more)
  expect(await waitForOutcome(revision)).toMatchObject({ state: 'failed', message: REASON })
  await waitFor(async () => (await listRunning()).join() === old)
  expect((await engine.observe(id)).routed).toBe(old)
})

test.concurrent.for<FailingMethod>(['observe', 'route'])(
  'a temporary failure of `%s` that lasts too long fails the revision',
  async (method, context) => {
    const { id, control, engine, waitForOutcome, listRunning } = await startAgent(context)
    const old = control.want(id, image)
    await waitForOutcome(old)
    engine.failures[method] = new TransientError('The cluster was not reached.')
    const revision = control.want(id, image)
    const report = await waitForOutcome(revision)
    expect(report).toMatchObject({ state: 'failed', message: expect.stringMatching(/not reached\.$/) })
    delete engine.failures[method]
    expect(await waitForOutcome(control.want(id, image))).toMatchObject({ state: 'deployed' })
    await waitFor(async () => (await listRunning()).length === 1)
  },
)

test.concurrent('an old revision that cannot be stopped does not prevent new deployments', async context => {
  const { id, control, engine, waitForOutcome } = await startAgent(context)
  await waitForOutcome(control.want(id, image))
  engine.failures.stop = new PermanentError(REASON)
  for (const _ of [1, 2]) expect(await waitForOutcome(control.want(id, image))).toMatchObject({ state: 'deployed' })
})

test.concurrent.for<[string, Error]>([
  ['permanently', new PermanentError(REASON)],
  ['temporarily', new TransientError('The cluster was not reached.')],
])('a serving revision that fails %s does not prevent new deployments', async ([, error], context) => {
  const { id, control, engine, waitForOutcome } = await startAgent(context)
  const old = control.want(id, image)
  await waitForOutcome(old)
  const { start } = engine
  engine.start = async unit => {
    if (unit.revision_id === old) throw error
    await start.call(engine, unit)
  }
  expect(await waitForOutcome(control.want(id, image))).toMatchObject({ state: 'deployed' })
  const isLogged = () => control.logs.some(({ of, message }) => of === old && message === error.message)
  if (error instanceof PermanentError) await waitFor(isLogged)
})

test.concurrent('a short temporary failure does not fail the revision', async context => {
  const { id, control, engine, waitForOutcome } = await startAgent(context, 60_000)
  engine.failures.route = new TransientError('The cluster was not reached.')
  const revision = control.want(id, image)
  await waitFor(() => control.reportedStates(revision).includes('deploying'))
  delete engine.failures.route
  expect(await waitForOutcome(revision)).toMatchObject({ state: 'deployed' })
})

test.concurrent('a failure of the serving revision goes to its log, and the revision keeps serving', async context => {
  const { id, control, engine, waitForOutcome, listRunning } = await startAgent(context)
  const revision = control.want(id, image)
  await waitForOutcome(revision)
  engine.failures.route = new PermanentError(REASON)
  control.updateWork(id, { custom_url: 'https://shop.example.com' })
  await waitFor(() => control.logs.some(({ of, message }) => of === revision && message === REASON))
  expect(await listRunning()).toEqual([revision])
  expect(control.reportedStates(revision)).not.toContain('failed')
})

test.concurrent('a revision that recovers while it is reported as unhealthy is reported as healthy', async context => {
  const { id, control, engine, waitForOutcome } = await startAgent(context)
  const revision = control.want(id, image)
  await waitForOutcome(revision)
  const ref = { deployment_id: id, revision_id: revision }
  const reportedHealth = () => control.reports.filter(({ state }) => state === 'serving').map(one => one.healthy)
  await waitFor(() => reportedHealth().at(-1))
  control.faults.onReport = report => {
    if (report.healthy === false) engine.setPhase(ref, 'healthy')
  }
  engine.setPhase(ref, 'unhealthy')
  await waitFor(() => reportedHealth().includes(false))
  await waitFor(() => reportedHealth().at(-1))
})
