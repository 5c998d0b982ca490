// The limit of concurrent builds.
import { expect, test } from 'vitest'
import { BuildSlots } from '../../src/agent/builds/build-slots.ts'

const NEVER = new AbortController().signal

/** What has begun so far, in the order that it did. */
function taking(turns: BuildSlots) {
  const begun: string[] = []
  const take = async (name: string, deployment: string, signal = NEVER) =>
    begun.push((await turns.acquire(deployment, signal)) ? name : `not ${name}`)
  return { begun, take: (...of: Parameters<typeof take>) => void take(...of) }
}
const soon = () => new Promise(resolve => setImmediate(resolve))

test('a few builds run at once, one per deployment, and the others follow in order', async () => {
  const turns = new BuildSlots(2)
  const { begun, take } = taking(turns)
  take('a1', 'a')
  take('a2', 'a')
  take('b1', 'b')
  take('c1', 'c')
  take('b2', 'b')
  await soon()
  expect(begun).toEqual(['a1', 'b1'])
  turns.release('b')
  await soon()
  expect(begun).toEqual(['a1', 'b1', 'c1'])
  turns.release('a')
  await soon()
  expect(begun).toEqual(['a1', 'b1', 'c1', 'a2'])
  turns.release('a')
  turns.release('c')
  await soon()
  expect(begun).toEqual(['a1', 'b1', 'c1', 'a2', 'b2'])
})

test('an interrupted build gives its place in the queue to the next', async () => {
  const turns = new BuildSlots(1)
  const { begun, take } = taking(turns)
  const [before, meanwhile] = [AbortSignal.abort(), new AbortController()]
  take('a1', 'a', before)
  take('a2', 'a')
  take('a3', 'a', meanwhile.signal)
  take('b1', 'b')
  meanwhile.abort()
  turns.release('a')
  await soon()
  expect(begun).toEqual(['not a1', 'a2', 'not a3', 'b1'])
})
