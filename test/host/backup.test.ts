// Backups on a real Postgres: a restore brings back all rows and files, and refuses foreign and damaged backups.
import { chown, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createLogins } from '../../src/host/database-logins.ts'
import { createFolderStorage } from '../../src/host/folder-storage.ts'
import { createHost } from '../../src/host/host.ts'
import { connectClient, migrate } from '../../src/host/migrate.ts'
import { fillAsOwner } from '../../src/host/operate/folder-owner.ts'
import { deleteOldBackups, nameBackup } from '../../src/host/operate/kept-backups.ts'
import { loadBackup } from '../../src/host/operate/load-backup.ts'
import { readManifest, type SealingKeys } from '../../src/host/operate/manifest.ts'
import { abandonRestore, beginRestore, readUnfinishedRestore } from '../../src/host/operate/unfinished-restore.ts'
import { writeBackup } from '../../src/host/operate/write-backup.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { createJournalSigner } from '../../src/people/audit/hash-chain.ts'
import { verifyJournal } from '../../src/people/audit/verify.ts'
import { loadBeforeSquash } from '../support/before-squash.ts'
import { startCommand, stopCommands } from '../support/commands.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { describeDatabase, fillEveryTable } from '../support/every-table.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect, query } from '../support/postgres.ts'

const keys: SealingKeys = [['first', Buffer.alloc(32, 7).toString('base64url')]]
const SEALING_KEYS = keys[0]!.join(':')
const PUBLIC_URL = 'http://slipway.test'
const log = () => {}
let root: string
let url: string
let folder: string
let tenant: Awaited<ReturnType<typeof bootstrap>>
let databases = 0

const hostOf = (databaseUrl: string) => {
  const host = createHost({ PUBLIC_URL, SEALING_KEYS, DATABASE_URL: databaseUrl }, { log })
  const headers = { 'X-Api-Key': tenant?.api_key ?? '', 'Content-Type': 'application/json' }
  const send = async (method: string, path: string, body?: unknown) => {
    const response = await host.app.request(path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json() }
  }
  return { ...host, send }
}

/** Its owner is no superuser. */
async function createEmptyDatabase(): Promise<string> {
  const name = `restored_${process.pid}_${++databases}`
  await query(
    url,
    `do $$ begin
      if to_regrole('backup_owner') is null then
        create role backup_owner login createrole password 'pw';
        grant slipway_app, slipway_limited, slipway_confined, slipway_agent, slipway_system, slipway_login
          to backup_owner with admin option;
      end if;
    end $$`,
  )
  await query(url, `create database ${name} owner backup_owner`)
  return Object.assign(new URL(url), { pathname: name, username: 'backup_owner', password: 'pw' }).href
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'slipway-backup-'))
  url = await createMigratedDatabase()
  const { app, close } = hostOf(url)
  tenant = await bootstrap(app.database, { organization: 'Acme' })
  await app.housekeep()
  await close()
  const { send, close: end } = hostOf(url)
  const secrets = [{ name: 'TOKEN', value: 'hunter2' }]
  expect(await send('POST', '/v2/deployments', makeImageBody({ name: 'billing', secrets }))).toMatchObject({
    status: 201,
  })
  await end()

  const client = await connect(url)
  await client.query(`select make_runs_partition('shortlived', '2026-02-03T00:00:00Z')`)
  await fillEveryTable(client)
  await client.query(`update uploads set object_path = 'tenant/archive.tar.gz', state = 'stored'`)
  await client.query('update listeners set holds_removals_since = null')
  await client.query(`update trace_objects set path = 'traces/2026-01-02/removed'`)
  await client.query(`select nextval(pg_get_serial_sequence('finished_runs', 'id')) from generate_series(1, 41)`)
  await client.query(`alter database "${new URL(url).pathname.slice(1)}" set app.max_roles = '77'`)
  await client.end()
  const storage = createFolderStorage(join(root, 'uploads'))
  await storage.put('tenant/archive.tar.gz', new TextEncoder().encode('archive'))
  folder = join(root, 'backup')
  await writeBackup({ url: (await createLogins(url)).system, folder, keys, storage, log })
})
afterAll(async () => {
  await stopCommands()
  await rm(root, { recursive: true, force: true, maxRetries: 9 })
})

