// One lane for each deployment: what is put off again and again is looked at once.
import { expect, test } from 'vitest'
import { SerialQueue } from '../../src/agent/reconcile/serial-queue.ts'
import { waitFor } from '../support/commands.ts'

test('however often it is put off, it is looked at once, and as soon as was asked', async () => {
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
