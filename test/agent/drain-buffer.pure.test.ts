// The buffer of a drain on disk: what survives the end of the agent, what is dropped, and what is counted.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DiskBuffer } from '../../src/agent/drains/disk-buffer.ts'
import type { DrainGroup, LogGroup } from '../../src/protocol/drain-records.ts'

const MIB = 1024 * 1024

function makeFolder(): string {
  const folder = fs.mkdtempSync(join(tmpdir(), 'drain-'))
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
  return folder
}

const logs = (...messages: string[]): LogGroup => ({
  signal: 'logs',
  resource: { 'service.name': 'shop' },
  records: messages.map(message => ({ time: '2026-11-30T10:00:00.000Z', level: 'INFO', message })),
})
const METRICS: DrainGroup = {
  signal: 'metrics',
  resource: {},
  records: [{ time: '2026-11-30T10:00:00.000Z', since: '2026-11-30T09:00:00.000Z', attributes: {}, values: [] }],
}
const messagesOf = (groups: DrainGroup[]) =>
  groups.flatMap(({ records }) => records.map(record => ('message' in record ? record.message : 'metrics')))

/** Sends all that waits. */
async function takeAll(buffer: DiskBuffer, maxRecords = 100): Promise<string[][]> {
  const batches: string[][] = []
  for (let batch = await buffer.read(maxRecords); batch; batch = await buffer.read(maxRecords)) {
    batches.push(messagesOf(batch.groups))
    await buffer.settle(batch, batch.records)
  }
  return batches
}
const segmentsOf = (folder: string) => fs.readdirSync(folder).filter(name => name.endsWith('.seg'))

test('gives records in order, lines apart from metrics, and counts what was taken', async () => {
  const buffer = await DiskBuffer.open(makeFolder(), 64 * MIB)
  await buffer.append([logs('1', '2'), logs('3'), METRICS])
  await buffer.append([logs('4')])
  expect(await takeAll(buffer)).toEqual([['1', '2', '3'], ['metrics'], ['4']])
  expect(buffer.counts).toMatchObject({ sent: 5, dropped: 0, waiting: 0, waiting_bytes: 0 })
  await buffer.close()
})

test('keeps what was not taken, and its counts, when the agent is killed', async () => {
  const folder = makeFolder()
  const first = await DiskBuffer.open(folder, 64 * MIB)
  await first.append([logs('1'), logs('2')])
  await first.append([logs('3')])
  const batch = (await first.read(1))!
  expect(messagesOf(batch.groups)).toEqual(['1'])
  await first.settle(batch, 1)
  await first.read(1)
  // It is closed later: nothing more runs in a process that is killed.
  onTestFinished(() => first.close())
  const second = await DiskBuffer.open(folder, 64 * MIB)
  expect(second.counts).toMatchObject({ epoch: first.counts.epoch, sent: 1, waiting: 2 })
  await second.append([logs('4')])
  expect((await takeAll(second)).flat()).toEqual(['2', '3', '4'])
  expect(segmentsOf(folder)).toHaveLength(1)
  await second.close()
  expect(segmentsOf(folder)).toEqual([])
})

test('passes over a torn end, at every length', async () => {
  const folder = makeFolder()
  const buffer = await DiskBuffer.open(folder, 64 * MIB)
  await buffer.append([logs('whole'), logs('torn')])
  const [name] = segmentsOf(folder) as [string]
  const bytes = fs.readFileSync(join(folder, name))
  const whole = 12 + bytes.readUInt32LE(0)
  for (const length of [whole, whole + 1, whole + 12, whole + 13, bytes.length - 1]) {
    const copy = makeFolder()
    fs.writeFileSync(join(copy, name), bytes.subarray(0, length))
    const opened = await DiskBuffer.open(copy, 64 * MIB)
    await opened.append([logs('next')])
    expect((await takeAll(opened)).flat(), String(length)).toEqual(['whole', 'next'])
    await opened.close()
  }
  await buffer.close()
})

test('counts a damaged frame and those behind it as dropped, and goes on with the next segment', async () => {
  const folder = makeFolder()
  const first = await DiskBuffer.open(folder, 64 * MIB)
  await first.append([logs('1'), logs('2', '3')])
  const [name] = segmentsOf(folder) as [string]
  const bytes = fs.readFileSync(join(folder, name))
  bytes[bytes.length - 3]! ^= 1
  fs.writeFileSync(join(folder, name), bytes)
  await first.close()
  const second = await DiskBuffer.open(folder, 64 * MIB)
  await second.append([logs('4')])
  expect((await takeAll(second)).flat()).toEqual(['1', '4'])
  expect(second.counts).toMatchObject({ sent: 2, dropped: 2, waiting: 0 })
  await second.close()
})

test('drops the oldest segments beyond its room, but not the one that is being sent, and counts them', async () => {
  const folder = makeFolder()
  const buffer = await DiskBuffer.open(folder, MIB)
  const long = 'x'.repeat(50_000)
  await buffer.append([logs(`first ${long}`)])
  const batch = (await buffer.read(1))!
  for (let i = 0; i < 60; i++) await buffer.append([logs(`${i} ${long}`)])
  const { waiting, dropped, waiting_bytes } = buffer.counts
  expect(waiting_bytes).toBeLessThanOrEqual(MIB)
  expect(waiting + dropped).toBe(61)
  await buffer.settle(batch, 1)
  // A group that is larger than the whole room is lost alone, after all others.
  await buffer.append([logs('y'.repeat(2 * MIB))])
  expect(buffer.counts).toMatchObject({ sent: 1, dropped: 61, waiting: 0 })
  expect((await DiskBuffer.open(folder, MIB)).counts).toMatchObject({ sent: 1, dropped: 61 })
  await buffer.close()
})

test('a position that cannot be written once is written the next time, and frees its room', async () => {
  const folder = makeFolder()
  const buffer = await DiskBuffer.open(folder, MIB)
  const unwritable = join(folder, 'position.json.new')
  for (const text of ['a', 'b']) {
    await buffer.append([logs(text.repeat(MIB / 7))])
    if (text === 'a') fs.mkdirSync(unwritable)
    const batch = (await buffer.read(100))!
    const settled = buffer.settle(batch, batch.records)
    if (text === 'a') await expect(settled).rejects.toThrow('EISDIR')
    else await settled
    fs.rmSync(unwritable, { recursive: true, force: true })
  }
  await buffer.close()
  expect(segmentsOf(folder)).toEqual([])
  expect((await DiskBuffer.open(folder, MIB)).counts).toMatchObject({ sent: 2, waiting: 0 })
})
