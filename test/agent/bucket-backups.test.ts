// Backups and snapshots in a bucket: a machine that is lost, a store that fails, and what moves there later.
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { FolderStore } from '../../src/agent/archive/archive-store.ts'
import { BucketStore } from '../../src/agent/archive/bucket-store.ts'
import { MovingStore } from '../../src/agent/archive/moving-store.ts'
import type { Engine, RevisionRef } from '../../src/agent/engine.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import { SnapshotFolder } from '../../src/agent/snapshots/snapshot-folder.ts'
import { Snapshots } from '../../src/agent/snapshots/snapshots.ts'
import { readJson } from '../../src/agent/system/files.ts'
import { connectionUrl, findServer } from '../../src/postgres/data-folder.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import type { HeldSnapshot } from '../../src/protocol/snapshots.schema.ts'
import { waitFor } from '../support/commands.ts'
import { copyEmptyDatabase } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  writeApplication,
} from '../support/process-engine.ts'
import { backupSettings, refuseRequest, type S3, startS3 } from '../support/s3.ts'

const NEVER = new AbortController().signal
let s3: S3
let folder: string
let home: string
beforeAll(async () => {
  folder = makeTempFolder()
  s3 = await startS3(folder)
})
beforeEach(() => {
  home = makeTempFolder()
})
afterEach(async () => {
  s3.intercept(() => false)
  await closeEngines()
  fs.rmSync(home, { recursive: true, force: true })
})
afterAll(async () => {
  await s3.close()
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
})

function openStore(listener: string, at = home, prefix?: string): BucketStore {
  const store = new BucketStore(backupSettings(s3, prefix), at)
  store.setListener(listener)
  return store
}
function makeFile(content: string | Buffer = 'content'): string {
  const file = join(home, randomUUID())
  fs.writeFileSync(file, content)
  return file
}

// ---- databases

async function open(listener: string, at: string) {
  await copyEmptyDatabase(at)
  return openEngine(at, {
    archive: openStore(listener, at),
    limits: { backup_ms: 50, database_ms: 2_000, backup_patience_ms: 100 },
  })
}
const unitOf = (ref: RevisionRef) =>
  makeUnit(ref, { needs_database: true, resources: withDefaults({ db_max_connections: 5 }, 'dev') })
const uriOf = (at: string, { deployment_id }: RevisionRef) =>
  readJson<{ uri: string }>(join(at, 'process', deployment_id, 'database.json'))!.uri
const read = async (at: string, ref: RevisionRef) =>
  (await query<{ n: number }>(uriOf(at, ref), 'select n from visits order by n')).map(({ n }) => n)
async function provide(engine: ProcessEngine, ref = makeRevisionRef()): Promise<RevisionRef> {
  await engine.provide(unitOf(ref))
  await waitFor(async () => (await engine.observe(ref.deployment_id)).database?.ready)
  return ref
}
const countBackups = async (store: BucketStore, { deployment_id }: RevisionRef) => {
  const of = `databases/process/${deployment_id}`
  const generations = await store.list(of)
  const names = await Promise.all(generations.map(name => store.list(`${of}/${name}/base`)))
  return names.flat().filter(name => name.endsWith('.json')).length
}

