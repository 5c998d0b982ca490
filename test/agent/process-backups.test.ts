// Backups of databases of the process engine on a real Postgres: snapshots, points in time, kills, and a bad archive.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { RevisionRef } from '../../src/agent/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { giveOwnPassword } from '../../src/agent/engines/process/own-password.ts'
import { findServerPrograms } from '../../src/agent/engines/process/postgres-server.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import { readJson } from '../../src/agent/system/files.ts'
import { connectionUrl, findServer, PASSWORD_FILE } from '../../src/postgres/data-folder.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { copyEmptyDatabase } from '../support/migrated-postgres.ts'
import { connect, query } from '../support/postgres.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeTempFolder,
  makeUnit,
  openEngine,
  writeApplication,
} from '../support/process-engine.ts'

let home: string
beforeAll(async () => {
  home = makeTempFolder()
  await copyEmptyDatabase(home)
})
afterEach(async () => {
  await stopCommands()
  await closeEngines()
})
afterAll(() => fs.rmSync(home, { recursive: true, force: true }))

const NEVER = new AbortController().signal
const open = (limits: Partial<Limits> = {}) => openEngine(home, { limits: { backup_ms: 50, ...limits } })
const makeUnitWithDatabase = (ref: RevisionRef) =>
  makeUnit(ref, { needs_database: true, resources: withDefaults({ db_max_connections: 5 }, 'dev') })
async function provide(engine: ProcessEngine, ref = makeRevisionRef()): Promise<RevisionRef> {
  await engine.provide(makeUnitWithDatabase(ref))
  await waitUntilReady(engine, ref)
  return ref
}
const waitUntilReady = (engine: ProcessEngine, { deployment_id }: RevisionRef) =>
  waitFor(async () => (await engine.observe(deployment_id)).database?.ready)

const uriOf = ({ deployment_id }: RevisionRef) =>
  readJson<{ uri: string }>(join(home, 'process', deployment_id, 'database.json'))!.uri
const write = (ref: RevisionRef, n: number) =>
  query(uriOf(ref), `create table if not exists visits (n int); insert into visits values (${n})`)
const read = async (ref: RevisionRef) =>
  (await query<{ n: number }>(uriOf(ref), 'select n from visits order by n')).map(({ n }) => n)
async function now(ref: RevisionRef): Promise<Date> {
  const [row] = await query<{ at: Date }>(uriOf(ref), 'select clock_timestamp() as at')
  // A commit within the same millisecond would count.
  await delay(2)
  return row!.at
}
const generationFolder = ({ deployment_id }: RevisionRef) => {
  const folder = join(home, 'databases', deployment_id)
  return join(folder, readJson<{ generation: string }>(join(folder, 'current.json'))!.generation)
}
function countBackups(ref: RevisionRef): number {
  const folder = join(home, 'backups/process', ref.deployment_id, generationFolder(ref).split('/').at(-1)!, 'base')
  return fs.existsSync(folder) ? fs.readdirSync(folder).filter(name => name.endsWith('.json')).length : 0
}
const waitForBackup = (ref: RevisionRef, count = 1) => waitFor(() => countBackups(ref) >= count)
const listGenerations = ({ deployment_id }: RevisionRef) =>
  fs.readdirSync(join(home, 'databases', deployment_id), { withFileTypes: true }).filter(entry => entry.isDirectory())
async function snapshot(engine: ProcessEngine, { deployment_id }: RevisionRef): Promise<string> {
  const folder = fs.mkdtempSync(join(home, 'snapshot-'))
  await engine.takeSnapshot(deployment_id, 'database', folder, NEVER)
  // Users download it, and the superuser has the same password in all databases of the machine.
  const files = execFileSync('tar', ['-tzf', join(folder, 'base.tar.gz')], { encoding: 'utf8' })
  expect(files).toContain('PG_VERSION')
  expect(files).not.toContain('password')
  return folder
}

test('the state between two writes is restored in another deployment, and then in its own', async () => {
  const { engine } = await open()
  const [source, copy] = await Promise.all([provide(engine), provide(engine)])
  await write(source, 1)
  await waitForBackup(source)
  const between = await now(source)
  await write(source, 2)
  const afterBoth = await now(source)
  const session = await connect(uriOf(source))

  const { deployment_id } = source
  await engine.restoreSnapshot(makeUnitWithDatabase(copy), 'database', { deployment_id, at: between }, NEVER)
  expect(await read(copy)).toEqual([1])
  // The sessions of the source go on.
  expect((await session.query('select count(*)::int as n from visits')).rows).toEqual([{ n: 2 }])

  await engine.restoreSnapshot(makeUnitWithDatabase(source), 'database', { deployment_id, at: between }, NEVER)
  expect(await read(source)).toEqual([1])
  await write(source, 3)
  // The history of the data folder that was replaced is still there.
  await engine.restoreSnapshot(makeUnitWithDatabase(source), 'database', { deployment_id, at: afterBoth }, NEVER)
  expect(await read(source)).toEqual([1, 2])
  expect(listGenerations(source)).toHaveLength(1)
  const tooEarly = engine.restoreSnapshot(
    makeUnitWithDatabase(copy),
    'database',
    { deployment_id, at: new Date(0) },
    NEVER,
  )
  await expect(tooEarly).rejects.toThrow(/begin at/)
  expect(await read(copy)).toEqual([1])
})

