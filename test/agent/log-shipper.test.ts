// Log lines are shipped once, in order, masked, and with nothing else of their revision.
import { expect, test } from 'vitest'
import { RequestRefused } from '../../src/agent/control-plane/client.ts'
import { LogShipper } from '../../src/agent/control-plane/log-shipper.ts'
import type { LogBatch } from '../../src/protocol/logs.schema.ts'
import { makeUnit } from '../support/process-engine.ts'

const shipperTo = (
  control: { logs: (batch: LogBatch) => Promise<{ next: number }> },
  knows = (): boolean | null => true,
) =>
  new LogShipper({
    ...{ control, areSecretsKnown: knows, currentLease: () => ({ agent_id: 'agent-1', fence: 1 }) },
    redact: (_, text) => text.replaceAll('hush', '********'),
  })

test('a line logged with a whole revision spec is shipped without its secrets', async () => {
  const sent: LogBatch[] = []
  const logs = async (batch: LogBatch) => {
    sent.push(batch)
    return { next: batch.from + batch.lines.length }
  }
  const shipper = shipperTo({ logs })
  const of = makeUnit({ deployment_id: 'deployment', revision_id: 'revision' }, { secrets: { TOKEN: 'hush' } })
  shipper.add(of, 'deploy', 'started', 'INFO')
  await shipper.flush()
  expect(Object.keys(sent[0]!).sort()).toEqual(
    ['agent_id', 'deployment_id', 'fence', 'from', 'kind', 'lines', 'revision_id', 'stream'].sort(),
  )
})

test('every line is sent once and in order, with any number of streams', async () => {
  const received = new Map<string, string[]>()
  const logs = async ({ revision_id, from, lines }: LogBatch) => {
    await Promise.resolve()
    const of = received.get(revision_id) ?? []
    received.set(revision_id, of)
    expect(of).toHaveLength(from)
    of.push(...lines.map(({ message }) => message))
    return { next: of.length }
  }
  const shipper = shipperTo({ logs })
  const say = (message: string) => {
    for (let i = 0; i < 20; i++) shipper.add({ deployment_id: 'd', revision_id: `${i}` }, 'build', message, 'INFO')
  }
  say('one')
  const sending = shipper.flush()
  say('two')
  await sending
  await shipper.flush()
  expect([...received.values()]).toEqual(Array(20).fill(['one', 'two']))
})

test('a busy stream does not delay the others', async () => {
  const told: string[] = []
  const logs = async ({ revision_id, from, lines }: LogBatch) => {
    told.push(revision_id)
    for (const one of ['a', 'b', 'c', 'd'])
      shipper.add({ deployment_id: 'd', revision_id: one }, 'deploy', 'more', 'INFO')
    return { next: from + lines.length }
  }
  const shipper = shipperTo({ logs })
  for (const one of ['a', 'b', 'c', 'd', 'quiet'])
    shipper.add({ deployment_id: 'd', revision_id: one }, 'deploy', 'one', 'INFO')
  await shipper.flush()
  expect(told.sort()).toEqual(['a', 'b', 'c', 'd', 'quiet'])
})

test('lines dropped because they came too fast are counted in a warning', async () => {
  const received: LogBatch['lines'] = []
  let away = true
  const logs = async ({ from, lines }: LogBatch) => {
    if (away) throw new Error('nobody there')
    expect(received).toHaveLength(from)
    received.push(...lines)
    return { next: received.length }
  }
  const shipper = shipperTo({ logs })
  const say = (count: number) => {
    for (let i = 0; i < count; i++) shipper.add({ deployment_id: 'd', revision_id: 'r' }, 'build', `${i}`, 'INFO')
  }
  say(21_000)
  await shipper.flush()
  say(1_000)
  away = false
  await shipper.flush()
  expect(received).toHaveLength(20_001)
  expect(received[0]).toMatchObject({ level: 'WARNING', message: expect.stringContaining(' 2000 ') })
  expect([received[1]!.message, received.at(-1)!.message]).toEqual(['2000', '999'])
  say(1)
  await shipper.flush()
  expect(received.slice(20_001).map(one => one.message)).toEqual(['0'])
})

test('fewer lines are buffered if they are long', async () => {
  const received: LogBatch['lines'] = []
  const logs = async ({ from, lines }: LogBatch) => {
    expect(received).toHaveLength(from)
    received.push(...lines)
    return { next: received.length }
  }
  const shipper = shipperTo({ logs })
  const [count, length] = [5_000, 16_000]
  for (let i = 0; i < count; i++)
    shipper.add({ deployment_id: 'd', revision_id: 'r' }, 'deploy', `${i}`.padEnd(length), 'INFO')
  await shipper.flush()
  const [first, ...told] = received
  expect(told.length * length).toBeLessThan(12 * 1024 * 1024)
  expect(told.length * length).toBeGreaterThan(6 * 1024 * 1024)
  expect(first!.message).toContain(` ${count - told.length} lines`)
  expect(told.at(-1)!.message.trim()).toBe(`${count - 1}`)
})

test('no line is sent before the secrets of its revision are known, and then they are masked', async () => {
  const received: string[] = []
  const logs = async ({ from, lines }: LogBatch) => {
    received.push(...lines.map(({ message }) => message))
    return { next: from + lines.length }
  }
  let known: boolean | null = false
  const shipper = shipperTo({ logs }, () => known)
  const say = (message: string) => shipper.add({ deployment_id: 'd', revision_id: 'r' }, 'deploy', message, 'INFO')
  say('the word is hush')
  await shipper.flush()
  expect(received).toEqual([])
  known = true
  await shipper.flush()
  expect(received.splice(0)).toEqual(['the word is ********'])

  // The secrets will never be known: lines are left out, with one warning.
  known = null
  for (const word of ['hush', 'hush again']) {
    say(word)
    await shipper.flush()
  }
  expect(received).toEqual([expect.stringContaining('does not know its secrets')])
})

test('a removed revision leaves no warning about dropped lines behind', async () => {
  const sent: string[] = []
  const responses = [new RequestRefused(404, 'revision_not_found', 'There is no such revision.', null)]
  const logs = async ({ from, lines }: LogBatch) => {
    const refusal = responses.shift()
    if (refusal) throw refusal
    sent.push(...lines.map(({ message }) => message))
    return { next: from + lines.length }
  }
  const shipper = shipperTo({ logs })
  const ref = { deployment_id: 'd', revision_id: 'r' }
  for (let i = 0; i < 21_000; i++) shipper.add(ref, 'build', `${i}`, 'INFO')
  await shipper.flush()
  shipper.add(ref, 'build', 'new', 'INFO')
  await shipper.flush()
  expect(sent).toEqual(['new'])
})
