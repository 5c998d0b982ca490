// What an agent does for what serves besides the plan's steps: one that was lost is tried again, and nothing of what runs is taken away for it.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { FakeEngine } from '../../protocol-kit/fake-engine.ts'
import { Builds } from '../../src/agent/builds/builds.ts'
import { makeKeys } from '../../src/agent/envelope.ts'
import { type Known, refresh, type Steps } from '../../src/agent/steps.ts'
import { find, originOf, unitOf } from '../../src/agent/work.ts'
import { revisionOf, workOf } from '../support/control-plane.ts'
import { folder } from '../support/engine.ts'

const MINUTE = 60_000
const id = randomUUID()
const serving = revisionOf({ source: 'internal_container', image_uri: 'registry.example.com/shop:1' })
const ref = { deployment_id: id, revision_id: serving.id }
let home: string
let builds: Builds
let built: PromiseWithResolvers<void>
let steps: Steps
let known: Known

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
  home = folder()
  built = Promise.withResolvers()
  const engine = new FakeEngine()
  builds = new Builds({ home, engine, changed: () => built.resolve(), log: () => {}, stale: () => {} })
  const opening = { keys: makeKeys(), listener: 'listener', credential: async () => null }
  steps = { id, engine, builds, opening, say: () => {}, log: () => {}, later: vi.fn() }
  known = { work: { ...workOf(id), serving }, generation: 1, given: new Map(), lost: new Map() }
  builds.refuse(ref, 'Its packages are not there.')
})
afterEach(() => {
  vi.useRealTimers()
  fs.rmSync(home, { recursive: true, force: true })
})

const look = async () => refresh(steps, known, await find(id, builds, await steps.engine.observe(id)))

test('what serves and was lost is forgotten a minute after, however often it was looked at; and never what was built of it anew', async () => {
  for (const left of [MINUTE, MINUTE / 2]) {
    await look()
    expect(steps.later).toHaveBeenLastCalledWith(left)
    // Whatever is changed meanwhile.
    known.generation++
    await vi.advanceTimersByTimeAsync(MINUTE / 2)
  }
  await look()
  expect(builds.made(ref)).toBeUndefined()
  builds.start(unitOf(known.work, serving, steps.opening), originOf(known.work, serving, steps.opening))
  await built.promise
  const forget = vi.spyOn(builds, 'forget')
  await vi.advanceTimersByTimeAsync(MINUTE)
  await look()
  expect(forget).not.toHaveBeenCalled()
})

test('what cannot be forgotten is trouble like any other, and is tried again', async () => {
  await look()
  await vi.advanceTimersByTimeAsync(MINUTE)
  vi.spyOn(builds, 'forget').mockRejectedValueOnce(new Error('The disk is away.'))
  await expect(look()).rejects.toThrow()
  await look()
  expect(builds.made(ref)).toBeUndefined()
})
