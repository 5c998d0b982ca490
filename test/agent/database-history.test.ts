// The history of a database: the parts that are kept, and the backup that a time is restored from.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FolderStore } from '../../src/agent/archive/archive-store.ts'
import { DatabaseBackups } from '../../src/agent/databases/backups.ts'
import type { DatabaseHost } from '../../src/agent/databases/database-host.ts'
import { DatabaseHistory } from '../../src/agent/databases/history.ts'
import { nextMissing } from '../../src/agent/databases/restore-source.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const ID = 'd'
const NOW = Date.parse('2026-11-30T12:00:00.000Z')
const daysAgo = (days: number) => new Date(NOW - days * 24 * 3600_000)
const segment = (n: number) => `00000001${n.toString(16).toUpperCase().padStart(16, '0')}`

let home: string
let history: DatabaseHistory
beforeEach(() => {
  home = makeTempFolder()
  history = new DatabaseHistory(new FolderStore(join(home, 'store')), join(home, 'work'))
})
afterEach(() => fs.rmSync(home, { recursive: true, force: true }))

function makeFile(): string {
  const file = join(home, crypto.randomUUID())
  fs.writeFileSync(file, 'x'.repeat(1000))
  return file
}
/** A backup that ends so many days ago, in the WAL file of this number. */
async function addBackup(days: number, wal: number, generation = 'a'): Promise<void> {
  const at = daysAgo(days).toISOString()
  const [first_wal, last_wal] = [segment(wal), segment(wal)]
  const base = { generation, name: `${days}`, began_at: at, ended_at: at, first_wal, last_wal, lsn: '0/0', major: 18 }
  await history.addBackup(ID, { ...base, size_bytes: 1000 }, makeFile())
}
const addWal = (n: number, generation = 'a') => history.addWal(ID, generation, segment(n), makeFile())
const listWal = (generation = 'a') => {
  const folder = join(home, 'store', ID, generation, 'wal')
  return fs.existsSync(folder) ? fs.readdirSync(folder).map(name => Number.parseInt(name.slice(8, 24), 16)) : []
}
const listNames = async () => (await history.listBackups(ID)).map(({ name }) => name)

test('each time of seven days can be restored, and nothing older is kept', async () => {
  for (const [days, wal] of [
    [10, 10],
    [8, 20],
    [1, 30],
  ] as const)
    await addBackup(days, wal)
  for (const n of [9, 10, 19, 20, 25, 30, 31]) await addWal(n)
  await history.sweep(ID, 'a', Number.POSITIVE_INFINITY, NOW)
  expect(await listNames()).toEqual(['8', '1'])
  expect(listWal().sort()).toEqual([20, 25, 30, 31])
  expect((await history.findBackup(ID, daysAgo(6.9))).name).toBe('8')
  expect((await history.findBackup(ID, daysAgo(0.5))).name).toBe('1')
  await expect(history.findBackup(ID, daysAgo(9))).rejects.toThrow(/begin at/)

  // Only the WAL that leads to the time is fetched.
  const folder = join(home, 'fetched')
  fs.mkdirSync(folder)
  const base = await history.findBackup(ID, daysAgo(5))
  await history.fetchWal(ID, base, daysAgo(5), folder, new AbortController().signal)
  expect(fs.readdirSync(folder).map(name => Number.parseInt(name.slice(8, 24), 16))).toEqual([20, 25, 30])
})

test('a segment that is missing in the WAL is found by its number', () => {
  const [small, large] = [4 * 1024 ** 2, 16 * 1024 ** 2]
  const name = (file: string, place: string) => `00000001${file.padStart(8, '0')}${place.padStart(8, '0')}`
  expect(nextMissing([segment(5), segment(6)], segment(5), small)).toBeUndefined()
  expect(nextMissing([segment(5), segment(7), segment(9)], segment(5), small)).toBe(segment(6))
  expect(nextMissing([segment(6)], segment(5), small)).toBe(segment(5))
  expect(nextMissing([name('0', '3FF'), name('1', '0')], name('0', '3FF'), small)).toBeUndefined()
  expect(nextMissing([name('0', 'FF'), name('1', '0')], name('0', 'FF'), large)).toBeUndefined()
  expect(nextMissing([name('0', 'FF'), name('1', '0')], name('0', 'FF'), small)).toBe(name('0', '100'))
})

test('a history over its limit loses its oldest days, but never the newest backup', async () => {
  for (const days of [3, 2, 1]) {
    await addBackup(days, 10 * (4 - days))
    await addWal(10 * (4 - days))
  }
  await history.sweep(ID, 'a', 400 * 1024, NOW)
  expect(await listNames()).toEqual(['2', '1'])
  await history.sweep(ID, 'a', 1, NOW)
  expect(await listNames()).toEqual(['1'])
  expect(listWal()).toEqual([30])
})

test('a time is restored from the data folder that was in use then', async () => {
  await addBackup(3, 10)
  await history.endGeneration(ID, 'a', daysAgo(2).toISOString())
  await addBackup(1, 10, 'b')
  expect((await history.findBackup(ID, daysAgo(2.5))).generation).toBe('a')
  expect((await history.findBackup(ID, daysAgo(0))).generation).toBe('b')
  await expect(history.findBackup(ID, daysAgo(1.5))).rejects.toThrow(/between a restore/)
  // An agent that was killed before it had switched goes on with the old one.
  await history.resumeGeneration(ID, 'a')
  expect((await history.findBackup(ID, daysAgo(1.5))).generation).toBe('a')
  await history.endGeneration(ID, 'a', daysAgo(8).toISOString())
  await history.sweep(ID, 'b', Number.POSITIVE_INFINITY, NOW)
  expect(await listNames()).toEqual(['1'])
})

