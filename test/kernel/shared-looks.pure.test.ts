// Watchers that share looks, with a journal in memory and a clock that the tests move.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Config } from '../../src/env.ts'
import type { Database, Trip } from '../../src/kernel/db/db.ts'
import { createWatches } from '../../src/kernel/db/shared-looks.ts'
import type { Numbered, WatchSource } from '../../src/kernel/db/watch.ts'
import { fail } from '../../src/kernel/http/errors.ts'
import { createClock, type Platform } from '../../src/platform.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const liveStreams = {
  seconds: 900,
  trips: Infinity,
  perKey: 2,
  lookMs: [100, 200] as [number, number],
  keyCheckMs: 1e9,
}
const newWatches = (limits: Partial<typeof liveStreams> = {}, database?: Database) =>
  createWatches({
    config: {} as Config,
    platform: { liveStreams: { ...liveStreams, ...limits }, clock: createClock() } as Platform,
    database: database as Database,
  })

const PAGE = 10
function makeJournal() {
  let newest = 0
  const reads = { shared: 0, own: 0 }
  const source: WatchSource<Numbered> = {
    subject: 'items',
    async read(after, isShared) {
      reads[isShared ? 'shared' : 'own']++
      const count = Math.min(PAGE, newest - after)
      const items = Array.from({ length: count }, (_, i) => ({ number: after + i + 1, bytes: 1000 }))
      return { items, isLast: after + count === newest }
    },
  }
  const add = (count: number) => {
    newest += count
  }
  return { source, reads, add }
}
const watcher = { kind: 'key', hash: 'a', workspace: 'w', permission: 'events:read' } as const
const numberOf = ({ number }: Numbered) => number
const oneTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1)

/** All items that come within the time. */
async function collect(next: (until: number) => Promise<Numbered[]>, ms: number) {
  const numbers: number[] = []
  const until = Date.now() + ms
  for (let items = await next(until); items.length > 0; items = await next(until)) numbers.push(...items.map(numberOf))
  return numbers
}

it('watchers of one subject see all items in order, by the looks of one', async () => {
  const { source, reads, add } = makeJournal()
  const { watch } = newWatches()
  const watches = Array.from({ length: 50 }, () => watch(watcher, source, { after: 0, isLast: true }))
  const seen = Promise.all(watches.map(({ next }) => collect(next, 1000)))
  for (let i = 0; i < 4; i++) {
    add(3)
    await vi.advanceTimersByTimeAsync(150)
  }
  await vi.advanceTimersByTimeAsync(1000)
  expect(await seen).toEqual(Array(50).fill(oneTo(12)))
  expect(reads.own).toBe(0)
  expect(reads.shared).toBeLessThanOrEqual(10)
})

it('a watcher that falls behind what the others share reads for itself, and misses nothing', async () => {
  const { source, reads, add } = makeJournal()
  const { watch } = newWatches()
  const [fast, slow] = [0, 0].map(after => watch(watcher, source, { after, isLast: true }))
  const seen = collect(fast!.next, 60_000)
  add(5)
  await vi.advanceTimersByTimeAsync(1000)
  expect((await slow!.next(Date.now() + 1)).map(numberOf)).toEqual(oneTo(5))
  for (let i = 0; i < 30; i++) {
    add(100)
    await vi.advanceTimersByTimeAsync(1000)
  }
  const late = collect(slow!.next, 10_000)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await late).toEqual(oneTo(3005).slice(5))
  expect(await seen).toEqual(oneTo(3005))
  expect(reads.own).toBeGreaterThan(100)
})

it('a revoked key that reads only now and then gets nothing of what other keys look at', async () => {
  const { source, add } = makeJournal()
  const refuseAll: Trip = async () => [[], [], [['slow', 'key_revoked']]]
  const { watch } = newWatches({ keyCheckMs: 15_000 }, Object.assign(refuseAll, { asSystem: refuseAll }) as Database)
  const revoked = { ...source, read: () => Promise.reject(fail('key_revoked')) }
  const slow = watch({ ...watcher, hash: 'slow' }, revoked, { after: 0, isLast: true })
  const seen = collect(watch(watcher, source, { after: 0, isLast: true }).next, 60_000)
  add(1)
  await vi.advanceTimersByTimeAsync(1000)
  expect(await slow.next(Date.now() + 1)).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(40_000)
  add(1)
  await vi.advanceTimersByTimeAsync(1000)
  await expect(slow.next(Date.now() + 1)).rejects.toThrow('key_revoked')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await seen).toEqual([1, 2])
})

it('another watcher looks when the request that was looking is dropped by its host', async () => {
  const { source, add } = makeJournal()
  const { watch } = newWatches()
  const dropped = watch(watcher, { ...source, read: () => new Promise(() => {}) }, { after: 0, isLast: true })
  void dropped.next(Date.now() + 60_000)
  await vi.advanceTimersByTimeAsync(1000)
  const other = watch(watcher, source, { after: 0, isLast: true })
  const seen = collect(other.next, 10_000)
  add(1)
  await vi.advanceTimersByTimeAsync(2000)
  expect(other.cursor).toBe(0)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(await seen).toEqual([1])
})

it('the delay grows while nothing happens, up to its maximum', async () => {
  const { source, reads } = makeJournal()
  const { watch } = newWatches({ lookMs: [100, 5000] })
  void watch(watcher, source, { after: 0, isLast: true }).next(Date.now() + 120_000)
  await vi.advanceTimersByTimeAsync(60_000)
  const firstMinute = reads.shared
  await vi.advanceTimersByTimeAsync(60_000)
  expect(reads.shared - firstMinute).toBeLessThanOrEqual(12)
  expect(firstMinute).toBeGreaterThan(20)
})

it('a key has a limited number of streams, and those that their host dropped do not count for ever', async () => {
  const { admit } = newWatches()
  const [end] = [admit('a'), admit('a')]
  expect(() => admit('a')).toThrow('too_many_streams')
  admit('b')
  end!()
  admit('a')
  expect(() => admit('a')).toThrow('too_many_streams')
  await vi.advanceTimersByTimeAsync(1_000_000)
  admit('a')
})
