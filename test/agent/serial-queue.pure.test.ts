// Several delayed runs of the same deployment become one.
import { expect, onTestFinished, test, vi } from 'vitest'
import { SerialQueue } from '../../src/agent/reconcile/serial-queue.ts'

test('a deployment that is delayed several times runs once, at the earliest time', async () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const runs: string[] = []
  const queue = new SerialQueue(
    async id => void runs.push(id),
    () => {},
  )
  queue.enqueueAfter('one', 60_000)
  for (let ms = 80; ms > 0; ms -= 2) queue.enqueueAfter('one', ms)
  for (let ms = 2; ms <= 80; ms += 2) queue.enqueueAfter('one', ms)
  queue.enqueueAfter('another', 100)
  await vi.advanceTimersByTimeAsync(1)
  expect(runs).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(runs).toEqual(['one'])
  await vi.advanceTimersByTimeAsync(60_000)
  expect(runs).toEqual(['one', 'another'])
  await queue.close()
})
