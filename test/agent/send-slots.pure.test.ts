// The slots of requests of drains: no workspace takes them from others, and one that waits can leave.
import { expect, test } from 'vitest'
import { SendSlots } from '../../src/agent/drains/send-slots.ts'

const { signal } = new AbortController()

/** Takes all slots: two of each of eight workspaces, with more that wait. */
function fill(slots: SendSlots, begun: string[]) {
  const ends: (() => void)[] = []
  for (let nth = 0; nth < 5; nth++)
    for (let i = 0; i < 8; i++)
      void slots.run(`slow-${i}`, signal, () => {
        begun.push(`slow-${i}`)
        return new Promise<void>(end => void ends.push(end))
      })
  return ends
}

test('the next free slot is of the workspace that has none, however many wait before it', async () => {
  const slots = new SendSlots()
  const begun: string[] = []
  const ends = fill(slots, begun)
  await expect.poll(() => begun.length).toBe(16)
  const sent = slots.run('other', signal, async () => void begun.push('other'))
  ends[0]!()
  await sent
  expect(begun[16]).toBe('other')
})

test('a sender that waits for a slot ends at once when it is closed', async () => {
  const slots = new SendSlots()
  const ends = fill(slots, [])
  await expect.poll(() => ends.length).toBe(16)
  const closing = new AbortController()
  const waiting = slots.run('other', closing.signal, async () => 'sent')
  closing.abort(new Error('closed'))
  await expect(waiting).rejects.toThrow('closed')
})
