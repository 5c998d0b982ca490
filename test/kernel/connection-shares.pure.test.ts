import { describe, expect, it } from 'vitest'
import { createConnectionShares } from '../../src/kernel/limits/connection-shares.ts'
import { ShareExhausted } from '../../src/kernel/limits/shares.ts'
import { createDatabaseTime } from '../../src/kernel/limits/spent-budgets.ts'

const CONNECTIONS = 10
const stranger = (n: number) => `address 192.0.2.${n}`

/** Takes until the group has to wait. */
function takeAll(shares: ReturnType<typeof createConnectionShares>, group: string, isSlow = false) {
  const held: (() => void)[] = []
  for (let release = shares.tryTake({ group, isSlow }); release; release = shares.tryTake({ group, isSlow }))
    held.push(release)
  return held
}

describe('shares of connections', () => {
  it('leave connections for short requests beside slow reads of every workspace', () => {
    const shares = createConnectionShares(CONNECTIONS)
    const slow = ['a', 'b', 'c', 'd', 'e', 'f'].flatMap(group => takeAll(shares, group, true))
    expect(slow.length).toBeLessThan(CONNECTIONS / 2)
    expect(takeAll(shares, 'quiet').length).toBeGreaterThan(2)
  })

  it('divide slow reads by workspace', () => {
    const shares = createConnectionShares(CONNECTIONS)
    expect(takeAll(shares, 'loud', true).length).toBeGreaterThan(1)
    expect(shares.tryTake({ group: 'quiet', isSlow: true })).toBeDefined()
  })

  it('give all strangers together a small part, divided by address', () => {
    const shares = createConnectionShares(CONNECTIONS)
    expect(takeAll(shares, stranger(1))).toHaveLength(2)
    expect(takeAll(shares, stranger(2))).toHaveLength(1)
    for (let n = 3; n < 20; n++) expect(shares.tryTake({ group: stranger(n) })).toBeUndefined()
    expect(takeAll(shares, 'workspace').length).toBeGreaterThan(4)
  })

  it('do not have short requests of strangers wait for slow ones', () => {
    const shares = createConnectionShares(CONNECTIONS)
    for (let n = 0; n < 20; n++) takeAll(shares, stranger(n), true)
    expect(shares.tryTake({ group: stranger(1) })).toBeDefined()
  })

  it('move the waiting requests of a stranger who becomes known to the share of its workspace', async () => {
    const shares = createConnectionShares(CONNECTIONS)
    const held = takeAll(shares, stranger(1))
    const known = new AbortController()
    const untilKnown = () => known.signal
    const waiting = Array.from({ length: 3 }, () => shares.take({ group: stranger(1), untilKnown }))
    expect(shares.waiting()).toBe(3)
    known.abort('workspace')
    const releases = await Promise.all(waiting)
    expect(shares.waiting()).toBe(0)
    for (const release of [...held, ...releases]) release()
    expect(takeAll(shares, stranger(1))).toHaveLength(held.length)
  })

  it('give everything back, also what was taken before a wait that ends', async () => {
    const shares = createConnectionShares(CONNECTIONS)
    const held = [...takeAll(shares, 'loud', true), ...takeAll(shares, 'loud')]
    const gone = new AbortController()
    const waiting = [
      shares.take({ group: 'loud', isSlow: true }, gone.signal),
      shares.take({ group: 'loud' }, gone.signal),
    ]
    const ends = Promise.allSettled(waiting)
    expect(shares.waiting()).toBe(2)
    gone.abort(new Error('the client has gone'))
    expect(await ends).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }])
    expect(shares.waiting()).toBe(0)
    for (const release of held) release()
    expect(takeAll(shares, 'loud').length).toBe(takeAll(createConnectionShares(CONNECTIONS), 'loud').length)
  })

  it('refuse a group with a long queue, and no other', async () => {
    const shares = createConnectionShares(CONNECTIONS)
    const held = takeAll(shares, 'loud')
    const queue = Array.from({ length: 1000 }, () => shares.take({ group: 'loud' }))
    await expect(shares.take({ group: 'loud' })).rejects.toThrow(ShareExhausted)
    expect(shares.tryTake({ group: 'quiet' })).toBeDefined()
    for (const release of held) release()
    for (const turn of queue) (await turn)()
    expect(shares.waiting()).toBe(0)
  })
})

describe('the budget of database time', () => {
  it('refuses a workspace that has spent it, until its minute is over', () => {
    const clock = { now: 0 }
    const time = createDatabaseTime(10, () => clock.now)
    time.spend('loud', 9_999)
    time.requireLeft('loud')
    time.spend('loud', 1)
    clock.now = 20_000
    const refusal = { code: 'database_time_spent', extra: { headers: { 'Retry-After': '40' } } }
    expect(() => time.requireLeft('loud')).toThrow(expect.objectContaining(refusal))
    time.requireLeft('quiet')
    clock.now = 60_000
    time.requireLeft('loud')
  })

  it('is without a limit when it is 0, and does not count strangers', () => {
    const off = createDatabaseTime(0, () => 0)
    off.spend('loud', 1e9)
    off.requireLeft('loud')
    const time = createDatabaseTime(10, () => 0)
    time.spend(stranger(1), 1e9)
    time.requireLeft(stranger(1))
  })
})