test('a restore brings back every row, value and right after one that failed, and names the last event', async () => {
  const restored = await createEmptyDatabase()
  const storage = createFolderStorage(join(root, 'restored'))
  await migrate(restored, { log })
  await query(restored, 'alter table deployments add constraint impossible check (name is null)')
  await expect(loadBackup({ url: restored, folder, keys, storage, log })).rejects.toThrow('impossible')
  await query(restored, 'alter table deployments drop constraint impossible')

  const lines: string[] = []
  const { moment, events, last_event } = await loadBackup({
    url: restored,
    folder,
    keys,
    storage,
    log: line => lines.push(line),
  })
  expect(Date.now() - Date.parse(moment)).toBeLessThan(120_000)
  expect(lines.join('\n')).toContain(`Restored to ${moment}`)
  const [from, to] = await Promise.all([connect(url), connect(restored)])
  onTestFinished(async () => void (await Promise.all([from.end(), to.end()])))
  await to.query('set role slipway_system')
  const before = await describeDatabase(from, OF_LEASES)
  const after = await describeDatabase(to, OF_LEASES)
  const rows = Object.entries(before).filter(([, value]) => (value as { rows?: number }).rows === 0)
  expect(rows).toEqual([])
  for (const table of ENDED) {
    expect([table, after[table]]).toEqual([table, { rows: 0, hash: null }])
    before[table] = after[table]
  }
  expect(normalize(after)).toEqual(normalize(before))
  expect(events).toBe((before.events as { rows: number }).rows)
  expect(last_event).toMatchObject({ type: 'revision.created', journal: tenant.tenant_id })
  expect((await to.query('select last_value from finished_runs_id_seq')).rows).toEqual([{ last_value: '41' }])
  expect((await to.query('select from runs_shortlived_20260203')).rowCount).toBe(1)
  expect(await readFile(join(root, 'restored/tenant/archive.tar.gz'), 'utf8')).toBe('archive')

  const { send, app, config, close } = hostOf(restored)
  onTestFinished(close)
  expect(await send('GET', '/v2/deployments')).toMatchObject({ body: { resources: [{ name: 'billing' }] } })
  const signer = createJournalSigner(config.sealingKeys)
  const journal = await verifyJournal({ database: app.database, signer }, tenant.tenant_id)
  expect(journal).toMatchObject({ faults: [], unknownKeys: 0 })
  expect(journal.heads).toBeGreaterThan(0)
})

test.runIf(process.getuid?.() === 0)(
  'files that root restores belong to the owner of the store, after a fault too',
  async () => {
    const store = join(root, 'of-another-user')
    await mkdir(store)
    await chown(store, 12345, 12345)
    const uploads = join(store, 'uploads')
    const fill = async () => {
      await createFolderStorage(uploads).put('tenant/archive.tar.gz', Buffer.from('archive'))
      throw new Error('disk full')
    }
    await expect(fillAsOwner(uploads, fill)).rejects.toThrow('disk full')
    const paths = ['.', ...(await readdir(uploads, { recursive: true }))]
    expect(paths).toContain('tenant/archive.tar.gz')
    for (const path of paths) expect(await stat(join(uploads, path))).toMatchObject({ uid: 12345, gid: 12345 })
  },
)

/** A credential that was revoked or used after the backup must not work again. */
const ENDED = ['sessions', 'sign_in_links', 'device_requests', 'oauth_grants', 'oauth_flows']
/** A restore ends the leases of agents. */
const OF_LEASES = ['holds_removals_since', 'fence', 'agent_id', 'lease_expires_at']

/** The owners differ, and a superuser's rights are listed with his name. */
const normalize = (description: Record<string, unknown>) =>
  JSON.parse(JSON.stringify(description).replaceAll(/backup_owner|slipway(?==)|(?<=\/)slipway/g, 'owner'))

test('the objects that the store no longer has are counted, and do not fail a backup', async () => {
  expect((await readManifest(folder)).uploads).toMatchObject({ count: 1, bytes: 7, missing: 2 })
})