test('a database whose machine is lost is not made empty, and comes back with its last commit', async () => {
  const listener = randomUUID()
  const store = openStore(listener)
  const { engine } = await open(listener, home)
  const ref = await provide(engine)
  await waitFor(async () => (await countBackups(store, ref)) === 1)
  await query(uriOf(home, ref), 'create table visits (n int); insert into visits values (1)')
  await delay(5)
  const between = new Date()
  await delay(5)
  await query(uriOf(home, ref), 'insert into visits values (2)')
  // Archives what was written, as the minute does.
  const other = await provide(engine)
  await engine.restoreSnapshot(unitOf(other), 'database', { deployment_id: ref.deployment_id, at: between }, NEVER)
  expect(await read(home, other)).toEqual([1])
  // Two more segments, of which the store loses the first.
  const folder = join(home, 'databases', ref.deployment_id)
  const { generation } = readJson<{ generation: string }>(join(folder, 'current.json'))!
  const data = join(folder, generation, 'data')
  const wal = `databases/process/${ref.deployment_id}/${generation}/wal`
  const listWal = async () => (await store.list(wal)).filter(name => /^[\dA-F]{24}\.gz$/.test(name)).sort()
  const before = (await listWal()).length
  for (const n of [3, 4]) {
    await query(uriOf(home, ref), `insert into visits values (${n})`)
    await query(connectionUrl(data, findServer(data)!.port), 'select pg_switch_wal()')
  }
  await waitFor(async () => (await listWal()).length === before + 2)
  const lost = (await listWal()).at(-2)!
  await store.remove(`${wal}/${lost}`)
  await engine.close({ stop: true })
  await closeEngines()
  fs.rmSync(home, { recursive: true })

  const { engine: next } = await open(listener, home)
  const unit = unitOf(ref)
  await next.provide(unit)
  const observed = await waitFor(async () => {
    const { database } = await next.observe(ref.deployment_id)
    return database?.reason ? database : undefined
  })
  expect(observed.ready).toBe(false)
  expect(observed.reason).toContain('slipway snapshots restore')
  expect(await next.listStores(ref.deployment_id)).toEqual([])
  // Longer than the database may take: the restore does not wait for that.
  await waitFor(async () => (await next.observe(ref.deployment_id)).database?.hopeless)
  const restore = (at: Date) => next.restoreSnapshot(unit, 'database', { deployment_id: ref.deployment_id, at }, NEVER)
  const { message } = await restore(new Date()).then(
    () => new Error(''),
    (error: Error) => error,
  )
  expect(message).toContain(lost.replace('.gz', ''))
  await restore(new Date(/--at (\S+Z)/.exec(message)![1]!))
  expect(await read(home, ref)).toEqual([1, 2])
  expect(await next.listStores(ref.deployment_id)).toEqual(['database'])

  const copy = await provide(next)
  await next.restoreSnapshot(unitOf(copy), 'database', { deployment_id: ref.deployment_id, at: between }, NEVER)
  expect(await read(home, copy)).toEqual([1])
  await waitFor(async () => (await countBackups(store, ref)) === 2)
  await next.remove(ref.deployment_id)
  expect(await store.list(`databases/process/${ref.deployment_id}`)).toEqual([])
})

test('a store that fails degrades the health, blocks neither writes nor removal, and both are made good', async () => {
  const listener = randomUUID()
  const store = openStore(listener)
  const { engine, lines } = await open(listener, home)
  const ref = await provide(engine)
  const unit = unitOf(ref)
  await engine.start(unit, writeApplication(home, ref.revision_id, makeServerCode('up')))
  await waitFor(async () => (await engine.observe(ref.deployment_id)).running[0]?.phase === 'healthy')
  await engine.route(unit)
  await waitFor(async () => (await countBackups(store, ref)) === 1)
  const health = async () => (await engine.observe(ref.deployment_id)).running[0]!.condition!.health
  expect((await health()).state).toBe('healthy')

  s3.intercept((request, response) => {
    refuseRequest(request, response, 403, 'AccessDenied')
    return true
  })
  await query(uriOf(home, ref), 'create table visits (n int); insert into visits values (1)')
  // A new database might be one that was lost.
  const another = makeRevisionRef()
  await engine.provide(unitOf(another))
  const reason = await waitFor(async () => (await engine.observe(another.deployment_id)).database?.reason)
  expect(reason).toContain('AccessDenied')
  const generation = fs.readdirSync(join(home, 'databases', ref.deployment_id)).find(name => name.startsWith('20'))!
  const segment = join(home, 'databases', ref.deployment_id, generation, 'wal', '000000010000000000000001')
  fs.writeFileSync(segment, 'x')
  await waitFor(async () => (await health()).state === 'degraded')
  expect((await health()).reason).toContain('AccessDenied')
  expect(lines.map(({ message }) => message).join()).not.toContain(s3.settings.UPLOADS_S3_SECRET_ACCESS_KEY)
  s3.intercept(() => false)
  await waitFor(async () => (await health()).state === 'healthy')

  s3.intercept((request, response) => {
    refuseRequest(request, response, 403, 'AccessDenied')
    return true
  })
  await engine.remove(ref.deployment_id)
  s3.intercept(() => false)
  expect(await store.list(`databases/process/${ref.deployment_id}`)).not.toEqual([])
  await waitFor(async () => (await store.list(`databases/process/${ref.deployment_id}`)).length === 0)
})

