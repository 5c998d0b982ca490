// Log lines are shipped once, in order and masked, and a batch contains nothing else of the revision.
import { expect, test } from 'vitest'
import { RequestRefused } from '../../src/agent/control-plane/client.ts'
import { LogShipper } from '../../src/agent/control-plane/log-shipper.ts'
import type { LogBatch } from '../../src/protocol/logs.schema.ts'
import { makeUnit } from '../support/process-engine.ts'

const createShipper = (
  control: { logs: (batch: LogBatch) => Promise<{ next: number }> },
  areSecretsKnown = (): boolean | null => true,
) =>
  new LogShipper({
    control,
    areSecretsKnown,
    currentLease: () => ({ agent_id: 'agent-1', fence: 1 }),
    redact: (_, text) => text.replaceAll('hush', '********'),
  })

test('a batch of a revision with secrets contains no member of its specification', async () => {
  const batches: LogBatch[] = []
  const logs = async (batch: LogBatch) => {
    batches.push(batch)
    return { next: batch.from + batch.lines.length }
  }
  const shipper = createShipper({ logs })
  const unit = makeUnit({ deployment_id: 'deployment', revision_id: 'revision' }, { secrets: { TOKEN: 'hush' } })
  shipper.add(unit, 'deploy', 'started', 'INFO')
  await shipper.flush()
  expect(Object.keys(batches[0]!).sort()).toEqual(
    ['agent_id', 'deployment_id', 'fence', 'from', 'kind', 'lines', 'revision_id', 'stream'].sort(),
  )
})

test('lines of many streams are sent once each, in the order of their stream', async () => {
  const received = new Map<string, string[]>()
  const logs = async ({ revision_id, from, lines }: LogBatch) => {
    await Promise.resolve()
    const stream = received.get(revision_id) ?? []
    received.set(revision_id, stream)
    expect(stream).toHaveLength(from)
    stream.push(...lines.map(({ message }) => message))
    return { next: stream.length }
  }
  const shipper = createShipper({ logs })
  const addToAll = (message: string) => {
    for (let i = 0; i < 20; i++) shipper.add({ deployment_id: 'd', revision_id: `${i}` }, 'build', message, 'INFO')
  }
  addToAll('one')
  const sending = shipper.flush()
  addToAll('two')
  await sending
  await shipper.flush()
  expect([...received.values()]).toEqual(Array(20).fill(['one', 'two']))
})

test('streams that constantly get new lines do not delay another stream', async () => {
  const shippedRevisions: string[] = []
  const logs = async ({ revision_id, from, lines }: LogBatch) => {
    shippedRevisions.push(revision_id)
    for (const one of ['a', 'b', 'c', 'd'])
      shipper.add({ deployment_id: 'd', revision_id: one }, 'deploy', 'more', 'INFO')
    return { next: from + lines.length }
  }
  const shipper = createShipper({ logs })
  for (const one of ['a', 'b', 'c', 'd', 'quiet'])
    shipper.add({ deployment_id: 'd', revision_id: one }, 'deploy', 'one', 'INFO')
  await shipper.flush()
  expect(shippedRevisions.sort()).toEqual(['a', 'b', 'c', 'd', 'quiet'])
})

test('lines that are dropped while the control plane is unavailable are counted in a warning', async () => {
  const received: LogBatch['lines'] = []
  let isUnavailable = true
  const logs = async ({ from, lines }: LogBatch) => {
    if (isUnavailable) throw new Error('fetch failed')
    expect(received).toHaveLength(from)
    received.push(...lines)
    return { next: received.length }
  }
  const shipper = createShipper({ logs })
  const addLines = (count: number) => {
    for (let i = 0; i < count; i++) shipper.add({ deployment_id: 'd', revision_id: 'r' }, 'build', `${i}`, 'INFO')
  }
  addLines(61_000)
  await shipper.flush()
  addLines(1_000)
  isUnavailable = false
  await shipper.flush()
  expect(received).toHaveLength(60_001)
  expect(received[0]).toMatchObject({ level: 'WARNING', message: expect.stringContaining(' 2000 ') })
  expect([received[1]!.message, received.at(-1)!.message]).toEqual(['2000', '999'])
  addLines(1)
  await shipper.flush()
  expect(received.slice(60_001).map(({ message }) => message)).toEqual(['0'])
})

test('the size of the buffer is limited: fewer lines are buffered if they are long', async () => {
  const received: LogBatch['lines'] = []
  const logs = async ({ from, lines }: LogBatch) => {
    expect(received).toHaveLength(from)
    received.push(...lines)
    return { next: received.length }
  }
  const shipper = createShipper({ logs })
  const [count, length] = [5_000, 16_000]
  for (let i = 0; i < count; i++)
    shipper.add({ deployment_id: 'd', revision_id: 'r' }, 'deploy', `${i}`.padEnd(length), 'INFO')
  await shipper.flush()
  const [warning, ...shipped] = received
  expect(shipped.length * length).toBeLessThan(24 * 1024 * 1024)
  expect(shipped.length * length).toBeGreaterThan(12 * 1024 * 1024)
  expect(warning!.message).toContain(` ${count - shipped.length} lines`)
  expect(shipped.at(-1)!.message.trim()).toBe(`${count - 1}`)
})

test('no line is sent before the secrets of its revision are known, and then it is sent masked', async () => {
  const received: string[] = []
  const logs = async ({ from, lines }: LogBatch) => {
    received.push(...lines.map(({ message }) => message))
    return { next: from + lines.length }
  }
  let areSecretsKnown: boolean | null = false
  const shipper = createShipper({ logs }, () => areSecretsKnown)
  const addLine = (message: string) => shipper.add({ deployment_id: 'd', revision_id: 'r' }, 'deploy', message, 'INFO')
  addLine('the word is hush')
  await shipper.flush()
  expect(received).toEqual([])
  areSecretsKnown = true
  await shipper.flush()
  expect(received.splice(0)).toEqual(['the word is ********'])

  // The secrets will never be known.
  areSecretsKnown = null
  for (const word of ['hush', 'hush again']) {
    addLine(word)
    await shipper.flush()
  }
  expect(received).toEqual([expect.stringContaining('does not know its secrets')])
})

test('dropped lines of a revision that was removed meanwhile cause no warning', async () => {
  const shipped: string[] = []
  const responses = [new RequestRefused(404, 'revision_not_found', 'There is no such revision.', null)]
  const logs = async ({ from, lines }: LogBatch) => {
    const refusal = responses.shift()
    if (refusal) throw refusal
    shipped.push(...lines.map(({ message }) => message))
    return { next: from + lines.length }
  }
  const shipper = createShipper({ logs })
  const ref = { deployment_id: 'd', revision_id: 'r' }
  for (let i = 0; i < 61_000; i++) shipper.add(ref, 'build', `${i}`, 'INFO')
  await shipper.flush()
  shipper.add(ref, 'build', 'new', 'INFO')
  await shipper.flush()
  expect(shipped).toEqual(['new'])
})
