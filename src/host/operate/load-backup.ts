// Loads a backup into an empty database, in one transaction, and puts its objects into the store.
import type pg from 'pg'
import journal from '../../../drizzle/meta/_journal.json' with { type: 'json' }
import type { Storage } from '../../platform.ts'
import { connectClient, migrate } from '../migrate.ts'
import { bareTables, createPartitions, listTables, loadTable, setIdentities, TEXT_SETTINGS } from './backup-tables.ts'
import { fillAsOwner } from './folder-owner.ts'
import { holdRemovals } from './held-removals.ts'
import { type Manifest, readManifest, type SealingKeys } from './manifest.ts'
import { formatBytes, formatCount } from './sizes.ts'
import { abandonRestore, beginRestore, endRestore, markLoaded, readUnfinishedRestore } from './unfinished-restore.ts'
import { putUploads } from './uploads.ts'
import { checkFiles } from './verify-backup.ts'
import { describePoint } from './write-backup.ts'

export type RestoreOptions = {
  url: string
  folder: string
  keys: SealingKeys
  /** Undefined: the objects of the backup stay in it. */
  storage: Storage | undefined
  /** The folder of that storage, if it is one. */
  uploadsFolder?: string | undefined
  sharesDatabase?: boolean
  usesClickHouse?: boolean
  log: (line: string) => void
}

const NOT_EMPTY = 'The database has organizations. Restore into a new database.'

/**
 * Credentials that end by themselves soon, or that a person or program gets again by signing in. One that was revoked,
 * used or replaced after the backup would otherwise work again.
 */
const ENDED_TABLES = ['sessions', 'sign_in_links', 'device_requests', 'oauth_grants', 'oauth_flows']

export async function loadBackup(restore: RestoreOptions): Promise<Manifest> {
  const { url, folder, keys, storage, uploadsFolder, log, ...options } = restore
  const manifest = await readManifest(folder, keys)
  const migration = journal.entries.find(({ tag }) => tag === manifest.migration.name)
  if (!migration)
    throw new Error(
      `The backup is of a newer Slipway, ${manifest.app_version} with migration ${manifest.migration.name}. ` +
        'Restore it with that version.',
    )
  const unknown = manifest.keys.filter(({ check }) => check === null)
  for (const { kid, values } of unknown)
    log(`${values} values are sealed with the key ${kid}, which the installation itself no longer had.`)
  await checkFiles(folder, manifest)
  log(`The backup is complete: it shows ${describePoint(manifest)}.`)

  const isLoaded = await requireEmpty(url, manifest, migration.when)
  const migrateTo = (to?: number) => migrate(url, { ...options, ...(to !== undefined && { to }), log: () => {} })
  if (isLoaded) log('The rows were loaded before. Finishing that restore.')
  else await migrateTo(migration.idx)
  const client = await connectClient(url)
  try {
    if (!isLoaded) {
      await beginRestore(client, manifest.id)
      // Uploads are put before the rows, so that no row names an archive that is missing.
      if (storage && manifest.uploads) {
        const put = () => putUploads(storage, folder)
        await (uploadsFolder === undefined ? put() : fillAsOwner(uploadsFolder, put))
        log(`  ${formatCount(manifest.uploads.count)} uploads, ${formatBytes(manifest.uploads.bytes)}`)
      }
      await applySettings(client, manifest, log)
      await client.query('begin')
      // Another restore, or a control plane that was not stopped, may have filled it meanwhile.
      await client.query('lock table organizations in access exclusive mode')
      if (await findOrganization(client)) {
        await client.query('rollback')
        await abandonRestore(client)
        throw new Error(NOT_EMPTY)
      }
      await loadRows(client, folder, manifest, log)
      // The hold is in the same transaction, so that no agent sees the rows without it.
      await holdRemovals(client)
      await markLoaded(client, manifest.id)
      await client.query('commit')
    }
    await client.query('analyze')
    const later = await migrateTo()
    if (later.length > 0) log(`Migrated on to ${later.at(-1)!.name}.`)
    await endRestore(client)
  } finally {
    await client.end()
  }

  log(`Restored to ${describePoint(manifest)}.`)
  log('Agents keep deployments that the database does not know, until `slipway restore --finish`.')
  if (!storage || !manifest.uploads) log('Uploads were not restored.')
  if (options.usesClickHouse) log('Traces are in ClickHouse: the backup has none.')
  return manifest
}

