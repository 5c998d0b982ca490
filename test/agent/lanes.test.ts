// One lane for each deployment: what is put off again and again is looked at once.
import { expect, test } from 'vitest'
import { Lanes } from '../../src/agent/lanes.ts'
import { eventually } from '../support/commands.ts'

test('however often it is put off, it is looked at once, and as soon as was asked', async () => {
  const looked: string[] = []
  const lanes = new Lanes(
    async id => void looked.push(id),
    () => {},
  )
  lanes.later('one', 60_000)
  for (let ms = 80; ms > 0; ms -= 2) lanes.later('one', ms)
  for (let ms = 2; ms <= 80; ms += 2) lanes.later('one', ms)
  lanes.later('another', 100)
  await eventually(() => looked.includes('another'))
  expect(looked).toEqual(['one', 'another'])
  await lanes.close()
})