describe('a restore refuses', () => {
  const restore = (from: string, over: Partial<Parameters<typeof loadBackup>[0]> = {}) =>
    loadBackup({ url: 'postgres://nobody@127.0.0.1:1/none', folder: from, keys, storage: undefined, log, ...over })

  async function copyBackup(): Promise<string> {
    const copy = join(root, `copy-${++databases}`)
    await cp(folder, copy, { recursive: true })
    return copy
  }
  async function changeManifest(from: string, change: (manifest: Record<string, unknown>) => void): Promise<void> {
    const manifest = JSON.parse(await readFile(join(from, 'manifest.json'), 'utf8'))
    change(manifest)
    await writeFile(join(from, 'manifest.json'), JSON.stringify(manifest))
  }

  test('a database that has organizations, and leaves it as it is', async () => {
    await expect(restore(folder, { url })).rejects.toThrow('has organizations')
  })

  test.each<[string, SealingKeys, RegExp]>([
    ['without the key', [['second', keys[0]![1]]], /no key first/],
    ['with another key of the same name', [['first', Buffer.alloc(32, 8).toString('base64url')]], /another key first/],
  ])('%s, before it reaches the database', async (_, others, message) => {
    await expect(restore(folder, { keys: others })).rejects.toThrow(message)
  })

  test.each<[string, (copy: string) => Promise<unknown>, RegExp]>([
    ['a table is missing', copy => rm(join(copy, 'tables/events.copy.gz')), /events.*missing/],
    [
      'a table is cut',
      async copy => {
        const file = join(copy, 'tables/events.copy.gz')
        await writeFile(file, (await readFile(file)).subarray(0, -9))
      },
      /events.*damaged/,
    ],
    [
      'a row was changed',
      async copy => {
        const file = join(copy, 'tables/deployments.copy.gz')
        const text = gunzipSync(await readFile(file)).toString()
        await writeFile(file, gzipSync(text.replace('billing', 'killing')))
      },
      /deployments.*damaged/,
    ],
    [
      'an upload was changed',
      copy => writeFile(join(copy, 'uploads/tenant/archive.tar.gz'), 'Archive'),
      /archive\.tar\.gz.*damaged/,
    ],
    [
      'the manifest was changed',
      copy => changeManifest(copy, manifest => Object.assign(manifest, { events: 7 })),
      /signature/,
    ],
    ['the manifest is not signed', copy => changeManifest(copy, manifest => delete manifest.signature), /signature/],
    [
      'the manifest names another key for its signature',
      copy => changeManifest(copy, manifest => Object.assign(manifest, { signature: 'other.AAAA' })),
      /signature/,
    ],
    [
      'a newer version wrote it',
      copy => changeManifest(copy, manifest => Object.assign(manifest, { format: 2 })),
      /newer Slipway/,
    ],
    ['there is no manifest', copy => rm(join(copy, 'manifest.json')), /is no backup/],
  ])('a backup of which %s, before it reaches the database', async (_, damage, message) => {
    const copy = await copyBackup()
    await damage(copy)
    await expect(restore(copy)).rejects.toThrow(message)
  })
})

test('a backup of an older version is restored, and migrated to this one', async () => {
  const [old, restored] = [await createEmptyDatabase(), await createEmptyDatabase()]
  const superuser = Object.assign(new URL(url), { pathname: new URL(old).pathname }).href
  await loadBeforeSquash(superuser, tenant.api_key)
  const older = join(root, 'older')
  expect(await writeBackup({ url: old, folder: older, keys, storage: undefined, log })).toMatchObject({
    migration: { idx: 0 },
  })
  await loadBackup({ url: restored, folder: older, keys, storage: undefined, log })
  const interrupted = await createEmptyDatabase()
  const kill = (line: string) => {
    if (line.startsWith('Migrated on')) throw new Error('killed')
  }
  const killed = loadBackup({ url: interrupted, folder: older, keys, storage: undefined, log: kill })
  await expect(killed).rejects.toThrow('killed')
  expect(await query(interrupted, 'select from listeners where holds_removals_since is null')).toEqual([])
  const early = hostOf(interrupted)
  onTestFinished(early.close)
  expect(await early.send('GET', '/readyz')).toMatchObject({ status: 503, body: { code: 'not_ready' } })
  const other = loadBackup({ url: interrupted, folder, keys, storage: undefined, log })
  await expect(other).rejects.toThrow('has organizations')
  await loadBackup({ url: interrupted, folder: older, keys, storage: undefined, log })
  expect(await early.send('GET', '/readyz')).toMatchObject({ status: 200 })
  expect(await query(interrupted, 'select from listeners where holds_removals_since is null')).toEqual([])
  const migrated = await createEmptyDatabase()
  await migrate(migrated, { log })
  await expect(loadBackup({ url: migrated, folder: older, keys, storage: undefined, log })).rejects.toThrow(
    'migrated further than 0000',
  )
  const { send, close } = hostOf(restored)
  onTestFinished(close)
  expect(await send('GET', '/workspaces')).toMatchObject({
    status: 200,
    body: { resources: [{ display_name: 'Research' }] },
  })
  await query(superuser, `update drizzle.__drizzle_migrations set created_at = created_at + 1000000000000`)
  const unknown = writeBackup({ url: old, folder: join(root, 'newer'), keys, storage: undefined, log })
  await expect(unknown).rejects.toThrow('newer than this Slipway')
  expect(await readdir(root)).not.toContain('newer.partial')
})

