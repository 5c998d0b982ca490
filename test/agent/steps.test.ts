// The serving revision: if it was lost and its rebuild failed, it is rebuilt later.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { FakeEngine } from '../../protocol-kit/fake-engine.ts'
import { Builds } from '../../src/agent/builds/builds.ts'
import { makeAgentKeys } from '../../src/agent/control-plane/envelope.ts'
import { observeDeployment } from '../../src/agent/reconcile/observe.ts'
import { type DeploymentState, refreshRevisions, type StepContext } from '../../src/agent/reconcile/steps.ts'
import { buildSourceOf, revisionSpecOf } from '../../src/agent/reconcile/work.ts'
import { makeRevisionWork, makeWork } from '../support/fake-control-plane.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const MINUTE = 60_000
const id = randomUUID()
const serving = makeRevisionWork({ source: 'internal_container', image_uri: 'registry.example.com/shop:1' })
const ref = { deployment_id: id, revision_id: serving.id }
let home: string
let builds: Builds
let built: PromiseWithResolvers<void>
let steps: StepContext
let known: DeploymentState

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
  home = makeTempFolder()
  built = Promise.withResolvers()
  const engine = new FakeEngine()
  builds = new Builds({ home, engine, onChange: () => built.resolve(), log: () => {}, onLinkExpired: () => {} })
  const opening = { keys: makeAgentKeys(), listener: 'listener', credential: async () => null }
  steps = { id, engine, builds, secretAccess: opening, logEvent: () => {}, log: () => {}, enqueueAfter: vi.fn() }
  known = { work: { ...makeWork(id), serving }, generation: 1, startedGenerations: new Map(), brokenSince: new Map() }
  builds.recordFailure(ref, 'Its packages are not there.')
})
afterEach(() => {
  vi.useRealTimers()
  fs.rmSync(home, { recursive: true, force: true })
})

const look = async () =>
  refreshRevisions(steps, known, await observeDeployment(id, builds, await steps.engine.observe(id)))

test('a lost serving revision is rebuilt one minute after its rebuild failed, and only then', async () => {
  for (const left of [MINUTE, MINUTE / 2]) {
    await look()
    expect(steps.enqueueAfter).toHaveBeenLastCalledWith(left)
    // A change of the deployment does not restart the minute.
    known.generation++
    await vi.advanceTimersByTimeAsync(MINUTE / 2)
  }
  await look()
  expect(builds.readRecord(ref)).toBeUndefined()
  builds.start(
    revisionSpecOf(known.work, serving, steps.secretAccess),
    buildSourceOf(known.work, serving, steps.secretAccess),
  )
  await built.promise
  const forget = vi.spyOn(builds, 'forget')
  await vi.advanceTimersByTimeAsync(MINUTE)
  await look()
  expect(forget).not.toHaveBeenCalled()
})

test('a failure to remove the broken build is retried', async () => {
  await look()
  await vi.advanceTimersByTimeAsync(MINUTE)
  vi.spyOn(builds, 'forget').mockRejectedValueOnce(new Error('The disk is away.'))
  await expect(look()).rejects.toThrow()
  await look()
  expect(builds.readRecord(ref)).toBeUndefined()
})