function openBackups(host: Partial<DatabaseHost>, more: { max_bytes?: () => number; patience_ms?: number } = {}) {
  const [reports, changed]: [[string, string][], string[]] = [[], []]
  const backups = new DatabaseBackups({
    host: {
      generationOf: () => 'a',
      listWal: async () => [],
      removeWal: async () => {},
      isArchiving: async () => true,
      resumeArchiving: async () => {},
      majorVersion: async () => 18,
      openBackup: async () => Readable.from([Buffer.from('tar')]),
      query: async (_, sql) => {
        const at = new Date().toISOString()
        return sql.includes('now()') ? [segment(5), at] : ['0/5000000', at, segment(5)]
      },
      ...host,
    } as DatabaseHost,
    history,
    engine: 'container',
    work: join(home, 'backups'),
    removals: join(home, 'removals'),
    max_waiting: 10,
    max_bytes: () => Number.POSITIVE_INFINITY,
    patience_ms: 0,
    report: (id, message) => reports.push([id, message]),
    changed: id => changed.push(id),
    ...more,
  })
  return { backups, reports, changed }
}

test('a database that sends an endless file, or names that no WAL has, fails alone and fills nothing', async () => {
  await addBackup(0, 1)
  const open: string[] = []
  const endless = () => Readable.from(Array.from({ length: 100 }, () => Buffer.alloc(1024 * 1024)))
  const { backups, reports } = openBackups({
    listWal: async id => (id === 'bad' ? [segment(2)] : [segment(3), '0-no-wal', '../3']),
    openWal: async (id, name) => {
      open.push(name)
      return id === 'bad' ? endless() : Readable.from([Buffer.from('wal')])
    },
  })
  await backups.sweep(['bad', ID], NOW)
  expect(reports).toMatchObject([['bad', expect.stringContaining('bytes')]])
  expect(open).toEqual([segment(2), segment(3)])
  expect(listWal()).toEqual([3])
  expect(fs.existsSync(join(home, 'store', 'bad'))).toBe(false)
  expect(fs.readdirSync(join(home, 'backups'))).toEqual([])
  // Another one is deleted while a backup of it is on its way.
  const deleting = openBackups({
    openBackup: async id => {
      await deleting.backups.remove(id)
      return Readable.from([Buffer.from('tar')])
    },
  })
  await deleting.backups.sweepOne('gone')
  expect(fs.existsSync(join(home, 'store', 'gone'))).toBe(false)
})

test('a base backup that fails is tried again after longer and longer pauses, and holds up no other', async () => {
  const tried: string[] = []
  const never = new Readable({ read() {} })
  const { backups, reports, changed } = openBackups(
    {
      openBackup: async id => {
        tried.push(id)
        if (id === ID) return Readable.from([Buffer.from('tar')])
        // The second try neither ends nor sends.
        if (tried.length > 1) return never
        throw new Error('no such thing')
      },
    },
    { patience_ms: 20_000 },
  )
  const now = Date.now()
  await backups.sweep(['bad'], now)
  for (const seconds of [10, 20]) await backups.sweep(['bad'], now + seconds * 1000)
  expect(tried).toEqual(['bad'])
  expect(reports).toHaveLength(1)
  expect([backups.problemOf('bad'), changed]).toEqual([expect.stringContaining('no such thing'), ['bad']])

  const hanging = backups.sweep(['bad', ID], now + 60_000)
  await backups.sweepOne(ID)
  expect(tried).toEqual(['bad', 'bad', ID])
  expect((await history.listBackups(ID)).map(({ generation }) => generation)).toEqual(['a'])
  never.destroy(new Error('cut off'))
  await hanging
})

test('a database whose answers keep its history from shrinking fills no more than its share', async () => {
  const waiting = Array.from({ length: 40 }, (_, i) => segment(i + 10))
  let isPaused = false
  const lies = { first: segment(0), at: () => new Date().toISOString() }
  const { backups, reports } = openBackups(
    {
      listWal: async () => waiting,
      openWal: async () => Readable.from([Buffer.from('wal')]),
      removeWal: async (_, name) => void waiting.splice(waiting.indexOf(name), 1),
      isArchiving: async () => !isPaused,
      pauseArchiving: async () => {
        isPaused = true
      },
      query: async (_, sql) => (sql.includes('now()') ? [lies.first, lies.at()] : ['0/5', lies.at(), segment(60)]),
    },
    { max_bytes: () => 20 * 64 * 1024 },
  )
  await backups.sweepOne(ID)
  expect(waiting).toEqual([])
  expect(isPaused).toBe(true)
  // The segments before the last one that was stored are not needed, whatever it says.
  expect(listWal()).toEqual([30])
  lies.at = () => '9999-01-01T00:00:00Z'
  isPaused = false
  await history.remove(ID)
  await backups.remove(ID)
  await backups.sweepOne(ID)
  expect(await listNames()).toEqual([])
  expect(reports.at(-1)![1]).toContain('clock')
})