test('one of two restores into one database is refused', async () => {
  const restored = await createEmptyDatabase()
  const restores = [1, 2].map(() => loadBackup({ url: restored, folder, keys, storage: undefined, log }))
  const results = await Promise.allSettled(restores)
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
    reason: { message: expect.stringContaining('has organizations') },
  })
})

test('restores that begin at once take turns', async () => {
  const restored = await createEmptyDatabase()
  await query(restored, 'create schema drizzle')
  const clients = await Promise.all(Array.from({ length: 6 }, () => connectClient(restored)))
  onTestFinished(async () => void (await Promise.all(clients.map(client => client.end()))))
  const { id } = await readManifest(folder, keys)
  for (let round = 0; round < 10; round++) {
    await Promise.all(clients.map(client => beginRestore(client, id)))
    await Promise.all(clients.map(abandonRestore))
  }
  expect(await readUnfinishedRestore(clients[0]!)).toBeUndefined()
})

test('a database with an unfinished migration is not backed up', async () => {
  const unfinished = await createEmptyDatabase()
  await migrate(unfinished, { log })
  const { system } = await createLogins(unfinished)
  await query(unfinished, `insert into drizzle.unfinished_steps (migration, step) values ('0042_more', '{}')`)
  const backup = writeBackup({ url: system, folder: join(root, 'unfinished'), keys, storage: undefined, log })
  await expect(backup).rejects.toThrow('0042_more is not finished')
})

test('a folder gets its name when the backup is complete, and only its owner can read it', async () => {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).map(entry =>
    join(entry.parentPath, entry.name),
  )
  const modes = await Promise.all([folder, ...files].map(async file => (await stat(file)).mode & 0o77))
  expect(modes.every(mode => mode === 0)).toBe(true)
  expect(files.some(file => file.endsWith('paths.gz'))).toBe(false)
  await expect(writeBackup({ url, folder, keys, storage: undefined, log })).rejects.toThrow('exists')
})

test('the oldest backups of a folder are deleted, and nothing else in it', async () => {
  const kept = join(root, 'kept')
  const names = [1, 2, 3].map(day => nameBackup(kept, new Date(`2026-01-0${day}T02:00:00Z`)))
  for (const name of [...names, join(kept, 'slipway-notes')]) {
    await mkdir(name, { recursive: true })
    await writeFile(join(name, 'manifest.json'), '{}')
  }
  for (const name of [`${names[0]}.partial`, `${names[2]}.partial`]) await mkdir(name)
  await deleteOldBackups(names[2]!, 2, log, Date.parse('2026-01-05T00:00:00Z'))
  expect((await readdir(kept)).sort()).toEqual([
    'slipway-2026-01-02T020000Z',
    'slipway-2026-01-03T020000Z',
    'slipway-2026-01-03T020000Z.partial',
    'slipway-notes',
  ])
  await deleteOldBackups(names[1]!, 1, log, 0)
  expect(await readdir(kept)).toContain('slipway-2026-01-02T020000Z')
  expect(await readdir(kept)).not.toContain('slipway-2026-01-03T020000Z')
})

test('the commands back up, verify and restore', async () => {
  const [made, restored] = [join(root, 'by-command'), await createEmptyDatabase()]
  const settings = { SEALING_KEYS, UPLOADS_DIR: join(root, 'uploads') }
  const run = async (args: string[], env: Record<string, string> = {}) => {
    const { exited, output } = startCommand('src/host/main.ts', args, env)
    return { code: await exited, ...output }
  }
  const backup = await run(['backup', '--in', made, '--keep=2'], { ...settings, DATABASE_SYSTEM_URL: url })
  expect(backup).toMatchObject({ code: 0, err: '' })
  const [name] = await readdir(made)
  const path = join(made, name!)
  expect(backup.out).not.toContain(keys[0]![1])
  expect((await run(['backup', '--verify', path])).out).toContain('is complete')
  expect(await run(['restore', path], { ...settings, DATABASE_OWNER_URL: restored })).toMatchObject({
    code: 0,
    err: '',
  })
  expect((await run(['restore', '--finish'], { DATABASE_OWNER_URL: restored })).out).toContain(
    'remove what the database does not know',
  )
})

test.each<[string, string[], RegExp]>([
  ['backup', ['x', '--keep=2'], /--keep needs --in/],
  ['restore', ['x', '--finish'], /Name one backup/],
  ['restore', ['x'], /DATABASE_OWNER_URL is not set/],
])('slipway %s %j says what is missing', async (command, args, message) => {
  const { exited, output } = startCommand('src/host/main.ts', [command, ...args])
  expect(await exited).toBe(1)
  expect(output.err).toMatch(message)
})
