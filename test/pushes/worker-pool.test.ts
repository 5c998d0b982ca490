// How what is due is worked through: never more at once than allowed, each claimed just before, failures told at the
// end.
import { expect, it } from 'vitest'
import { runWorkerPool } from '../../src/pushes/worker-pool.ts'

it.each([1, 4])('%i at once at most, each claimed right before it is worked on', async atOnce => {
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

it('a claim that fails is told once all that was begun has ended', async () => {
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
