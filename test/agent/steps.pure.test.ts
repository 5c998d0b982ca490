// A serving revision that was lost, and whose rebuild failed, is rebuilt later.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Builds } from '../../src/agent/builds/builds.ts'
import { makeAgentKeys } from '../../src/agent/control-plane/envelope.ts'
import { observeDeployment } from '../../src/agent/reconcile/observe.ts'
import { Releases } from '../../src/agent/reconcile/releases.ts'
import { type DeploymentState, refreshRevisions, type StepContext } from '../../src/agent/reconcile/steps.ts'
import { buildSourceOf, revisionSpecOf } from '../../src/agent/reconcile/work.ts'
import { FakeEngine } from '../proof/kit/fake-engine.ts'
import { makeRevisionWork, makeWork } from '../support/fake-control-plane.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const MINUTE = 60_000
const deploymentId = randomUUID()
const serving = makeRevisionWork({ source: 'internal_container', image_uri: 'registry.example.com/shop:1' })
const ref = { deployment_id: deploymentId, revision_id: serving.id }
let home: string
let builds: Builds
let buildEnded: PromiseWithResolvers<void>
let steps: StepContext
let state: DeploymentState

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
  home = makeTempFolder()
  buildEnded = Promise.withResolvers()
  const engine = new FakeEngine()
  builds = new Builds({ home, engine, onChange: () => buildEnded.resolve(), log: () => {}, onLinkExpired: () => {} })
  const secretAccess = { keys: makeAgentKeys(), listener: 'listener', credential: async () => null, modelsUrl: null }
  const snapshots = { keepLast: async () => {}, takeAll: async () => {} }
  const releases = new Releases({ engine, builds, snapshots, log: () => {}, onChange: () => {}, retry_ms: 0 })
  steps = {
    id: deploymentId,
    engine,
    builds,
    releases,
    snapshots,
    secretAccess,
    logEvent: () => {},
    log: () => {},
    enqueueAfter: vi.fn(),
    isInUse: () => false,
    cancelJobs: () => {},
  }
  state = {
    work: { ...makeWork(deploymentId), serving },
    generation: 1,
    startedGenerations: new Map(),
    brokenSince: new Map(),
    removedStores: new Set(),
  }
  builds.recordFailure(ref, 'Its packages are missing.')
})
afterEach(() => {
  vi.useRealTimers()
  fs.rmSync(home, { recursive: true, force: true })
})

const refresh = async () => {
  const observation = await steps.engine.observe(deploymentId)
  return refreshRevisions(steps, state, await observeDeployment(deploymentId, builds, observation))
}

test('a lost serving revision is rebuilt one minute after its rebuild failed, and only then', async () => {
  for (const remaining of [MINUTE, MINUTE / 2]) {
    await refresh()
    expect(steps.enqueueAfter).toHaveBeenLastCalledWith(remaining)
    // A change of the deployment does not restart the minute.
    state.generation++
    await vi.advanceTimersByTimeAsync(MINUTE / 2)
  }
  await refresh()
  expect(builds.readRecord(ref)).toBeUndefined()
  builds.start(
    revisionSpecOf(state.work, serving, steps.secretAccess),
    buildSourceOf(state.work, serving, steps.secretAccess),
  )
  await buildEnded.promise
  const forget = vi.spyOn(builds, 'forget')
  await vi.advanceTimersByTimeAsync(MINUTE)
  await refresh()
  expect(forget).not.toHaveBeenCalled()
})

test('a failed removal of the failed build is retried', async () => {
  await refresh()
  await vi.advanceTimersByTimeAsync(MINUTE)
  vi.spyOn(builds, 'forget').mockRejectedValueOnce(new Error('The disk is full.'))
  await expect(refresh()).rejects.toThrow()
  await refresh()
  expect(builds.readRecord(ref)).toBeUndefined()
})
