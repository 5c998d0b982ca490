// Until when an agent trusts its lease, also on a machine that slept.
import os from 'node:os'
import { afterEach, expect, test, vi } from 'vitest'
import { clock, Lease } from '../../src/agent/lease.ts'

afterEach(() => void vi.restoreAllMocks())

const slept = (seconds: number) => {
  const since = os.uptime()
  vi.spyOn(os, 'uptime').mockReturnValue(since + seconds)
}

test('it is held from the start of its poll for less than its minute, whether the machine sleeps meanwhile or not', () => {
  const lease = new Lease()
  expect(lease.holds()).toBe(false)
  const begun = clock()
  lease.take(7, begun)
  expect(lease.holds()).toBe(true)
  slept(54)
  expect(lease.holds()).toBe(true)
  slept(2)
  expect(lease.holds()).toBe(false)
  // A poll says whether it is ours still.
  expect(lease.fence).toBe(7)
  lease.take(7, clock())
  expect(lease.holds()).toBe(true)
})

test('it is not held once it is lost', () => {
  const lease = new Lease()
  lease.take(7, clock())
  lease.lose()
  expect([lease.fence, lease.holds()]).toEqual([null, false])
})
