// Delayed runs of the same deployment are merged.
import { expect, test } from 'vitest'
import { SerialQueue } from '../../src/agent/reconcile/serial-queue.ts'
import { waitFor } from '../support/commands.ts'

test('a deployment that is delayed several times runs once, at the earliest time', async () => {
  const looked: string[] = []
  const lanes = new SerialQueue(
    async id => void looked.push(id),
    () => {},
  )
  lanes.enqueueAfter('one', 60_000)
  for (let ms = 80; ms > 0; ms -= 2) lanes.enqueueAfter('one', ms)
  for (let ms = 2; ms <= 80; ms += 2) lanes.enqueueAfter('one', ms)
  lanes.enqueueAfter('another', 100)
  await waitFor(() => looked.includes('another'))
  expect(looked).toEqual(['one', 'another'])
  await lanes.close()
})