// ---- the store

test('a file of several parts, and those of two listeners and two prefixes, stay apart and whole', async () => {
  const [listener, another] = [randomUUID(), randomUUID()]
  const content = Buffer.alloc(40 * 1024 * 1024, 'parts of this file ')
  const store = openStore(listener)
  await store.put('a/big', makeFile(content))
  await store.put('a/b/small', makeFile())
  await store.put('a/empty', makeFile(''))
  expect((await store.list('a')).sort()).toEqual(['b', 'big', 'empty'])
  const target = join(home, 'target')
  expect(await store.get('a/big', target)).toBe(true)
  expect(fs.readFileSync(target).equals(content)).toBe(true)
  expect(await store.get('a/none', target)).toBe(false)
  expect(s3.unfinished()).toEqual([])
  for (const other of [openStore(another, makeTempFolder()), openStore(listener, makeTempFolder(), 'test')]) {
    expect(await other.list('a')).toEqual([])
    await other.removeFolder('a')
  }
  await store.removeFolder('a/b')
  expect((await store.list('a')).sort()).toEqual(['big', 'empty'])
  expect(fs.readdirSync(home).filter(name => name.length === 36)).toEqual([])
})

test('backups from before there was a bucket can be read, and move to it', async () => {
  const old = new FolderStore(join(home, 'old'))
  for (const name of ['d/g/base/1.json', 'd/g/base/1.tar.gz', 'd/g/ended.json']) await old.put(name, makeFile(name))
  const bucket = openStore(randomUUID()).below('databases')
  const store = new MovingStore(bucket, old)
  const target = join(home, 'target')
  const readBoth = async () => {
    expect(await store.get('d/g/base/1.json', target)).toBe(true)
    expect((await store.list('d/g/base')).sort()).toEqual(['1.json', '1.tar.gz'])
    return fs.readFileSync(target, 'utf8')
  }
  expect(await readBoth()).toBe('d/g/base/1.json')
  await store.settle('d', join(home, 'work'))
  expect(await readBoth()).toBe('d/g/base/1.json')
  expect(await bucket.list('d/g')).toContain('ended.json')
  expect(await old.list('')).toEqual([])
})

