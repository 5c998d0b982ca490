// Requests that wait for a deployment to wake, and the places of those of others.
import { expect, test } from 'vitest'
import { HeldRequests } from '../../src/agent/engines/local/held-requests.ts'

test('deployments that never wake leave places to every other one', async () => {
  const held = new HeldRequests({ held: 5, held_in_all: 10, wake_ms: 60_000 }, () => {})
  let isAsleep = true
  const wait = (deployment: string) =>
    held.wait(
      deployment,
      () => false,
      () => isAsleep,
    )
  const greedy = Array.from({ length: 20 }, (_, i) => wait(`greedy ${i % 2}`))
  const other = [1, 2, 3, 4, 5].map(() => wait('other'))
  isAsleep = false
  held.look()
  const count = async (outcomes: Promise<string>[]) =>
    (await Promise.all(outcomes)).filter(outcome => outcome === 'awake').length
  expect([await count(greedy), await count(other)]).toEqual([10, 4])
  expect(held.deployments()).toEqual([])
})
