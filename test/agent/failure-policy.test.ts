// Failures outside of builds: permanent or lasting ones fail the new revision, and the old revision keeps serving.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type EngineVerb, FakeEngine } from '../../protocol-kit/fake-engine.ts'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { PermanentError, TransientError } from '../../src/agent/engine.ts'
import { waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { closeAgents, makeTempFolder, runAgent } from '../support/process-engine.ts'

const SENTENCE = 'The cluster refuses the host shop.example.com: choose another custom_url.'
let home: string
let control: ControlPlane
let engine: FakeEngine
let id: string

beforeEach(async () => {
  home = makeTempFolder()
  id = randomUUID()
  control = await startControlPlane()
  engine = new FakeEngine()
  const agent = new Agent({
    ...{ agent_id: 'agent-1', version: 'test', home, engine, wait: 5, give_up_ms: 3000 },
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
    logToOperator: () => {},
  })
  runAgent(agent)
})
afterEach(async () => {
  await closeAgents()
  await control.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

const image = { source: 'internal_container' as const, image_uri: `registry.example.com/shop@sha256:${'a'.repeat(64)}` }
const ended = (revision: string) =>
  waitFor(() => control.reports.find(one => one.revision_id === revision && /deployed|failed/.test(one.state)))
const running = async () => (await engine.observe(id)).running.map(({ revision_id }) => revision_id)

test.each<[EngineVerb, object]>([
  ['start', {}],
  ['route', {}],
  ['provide', { needs_database: true }],
])('a permanent failure of `%s` fails the revision with its reason', async (verb, more) => {
  const old = control.want(id, image)
  expect(await ended(old)).toMatchObject({ state: 'deployed' })
  engine.failures[verb] = new PermanentError(SENTENCE)
  const revision = control.want(id, image, more)
  expect(await ended(revision)).toMatchObject({ state: 'failed', message: SENTENCE })
  await waitFor(async () => (await running()).join() === old)
  expect((await engine.observe(id)).routed).toBe(old)
})

test.each<EngineVerb>(['observe', 'route'])(
  'a temporary failure of `%s` that lasts too long fails the revision',
  async verb => {
    const old = control.want(id, image)
    await ended(old)
    engine.failures[verb] = new TransientError('The cluster was not reached.')
    const revision = control.want(id, image)
    const report = await ended(revision)
    expect(report).toMatchObject({ state: 'failed', message: expect.stringMatching(/not reached\.$/) })
    delete engine.failures[verb]
    expect(await ended(control.want(id, image))).toMatchObject({ state: 'deployed' })
    await waitFor(async () => (await running()).length === 1)
  },
)

test('an old revision that cannot be stopped does not prevent new deployments', async () => {
  await ended(control.want(id, image))
  engine.failures.stop = new PermanentError(SENTENCE)
  for (const _ of [1, 2]) expect(await ended(control.want(id, image))).toMatchObject({ state: 'deployed' })
})

test.each([
  ['permanently', new PermanentError(SENTENCE)],
  ['temporarily', new TransientError('The cluster was not reached.')],
])('a serving revision that fails %s does not prevent new deployments', async (_, error) => {
  const old = control.want(id, image)
  await ended(old)
  const { start } = engine
  engine.start = async unit => {
    if (unit.revision_id === old) throw error
    await start.call(engine, unit)
  }
  expect(await ended(control.want(id, image))).toMatchObject({ state: 'deployed' })
  const told = () => control.logs.some(({ of, message }) => of === old && message === error.message)
  if (error instanceof PermanentError) await waitFor(told)
})

test('a short temporary failure does not fail the revision', async () => {
  engine.failures.route = new TransientError('The cluster was not reached.')
  const revision = control.want(id, image)
  await waitFor(() => control.said(revision).includes('deploying'))
  delete engine.failures.route
  expect(await ended(revision)).toMatchObject({ state: 'deployed' })
})

test('a failure of the serving revision goes to its log, and the revision keeps serving', async () => {
  const revision = control.want(id, image)
  await ended(revision)
  engine.failures.route = new PermanentError(SENTENCE)
  control.change(id, { custom_url: 'https://shop.example.com' })
  await waitFor(() => control.logs.some(({ of, message }) => of === revision && message === SENTENCE))
  expect(await running()).toEqual([revision])
  expect(control.said(revision)).not.toContain('failed')
})

test('a revision that recovers while it is reported as unhealthy is reported as healthy', async () => {
  const revision = control.want(id, image)
  await ended(revision)
  const ref = { deployment_id: id, revision_id: revision }
  const healthy = () => control.reports.filter(({ state }) => state === 'serving').map(one => one.healthy)
  await waitFor(() => healthy().at(-1))
  control.odd.onReport = report => {
    if (report.healthy === false) engine.setPhase(ref, 'healthy')
  }
  engine.setPhase(ref, 'unhealthy')
  await waitFor(() => healthy().includes(false))
  await waitFor(() => healthy().at(-1))
})