test('each database has a superuser password of its own, also one of the release before or from a backup', async () => {
  const first = await open({ backup_ms: 60_000 })
  const [one, other] = [await provide(first.engine), await provide(first.engine)]
  await write(one, 1)
  const folder = await snapshot(first.engine, one)
  const password = (ref: RevisionRef) => fs.readFileSync(join(generationFolder(ref), 'data.password'), 'utf8')
  const inTemplate = fs.readFileSync(join(home, 'databases/template', PASSWORD_FILE), 'utf8')
  await first.engine.restoreSnapshot(makeUnitWithDatabase(other), 'database', { folder }, NEVER)
  expect(new Set([inTemplate, password(one), password(other)]).size).toBe(3)
  expect(await read(other)).toEqual([1])

  // The release before leaves it so: the server runs, with the password of the template.
  await first.engine.close({ stop: false })
  const data = join(generationFolder(one), 'data')
  await query(connectionUrl(data, findServer(data)!.port), `alter role slipway password '${inTemplate}'`)
  fs.writeFileSync(join(generationFolder(one), 'data.password'), inTemplate)
  fs.rmSync(join(generationFolder(one), 'data.own-password'))
  const next = await open({ backup_ms: 60_000 })
  await waitUntilReady(next.engine, one)
  expect(password(one)).not.toBe(inTemplate)
  expect(await read(one)).toEqual([1])
  const stale = new URL(connectionUrl(data, findServer(data)!.port))
  stale.password = inTemplate
  await expect(query(stale.href, 'select 1')).rejects.toThrow(/password/)

  // Postgres repeats the statement that it refuses.
  await next.engine.close({ stop: true })
  fs.rmSync(join(generationFolder(one), 'data.own-password'))
  const programs = await findServerPrograms(data)
  const refused = giveOwnPassword(data, ...programs, { default_transaction_read_only: 'on' })
  const { message } = await refused.then(
    () => new Error(''),
    (error: Error) => error,
  )
  expect(message).toContain('alter role')
  expect(message).not.toContain(password(one))
})

test.runIf(process.platform === 'linux')(
  'a restore that is killed leaves the old or the new data, one server and one folder',
  async () => {
    const first = await open({ backup_ms: 60_000 })
    const ref = await provide(first.engine)
    await write(ref, 1)
    const folder = await snapshot(first.engine, ref)
    await write(ref, 2)
    await closeEngines()
    const found: string[] = []
    for (const ms of [100, 700, 1_500, 3_000]) {
      const restore = startCommand('test/support/restore-database.ts', [home, ref.deployment_id, folder])
      await restore.until(() => restore.output.out.includes('ready'))
      await delay(ms)
      await restore.stop('SIGKILL')
      const { engine } = await open({ backup_ms: 60_000 })
      await waitUntilReady(engine, ref)
      found.push((await read(ref)).join())
      expect(listGenerations(ref)).toHaveLength(1)
      expect(findServer(join(generationFolder(ref), 'data'))).toBeDefined()
      await closeEngines()
    }
    // Once it was restored, it stays so.
    const firstNew = found.indexOf('1')
    expect(found).toEqual(found.map((_, i) => (firstNew >= 0 && i >= firstNew ? '1' : '1,2')))
    const last = startCommand('test/support/restore-database.ts', [home, ref.deployment_id, folder])
    await last.until(() => last.output.out.includes('restored'))
    expect(await read(ref)).toEqual([1])
  },
)

test('a backup that is killed leaves none that is incomplete, and the next agent takes it', async () => {
  const first = await open({ backup_ms: 60_000 })
  const ref = await provide(first.engine)
  await write(ref, 1)
  await closeEngines()
  const backup = startCommand('test/support/restore-database.ts', [home, ref.deployment_id])
  const work = join(home, 'backups.work')
  await backup.until(() => fs.existsSync(work) && fs.readdirSync(work, { recursive: true }).length > 1)
  await backup.stop('SIGKILL')

  const { engine } = await open()
  await waitForBackup(ref)
  const at = await now(ref)
  await write(ref, 2)
  const { deployment_id } = ref
  await engine.restoreSnapshot(makeUnitWithDatabase(ref), 'database', { deployment_id, at }, NEVER)
  expect(await read(ref)).toEqual([1])
})

test('an archive that fails is logged, keeps no more WAL than the limit, and begins anew with a backup', async () => {
  const { engine, lines } = await open({ waiting_wal: 2 })
  const ref = await provide(engine)
  await engine.start(makeUnitWithDatabase(ref), writeApplication(home, ref.revision_id, makeServerCode('up')))
  await waitForBackup(ref)
  const folder = generationFolder(ref)
  const data = join(folder, 'data')
  fs.rmSync(join(folder, 'wal'), { recursive: true })
  fs.writeFileSync(join(folder, 'wal'), '')
  const admin = connectionUrl(data, findServer(data)!.port)
  for (let n = 1; n <= 5; n++) {
    await write(ref, n)
    await query(admin, 'select pg_switch_wal()')
  }
  await waitFor(() =>
    lines.some(({ level, message }) => level === 'ERROR' && message.includes('backup of the database')),
  )
  // Postgres lets go of what it had kept.
  const waiting = () => fs.readdirSync(join(data, 'pg_wal', 'archive_status')).filter(name => name.endsWith('.ready'))
  await waitFor(() => waiting().length === 0)

  fs.rmSync(join(folder, 'wal'))
  fs.mkdirSync(join(folder, 'wal'))
  await waitForBackup(ref, 2)
  await waitFor(() => lines.some(({ message }) => message.includes('works again')))
  const at = await now(ref)
  await write(ref, 6)
  const { deployment_id } = ref
  await engine.restoreSnapshot(makeUnitWithDatabase(ref), 'database', { deployment_id, at }, NEVER)
  expect(await read(ref)).toEqual([1, 2, 3, 4, 5])
})
