import { afterEach, expect, it, vi } from 'vitest'
import { createCountAfterResponses } from '../../src/kernel/http/after-response.ts'

afterEach(() => {
  vi.useRealTimers()
})

function startBatches(count: (batch: Map<string, number>) => Promise<void>) {
  const [logged, trips, failed] = [[] as unknown[], [] as Promise<unknown>[], [] as Map<string, number>[]]
  const log = (line: Record<string, unknown>) => void logged.push(line.error)
  const add = createCountAfterResponses<number>(
    { log },
    { handle: count, failure: 'not counted', onFailure: batch => failed.push(batch) },
  )
  const countOne = (key: string) =>
    add(
      key,
      (sum = 0) => sum + 1,
      work => trips.push(work),
    )
  return { countOne, logged, trips, failed }
}

it('a count that arrives during a trip goes with the next one, also after a failed one', async () => {
  const batches: Record<string, number>[] = []
  const { countOne, logged, trips, failed } = startBatches(async batch => {
    batches.push(Object.fromEntries(batch))
    if (batches.length === 1) throw new Error('unavailable')
  })
  for (const key of ['a', 'b', 'b', 'c']) countOne(key)
  await Promise.all(trips)
  expect(batches).toEqual([{ a: 1 }, { b: 2, c: 1 }])
  expect([trips.length, logged, failed]).toEqual([1, ['not counted'], [new Map([['a', 1]])]])
  countOne('a')
  expect(trips).toHaveLength(2)
})

it('a trip that never ends lets another one start after a while', () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  const batches: string[][] = []
  const { countOne } = startBatches(batch => {
    batches.push([...batch.keys()])
    return new Promise(() => {})
  })
  countOne('a')
  vi.setSystemTime(Date.now() + 9000)
  countOne('b')
  expect(batches).toEqual([['a']])
  vi.setSystemTime(Date.now() + 2000)
  countOne('c')
  expect(batches).toEqual([['a'], ['b', 'c']])
})

it('takes no more keys than there is room for', () => {
  const { countOne } = startBatches(() => new Promise(() => {}))
  countOne('first')
  for (let i = 0; i < 10_000; i++) countOne(`key ${i}`)
  expect([countOne('another'), countOne('key 1')]).toEqual([false, true])
})
