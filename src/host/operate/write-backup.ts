// Writes a backup: the rows of one snapshot, then the objects that these rows name.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type pg from 'pg'
import journal from '../../../drizzle/meta/_journal.json' with { type: 'json' }
import { VERSION } from '../../kernel/version.ts'
import type { Storage } from '../../platform.ts'
import { connectClient } from '../migrate.ts'
import {
  dumpQuery,
  dumpTable,
  listIdentities,
  listPartitions,
  listTables,
  type Table,
  TEXT_SETTINGS,
} from './backup-tables.ts'
import { FORMAT, journalsFile, type Manifest, makeKeyCheck, type SealingKeys, writeManifest } from './manifest.ts'
import { countValuesByKey, type KeyCount, SIGNED } from './sealed-columns.ts'
import { formatBytes, formatCount } from './sizes.ts'
import { copyUploads, selectObjectPaths } from './uploads.ts'

export type BackupOptions = {
  url: string
  folder: string
  keys: SealingKeys
  /** Undefined: objects are left out. */
  storage: Storage | undefined
  usesClickHouse?: boolean
  log: (line: string) => void
}

const LAST_EVENTS = `
  select j.scope_id, e.seq, e.type, to_char(e.created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at
  from journals j
  cross join lateral (
    select seq, type, created_at
    from events
    where scope_id = j.scope_id
    order by seq desc
    limit 1
  ) e`

