// The worker pool: limits concurrency, claims each item right before working on it, reports failures at the end.
import { expect, it } from 'vitest'
import { runWorkerPool } from '../../src/pushes/worker-pool.ts'

it.each([1, 4])('the pool works on at most %i items at once, and claims each one right before', async atOnce => {
  const left = Array.from({ length: 20 }, (_, i) => i)
  const held = new Set<number>()
  let most = 0
  const worked: number[] = []
  await runWorkerPool({
    maxConcurrent: atOnce,
    claim: async () => {
      const item = left.shift() ?? null
      if (item !== null) held.add(item)
      most = Math.max(most, held.size)
      return item
    },
    work: async item => {
      await new Promise(resolve => setTimeout(resolve))
      held.delete(item)
      worked.push(item)
    },
  })
  expect([worked.length, most]).toEqual([20, atOnce])
})

it('a failed claim is reported after all started work has ended', async () => {
  let claims = 0
  let worked = 0
  const drained = runWorkerPool({
    maxConcurrent: 3,
    claim: async () => {
      if (++claims > 2) throw new Error('away')
      return claims
    },
    work: async () => {
      await Promise.resolve()
      worked++
    },
  })
  await expect(drained).rejects.toThrow('away')
  expect(worked).toBe(2)
})
