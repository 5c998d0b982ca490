// The time that an agent trusts its lease, also after the machine was suspended.
import os from 'node:os'
import { afterEach, expect, test, vi } from 'vitest'
import { Lease, uptimeMs } from '../../src/agent/control-plane/lease.ts'

afterEach(() => void vi.restoreAllMocks())

const suspendMachine = (seconds: number) => {
  const uptime = os.uptime()
  vi.spyOn(os, 'uptime').mockReturnValue(uptime + seconds)
}

test('a lease is trusted for less than a minute from the start of its poll, even if the machine is suspended', () => {
  const lease = new Lease()
  expect(lease.isActive()).toBe(false)
  lease.renew(7, uptimeMs())
  expect(lease.isActive()).toBe(true)
  suspendMachine(54)
  expect(lease.isActive()).toBe(true)
  suspendMachine(2)
  expect(lease.isActive()).toBe(false)
  // The next poll may still renew it.
  expect(lease.fence).toBe(7)
  lease.renew(7, uptimeMs())
  expect(lease.isActive()).toBe(true)
})

test('a lost lease is not trusted', () => {
  const lease = new Lease()
  lease.renew(7, uptimeMs())
  lease.lose()
  expect([lease.fence, lease.isActive()]).toEqual([null, false])
})