/** With so many bytes, the parser of fetch() waits for its reader when the connection ends. */
test('a body whose reader is slow is read to its end although the store has closed the connection', async () => {
  const content = randomBytes(64 * 1024)
  const server = createServer(socket =>
    socket.once('data', () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\nConnection: close\r\n\r\n`)
      socket.end(content)
    }),
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const store = new BucketStore({ ...backupSettings(s3), endpoint }, home)
  store.setListener(randomUUID())
  const closed = once(server, 'connection').then(([socket]) => once(socket as Socket, 'finish'))
  const body = await store.open('large')
  await closed
  // The end of the connection arrives with the next turns of the event loop.
  await delay(50)
  expect((await buffer(body!)).equals(content)).toBe(true)
  server.close()
})

test('a file that changes or goes while it moves is not replaced by the old one', async () => {
  const old = new FolderStore(join(home, 'old'))
  for (const name of ['d/changed.json', 'd/gone.json']) await old.put(name, makeFile('old'))
  const bucket = openStore(randomUUID()).below('databases')
  const store = new MovingStore(bucket, old)
  const later: Promise<void>[] = []
  s3.intercept(({ method, url }) => {
    if (method === 'PUT' && url!.includes('changed') && later.length === 0)
      later.push(store.put('d/changed.json', makeFile('new')))
    if (method === 'PUT' && url!.includes('gone')) later.push(store.remove('d/gone.json'))
    return false
  })
  await store.settle('d', join(home, 'work'))
  expect(later).toHaveLength(2)
  await Promise.all(later)
  expect(await store.list('d')).toEqual(['changed.json'])
  await store.get('d/changed.json', join(home, 'target'))
  expect(fs.readFileSync(join(home, 'target'), 'utf8')).toBe('new')
})

test('a list that never ends is not read to its end', async () => {
  const page = '<ListBucketResult><NextContinuationToken>again</NextContinuationToken></ListBucketResult>'
  s3.intercept((_, response) => Boolean(response.end(page)))
  await expect(openStore(randomUUID()).list('a')).rejects.toThrow('pages')
})

/** The engine has one store, a file. Its snapshot never ends while the machine has no space. */
function openSnapshots(folder: SnapshotFolder) {
  const told: HeldSnapshot[][] = []
  const engine = {
    deployments: async () => [],
    listStores: async () => ['disk:media'],
    takeSnapshot: async (_: string, __: string, data: string, signal: AbortSignal) => {
      if (folder.freeBytes() > 0) fs.writeFileSync(join(data, 'disk.tar'), 'content')
      else await once(signal, 'abort').then(() => signal.throwIfAborted())
    },
  } as unknown as Engine
  const snapshots = new Snapshots({
    engine,
    folder,
    control: {
      snapshots: async ({ held }) => {
        told.push(held)
        return { forget: [] }
      },
    },
    currentLease: () => ({ agent_id: 'one', fence: 1 }),
    logEvent: () => {},
  })
  return { snapshots, told }
}

test('a last snapshot is told of before the data go, and one that would fill the machine ends', async () => {
  const folder = new SnapshotFolder(join(home, 'snapshots'))
  const { snapshots, told } = openSnapshots(folder)
  await snapshots.open()
  const deployment_id = randomUUID()
  await snapshots.keepLast(deployment_id)
  expect(told).toMatchObject([[{ deployment_id, reason: 'last' }]])
  const free = [Number.POSITIVE_INFINITY]
  folder.freeBytes = () => free.shift() ?? 0
  const taking = snapshots.take({ deployment_id, store: 'disk:media', reason: 'manual' }, NEVER)
  await expect(taking).rejects.toThrow('512 MiB')
  expect(folder.list()).toHaveLength(1)
})

test('a snapshot is not restored without all its bytes', async () => {
  const store = openStore(randomUUID()).below('snapshots')
  const snapshots = new SnapshotFolder(join(home, 'snapshots'), store)
  await snapshots.open()
  const id = randomUUID()
  const times = { taken_at: new Date().toISOString(), expires_at: null }
  await snapshots.add({ id, deployment_id: randomUUID(), store: 'redis', reason: 'manual', ...times }, async data => {
    for (const name of ['one', 'two']) fs.writeFileSync(join(data, name), 'content')
  })
  await snapshots.moveToStore(() => false)
  await store.remove(`${id}/data/two`)
  for (let i = 0; i < 2; i++) await expect(snapshots.fetch(id, NEVER)).rejects.toThrow('7 of its 14 bytes')
  await store.put(`${id}/data/two`, makeFile('content'))
  expect(fs.readdirSync(await snapshots.fetch(id, NEVER))).toEqual(['one', 'two'])
})

test('snapshots move to the store, are known to an agent with an empty home, and go with a removal', async () => {
  const listener = randomUUID()
  const snapshot = { deployment_id: randomUUID(), store: 'disk:media', reason: 'manual' as const, expires_at: null }
  const take = (folder: SnapshotFolder, id: string) =>
    folder.add({ ...snapshot, id, taken_at: new Date().toISOString() }, async data =>
      fs.writeFileSync(join(data, 'disk.tar'), id),
    )
  const here = new SnapshotFolder(join(home, 'snapshots'), openStore(listener).below('snapshots'))
  await here.open()
  const [used, moved] = [randomUUID(), randomUUID()]
  for (const id of [used, moved]) await take(here, id)
  await here.moveToStore(id => id === used)
  const data = (id: string) => fs.existsSync(join(home, 'snapshots', id, 'data'))
  expect([data(used), data(moved)]).toEqual([true, false])

  const next = makeTempFolder()
  const there = new SnapshotFolder(join(next, 'snapshots'), openStore(listener, next).below('snapshots'))
  const { snapshots, told } = openSnapshots(there)
  await snapshots.open()
  await snapshots.tell()
  expect(
    told
      .at(-1)!
      .map(({ id }) => id)
      .sort(),
  ).toEqual([used, moved].sort())
  expect(fs.readFileSync(join(await there.fetch(moved, new AbortController().signal), 'disk.tar'), 'utf8')).toBe(moved)
  await there.remove(moved)
  // The first agent comes back, and does not know it any more.
  await here.learn()
  expect(here.list().map(({ id }) => id)).toEqual([used])
  fs.rmSync(next, { recursive: true })
})
