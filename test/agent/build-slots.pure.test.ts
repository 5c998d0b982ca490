// The limit of concurrent builds.
import { expect, test } from 'vitest'
import { BuildSlots } from '../../src/agent/builds/build-slots.ts'

const NEVER_ABORTED = new AbortController().signal

/** Records the builds that acquired a slot, in this order, and those that were interrupted before. */
function recordBuilds(slots: BuildSlots) {
  const outcomes: string[] = []
  const start = async (name: string, deployment: string, signal = NEVER_ABORTED) =>
    outcomes.push((await slots.acquire(deployment, signal)) ? name : `${name} interrupted`)
  return { outcomes, startBuild: (...build: Parameters<typeof start>) => void start(...build) }
}
/** All promises that can settle have settled by then. */
const settlePromises = () => new Promise(resolve => setImmediate(resolve))

test('builds run in the order of their requests, up to the limit and one at a time per deployment', async () => {
  const slots = new BuildSlots(2)
  const { outcomes, startBuild } = recordBuilds(slots)
  startBuild('a1', 'a')
  startBuild('a2', 'a')
  startBuild('b1', 'b')
  startBuild('c1', 'c')
  startBuild('b2', 'b')
  await settlePromises()
  expect(outcomes).toEqual(['a1', 'b1'])
  slots.release('b')
  await settlePromises()
  expect(outcomes).toEqual(['a1', 'b1', 'c1'])
  slots.release('a')
  await settlePromises()
  expect(outcomes).toEqual(['a1', 'b1', 'c1', 'a2'])
  slots.release('a')
  slots.release('c')
  await settlePromises()
  expect(outcomes).toEqual(['a1', 'b1', 'c1', 'a2', 'b2'])
})

test('an interrupted build gives its place in the queue to the next', async () => {
  const slots = new BuildSlots(1)
  const { outcomes, startBuild } = recordBuilds(slots)
  const [aborted, abortedLater] = [AbortSignal.abort(), new AbortController()]
  startBuild('a1', 'a', aborted)
  startBuild('a2', 'a')
  startBuild('a3', 'a', abortedLater.signal)
  startBuild('b1', 'b')
  abortedLater.abort()
  slots.release('a')
  await settlePromises()
  expect(outcomes).toEqual(['a1 interrupted', 'a2', 'a3 interrupted', 'b1'])
})
