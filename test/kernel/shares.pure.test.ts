import { expect, test } from 'vitest'
import { createShares, type Release, ShareExhausted } from '../../src/kernel/limits/shares.ts'

const takeAll = (shares: ReturnType<typeof createShares>, group: string): Release[] => {
  const taken: Release[] = []
  for (let release = shares.tryTake(group); release; release = shares.tryTake(group)) taken.push(release)
  return taken
}

/** True if the promise has settled once all work that is due now is done. */
async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false
  promise.then(
    () => (settled = true),
    () => (settled = true),
  )
  await new Promise(resolve => setImmediate(resolve))
  return settled
}

test('a group alone gets most of the capacity, and leaves some for a group that holds nothing', () => {
  const shares = createShares({ capacity: 10 })
  expect(takeAll(shares, 'greedy')).toHaveLength(7)
  expect(shares.tryTake('quiet')).toBeDefined()
})

test('several greedy groups get equal parts', () => {
  const shares = createShares({ capacity: 12 })
  const wanted = Array.from({ length: 12 }, () => ['a', 'b', 'c']).flat()
  const granted: Record<string, number> = { a: 0, b: 0, c: 0 }
  for (const group of wanted) if (shares.tryTake(group)) granted[group]!++
  expect(granted).toEqual({ a: 4, b: 3, c: 3 })
})

test('a share that is given back goes to the waiting group that holds least', async () => {
  const shares = createShares({ capacity: 4, factor: 1 })
  const [first] = takeAll(shares, 'greedy')
  const last = [shares.tryTake('x'), shares.tryTake('y')]
  const greedy = shares.take('greedy')
  const quiet = shares.take('quiet')
  first!()
  expect(await hasSettled(quiet)).toBe(true)
  expect(await hasSettled(greedy)).toBe(false)
  for (const release of [...last, await quiet]) release?.()
  expect(await hasSettled(greedy)).toBe(true)
})

test('groups that hold nothing take turns', async () => {
  const shares = createShares({ capacity: 1 })
  let release = shares.tryTake('holder')!
  const order: string[] = []
  const wait = async (group: string) => {
    const taken = await shares.take(group)
    order.push(group)
    release = taken
  }
  const waits = ['a', 'a', 'a', 'b', 'b', 'c'].map(wait)
  while (order.length < waits.length) {
    release()
    await new Promise(resolve => setImmediate(resolve))
  }
  expect(order).toEqual(['a', 'b', 'c', 'a', 'b', 'a'])
})

test('a group with too many waiting requests is refused, and others still wait', async () => {
  const shares = createShares({ capacity: 1, maxWaitingPerGroup: 2 })
  const release = shares.tryTake('holder')!
  const waits = [shares.take('greedy'), shares.take('greedy')]
  await expect(shares.take('greedy')).rejects.toThrow(ShareExhausted)
  const quiet = shares.take('quiet')
  release()
  for (const granted of [waits[0]!, quiet, waits[1]!]) (await granted)()
})

test('a wait that is aborted leaves the queue', async () => {
  const shares = createShares({ capacity: 1 })
  const release = shares.tryTake('holder')!
  const abort = new AbortController()
  const aborted = shares.take('a', { signal: abort.signal })
  const other = shares.take('a')
  abort.abort(new Error('gone'))
  await expect(aborted).rejects.toThrow('gone')
  expect(shares.state().waiting).toBe(1)
  release()
  const taken = await other
  taken()
  taken()
  expect(shares.state()).toEqual({ free: 1, held: 0, groups: 0, waiting: 0 })
})

test('amounts of different sizes obey the same rule', () => {
  const shares = createShares({ capacity: 128 })
  expect(shares.tryTake('greedy', 90)).toBeDefined()
  expect(shares.tryTake('greedy', 10)).toBeUndefined()
  expect(shares.tryTake('quiet', 38)).toBeDefined()
  expect(shares.tryTake('third', 1)).toBeUndefined()
})
