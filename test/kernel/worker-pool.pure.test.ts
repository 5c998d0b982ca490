import { expect, it } from 'vitest'
import { runWorkerPool } from '../../src/kernel/db/worker-pool.ts'

it.each([1, 4])('a pool of %i claims and works on at most that many items at once', async maxConcurrent => {
  const queue = Array.from({ length: 20 }, (_, i) => i)
  const claimed = new Set<number>()
  let maxClaimed = 0
  const finished: number[] = []
  await runWorkerPool({
    maxConcurrent,
    claim: async () => {
      const item = queue.shift() ?? null
      if (item !== null) claimed.add(item)
      maxClaimed = Math.max(maxClaimed, claimed.size)
      return item
    },
    work: async item => {
      await new Promise(resolve => setTimeout(resolve))
      claimed.delete(item)
      finished.push(item)
    },
  })
  expect([finished.length, maxClaimed]).toEqual([20, maxConcurrent])
})

it('a failed claim is reported after all started work has ended', async () => {
  let claims = 0
  let finished = 0
  const pool = runWorkerPool({
    maxConcurrent: 3,
    claim: async () => {
      if (++claims > 2) throw new Error('down')
      return claims
    },
    work: async () => {
      await Promise.resolve()
      finished++
    },
  })
  await expect(pool).rejects.toThrow('down')
  expect(finished).toBe(2)
})