/** The folder gets its name when it is complete. Returns its manifest. */
export async function writeBackup({ folder, log, ...options }: BackupOptions): Promise<Manifest> {
  const target = resolve(folder)
  const partial = `${target}.partial`
  if (existsSync(target)) throw new Error(`${target} exists. Name a new folder.`)
  await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  await mkdir(partial, { mode: 0o700 }).catch(error => {
    if (error.code !== 'EEXIST') throw error
    throw new Error(`${partial} exists: another backup writes it, or one was interrupted. Then remove it.`)
  })
  try {
    await mkdir(join(partial, 'tables'), { mode: 0o700 })
    const manifest = await fill(partial, { ...options, log })
    await writeManifest(partial, manifest, options.keys)
    await rename(partial, target)
    log(describeBackup(target, manifest))
    return manifest
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

async function fill(
  folder: string,
  { url, keys, storage, usesClickHouse, log }: Omit<BackupOptions, 'folder'>,
): Promise<Manifest> {
  const pathsFile = join(folder, 'paths.gz')
  const client = await connectClient(url)
  const inDatabase = await readDatabase(client, folder, pathsFile, { keys, log }).finally(() => client.end())
  if (usesClickHouse) log('Traces are in ClickHouse and not in this backup. Back it up by its own means.')
  const uploads = storage ? await copyUploads(storage, folder, pathsFile) : null
  await rm(pathsFile)
  if (uploads === null) log('Uploads were left out.')
  else {
    log(`  ${'uploads'.padEnd(28)}${formatCount(uploads.count).padStart(12)} objects  ${formatBytes(uploads.bytes)}`)
    if (uploads.missing > 0) log(`${uploads.missing} uploads that the database names are not in the store.`)
  }
  return { ...inDatabase, uploads }
}

async function readDatabase(
  client: pg.Client,
  folder: string,
  pathsFile: string,
  { keys, log }: Pick<BackupOptions, 'keys' | 'log'>,
): Promise<Omit<Manifest, 'uploads'>> {
  const tables = await listTables(client)
  if (tables.length === 0) throw new Error('The database has no tables of Slipway. Run `slipway migrate` first.')
  await client.query('begin isolation level repeatable read read only')
  // The first statement that reads takes the snapshot, so a migration must not run from here on.
  await client.query(`set local role slipway_system`).catch(error => {
    throw new Error(
      `The login cannot become slipway_system. Set DATABASE_SYSTEM_URL to the address that \`slipway logins\` prints.`,
      { cause: error },
    )
  })
  await client.query(`lock table ${tables.map(({ name }) => `"${name}"`).join(', ')} in access share mode`)
  await client.query(TEXT_SETTINGS)
  const head = await readHead(client)
  log(`Backing up ${head.moment}`)

  const dumped: Manifest['tables'] = []
  for (const table of tables) {
    const file = await dumpTable(client, folder, table)
    dumped.push({ ...table, ...file })
    if (file.rows > 0)
      log(`  ${table.name.padEnd(28)}${formatCount(file.rows).padStart(12)} rows  ${formatBytes(file.bytes)}`)
  }
  const journals = await dumpQuery(client, LAST_EVENTS, journalsFile(folder))
  const { rows: last } = await client.query(
    `select scope_id as journal, seq, type, at from (${LAST_EVENTS}) e order by at::timestamptz desc limit 1`,
  )
  await dumpQuery(client, selectObjectPaths(tables), pathsFile)
  const id = randomUUID()
  const inventory = {
    identities: await listIdentities(client),
    partitions: await listPartitions(client),
    settings: await readSettings(client),
    keys: await checkKeys(client, id, tables, keys),
  }
  await client.query('commit')
  return {
    format: FORMAT,
    id,
    app_version: VERSION,
    ...head,
    events: dumped.find(({ name }) => name === 'events')!.rows,
    last_event: last[0] ? { ...last[0], seq: Number(last[0].seq) } : null,
    journals,
    tables: dumped,
    ...inventory,
  }
}

async function readHead(client: pg.Client): Promise<Pick<Manifest, 'migration' | 'postgres' | 'moment'>> {
  const { rows } = await client.query(`
    select statement_timestamp() as now, current_setting('server_version') as postgres,
      (select max(created_at)::text from drizzle.__drizzle_migrations) as applied,
      to_regclass('drizzle.unfinished_steps') is not null as has_steps`)
  const { now, postgres, applied, has_steps } = rows[0]
  if (has_steps) await refuseUnfinishedSteps(client)
  const migration = journal.entries.find(({ when }) => String(when) === applied)
  if (!migration)
    throw new Error('The database is newer than this Slipway. Back it up with the version that serves it.')
  return {
    migration: { idx: migration.idx, name: migration.tag },
    postgres,
    moment: now.toISOString(),
  }
}

/** A restore migrates an empty database: what a step still has to change in these rows would stay as it is. */
async function refuseUnfinishedSteps(client: pg.Client): Promise<void> {
  const { rows } = await client.query('select min(migration) as migration from drizzle.unfinished_steps')
  const { migration } = rows[0]
  if (migration !== null) throw new Error(`Migration ${migration} is not finished. Run \`slipway migrate\` first.`)
}

/** The quotas, for example. A login's own settings and other applications' are none of ours. */
async function readSettings(client: pg.Client): Promise<Record<string, string>> {
  const { rows } = await client.query<{ setting: string }>(`
    select unnest(setconfig) as setting
    from pg_db_role_setting
    where setrole = 0 and setdatabase = (select oid from pg_database where datname = current_database())`)
  const pairs = rows.map(({ setting }) => [setting.split('=', 1)[0]!, setting.replace(/^[^=]*=/, '')] as const)
  return Object.fromEntries(pairs.filter(([name]) => name.startsWith('app.')))
}

async function checkKeys(client: pg.Client, id: string, tables: Table[], keys: SealingKeys): Promise<Manifest['keys']> {
  // A key that is gone and left no more than signatures of the journal is not missed by a restore.
  const isNeeded = ({ table, kid }: KeyCount) => !(table in SIGNED) || keys.some(([name]) => name === kid)
  const counts = (await countValuesByKey(client, tables)).filter(isNeeded)
  const used = [...new Set([keys[0]![0], ...counts.map(({ kid }) => kid)])]
  return Promise.all(
    used.map(async kid => {
      const key = keys.find(([name]) => name === kid)
      const values = counts.filter(count => count.kid === kid).reduce((sum, { values }) => sum + values, 0)
      return { kid, values, check: key ? await makeKeyCheck(id, key) : null }
    }),
  )
}

export function describePoint({ moment, events, last_event }: Manifest): string {
  const last =
    last_event &&
    `the last one is ${last_event.type}, ${last_event.seq} of journal ${last_event.journal}, at ${last_event.at}`
  return `${moment}; ${formatCount(events)} events${last ? `; ${last}` : ''}`
}

function describeBackup(folder: string, manifest: Manifest): string {
  const { tables, uploads, keys, journals } = manifest
  const bytes = tables.reduce((sum, table) => sum + table.bytes, journals.bytes) + (uploads?.bytes ?? 0)
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  const unknown = keys.filter(({ check }) => check === null).map(({ kid }) => kid)
  return [
    `Backed up to ${folder}: ${formatCount(rows)} rows, ${formatBytes(bytes)}.`,
    `It shows ${describePoint(manifest)}.`,
    `It can be opened with SEALING_KEYS ${keys.map(({ kid }) => kid).join(', ')}, which are not in it.`,
    ...(unknown.length > 0 ? [`Values of ${unknown.join(', ')} cannot be opened: SEALING_KEYS has no such key.`] : []),
  ].join('\n')
}