/**
 * Runs before the migration, because another application's database must stay as it is. Returns true if an earlier run
 * loaded the rows of this backup, and was interrupted before it had migrated them.
 */
async function requireEmpty(url: string, { id, migration }: Manifest, newest: number): Promise<boolean> {
  const client = await connectClient(url)
  try {
    const unfinished = await readUnfinishedRestore(client)
    if (unfinished?.is_loaded && unfinished.backup === id) return true
  } finally {
    await client.end()
  }
  if (await hasOrganizations(url)) throw new Error(NOT_EMPTY)
  if ((await readNewestMigration(url)) > newest)
    throw new Error(
      `The database was migrated further than ${migration.name}, the last migration of the backup, so its rows would ` +
        'miss what later migrations change. Restore into a new database that nothing has migrated.',
    )
  return false
}

async function readNewestMigration(url: string): Promise<number> {
  const client = await connectClient(url)
  try {
    const { rows } = await client.query(`select to_regclass('drizzle.__drizzle_migrations') as existing`)
    if (rows[0].existing === null) return 0
    const { rows: applied } = await client.query('select max(created_at) as newest from drizzle.__drizzle_migrations')
    return Number(applied[0].newest)
  } finally {
    await client.end()
  }
}

export async function hasOrganizations(url: string): Promise<boolean> {
  const client = await connectClient(url)
  try {
    const { rows } = await client.query(`select to_regclass('public.organizations') as existing`)
    if (rows[0].existing === null) return false
    await client.query('begin')
    return await findOrganization(client)
  } finally {
    await client.end()
  }
}

async function findOrganization(client: pg.Client): Promise<boolean> {
  await client.query('set local role slipway_system')
  const { rowCount } = await client.query('select from organizations limit 1')
  await client.query('reset role')
  return rowCount !== 0
}

async function loadRows(client: pg.Client, folder: string, manifest: Manifest, log: (line: string) => void) {
  await client.query(TEXT_SETTINGS)
  const tables = await listTables(client)
  const names = new Set(tables.map(({ name }) => name))
  const missing = manifest.tables.find(({ name }) => !names.has(name))
  if (missing) throw new Error(`The backup has a table ${missing.name}, which this version does not have.`)
  await createPartitions(client, manifest.partitions)
  const { bringBack } = await bareTables(client, tables)
  for (const table of manifest.tables.filter(({ rows }) => rows > 0)) {
    await loadTable(client, folder, table)
    log(`  ${table.name.padEnd(28)}${formatCount(table.rows).padStart(12)} rows`)
  }
  await endCredentials(client, names, log)
  await bringBack()
  await setIdentities(client, manifest.identities)
}

async function endCredentials(client: pg.Client, names: Set<string>, log: (line: string) => void): Promise<void> {
  let ended = 0
  for (const table of ENDED_TABLES.filter(name => names.has(name)))
    ended += (await client.query(`delete from "${table}"`)).rowCount ?? 0
  if (ended > 0) log(`  ${formatCount(ended)} sessions, sign-ins and connected programs ended`)
}

/** Such as quotas. They need rights that the owner may lack. */
async function applySettings(client: pg.Client, { settings }: Manifest, log: (line: string) => void): Promise<void> {
  const { rows } = await client.query('select current_database() as name')
  const database = client.escapeIdentifier(rows[0].name)
  for (const [name, value] of Object.entries(settings)) {
    const statement = `alter database ${database} set ${name} = ${client.escapeLiteral(value)}`
    await client.query(statement).catch(() => log(`Not allowed to this login. Run it as a superuser: ${statement}`))
  }
}
