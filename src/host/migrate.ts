// `slipway migrate`: applies the new migrations of drizzle/, each once, also when several starts race. An empty
// database gets all of them in one transaction, and one that serves requests each in its own, without long locks.
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator'
import pg from 'pg'
import { readClickHouseUrl, readOwnerUrl, readSharesDatabase } from '../env.ts'
import { migrateClickHouse } from '../tracing/store/clickhouse/migrate.ts'
import { planMigration, type Step } from './migration-plan.ts'
import { type InTransaction, runStep } from './migration-steps.ts'
import { findPostgresFault } from './postgres-version.ts'
import { inTransaction } from './transaction.ts'

export type MigrateOptions = {
  /** Migrates a database that has tables of another application. */
  sharesDatabase?: boolean
  /** The idx of the last migration to apply. */
  to?: number
  folder?: string
  /** The time to wait for another process that migrates. */
  patienceMs?: number
  log?: (line: string) => void
}
export type AppliedMigration = { name: string; ms: number }

type Journal = { entries: { idx: number; tag: string }[] }
type Migration = MigrationMeta & { name: string }

const MIGRATIONS_FOLDER = fileURLToPath(new URL('../../drizzle', import.meta.url))
const MIGRATION_LOCK = 7_547_929
/**
 * While a migration waits for a table, requests wait behind it. Each attempt waits a little longer, in case
 * transactions take long. Shorter than deadlock_timeout, so that of a migration and a request that wait for each other,
 * the migration gives up.
 */
const LOCK_TIMEOUTS_MS = [300, 400, 500, 600]
const LOCK_PATIENCE_MS = 10 * 60_000
/** Another process may build the indexes of large tables. */
const MIGRATOR_PATIENCE_MS = 60 * 60_000

export async function migrate(
  databaseUrl: string,
  {
    sharesDatabase = false,
    to = Infinity,
    folder = MIGRATIONS_FOLDER,
    patienceMs = MIGRATOR_PATIENCE_MS,
    log = console.log,
  }: MigrateOptions = {},
): Promise<AppliedMigration[]> {
  const available = readMigrations(folder, to)
  const holder = await connectClient(databaseUrl)
  const client = await connectClient(databaseUrl)
  try {
    await requireSafePostgres(client)
    await becomeOnlyMigrator(holder, { log, patienceMs })
    const { times, applied } = await migrateEmptyDatabase(client, available, sharesDatabase)
    for (const { name, ms } of applied) log(`migration applied name=${name} ms=${ms}`)
    await finishSteps(client, log)
    const last = Math.max(...times, ...available.slice(0, applied.length).map(({ folderMillis }) => folderMillis))
    for (const migration of available.filter(({ folderMillis }) => folderMillis > last)) {
      const { name } = migration
      // Fails when the lock was lost with its connection.
      await holder.query('select 1')
      const ms = await applyWhileServing(client, migration, log)
      log(`migration applied name=${name} ms=${ms}`)
      applied.push({ name, ms })
      await finishSteps(client, log)
    }
    if (applied.length === 0) log('database up to date')
    return applied
  } finally {
    await client.end()
    await holder.end()
  }
}

async function requireSafePostgres(client: pg.Client): Promise<void> {
  const { rows } = await client.query('show server_version_num')
  const fault = findPostgresFault(Number(rows[0].server_version_num))
  if (fault) throw new Error(fault)
}

export function readMigrations(folder = MIGRATIONS_FOLDER, to = Infinity): Migration[] {
  const { entries }: Journal = JSON.parse(readFileSync(`${folder}/meta/_journal.json`, 'utf8'))
  return readMigrationFiles({ migrationsFolder: folder })
    .map((migration, i) => ({ ...migration, idx: entries[i]!.idx, name: entries[i]!.tag }))
    .filter(({ idx }) => idx <= to)
}

/**
 * Holds an advisory lock in a transaction, which works behind a transaction pooler too, unlike a session lock. It asks
 * again instead of waiting in a statement: an index that is built concurrently waits for every statement that runs.
 */
async function becomeOnlyMigrator(
  holder: pg.Client,
  { log, patienceMs }: Required<Pick<MigrateOptions, 'log' | 'patienceMs'>>,
): Promise<void> {
  const start = performance.now()
  let hasWaited = false
  await holder.query('begin')
  await holder.query(`
    select set_config(name, '0', true)
    from pg_settings
    where name in ('idle_in_transaction_session_timeout', 'transaction_timeout', 'statement_timeout')`)
  for (;;) {
    // Without parameters: those leave a portal open, and its snapshot would hold up every index.
    const { rows } = await holder.query(`select pg_try_advisory_xact_lock(${MIGRATION_LOCK}) as is_held`)
    if (rows[0].is_held) return
    if (performance.now() - start > patienceMs)
      throw new Error(
        `Another process migrates this database for ${Math.round(patienceMs / 60_000)} minutes. Wait until it ends, ` +
          'or end its connections, which hold the advisory lock in pg_locks. Then run it again.',
      )
    if (!hasWaited) log('migration waits for another process that migrates')
    hasWaited = true
    await delay(100)
  }
}

/** All in one transaction: if one fails, the database stays empty. */
async function migrateEmptyDatabase(client: pg.Client, available: Migration[], sharesDatabase: boolean) {
  return inTransaction(client, async () => {
    await client.query(JOURNAL_TABLES).catch(error => {
      const reason = `${innermostMessage(error)}${permissionAdvice(error)}`
      throw new Error(`The table of migrations was not created: ${reason}`, { cause: error })
    })
    const { rows } = await client.query('select created_at from drizzle.__drizzle_migrations')
    const times = rows.map(row => Number(row.created_at))
    if (!times.includes(available[0]!.folderMillis)) {
      await refuseOlderDatabase(client, times)
      await refuseForeignDatabase(client, { hasForeignMigrations: times.length > 0, sharesDatabase })
    }
    const applied: AppliedMigration[] = []
    if (times.length > 0) return { times, applied }
    for (const migration of available) {
      const start = performance.now()
      try {
        for (const part of migration.sql) await client.query(part)
        await recordMigration(client, migration)
      } catch (error) {
        throw describeFailure(migration, 'no migration was applied', error)
      }
      applied.push({ name: migration.name, ms: Math.round(performance.now() - start) })
    }
    return { times, applied }
  })
}

/** The first table is that of drizzle, which drizzle-kit reads too. */
const JOURNAL_TABLES = `
  create schema if not exists drizzle;
  create table if not exists drizzle.__drizzle_migrations (
    id serial primary key,
    hash text not null,
    created_at bigint
  );
  create table if not exists drizzle.unfinished_steps (
    id serial primary key,
    migration text not null,
    step json not null
  );
  grant select on drizzle.unfinished_steps to public`

const recordMigration = (client: pg.Client, { hash, folderMillis }: Migration) =>
  client.query('insert into drizzle.__drizzle_migrations (hash, created_at) values ($1, $2)', [hash, folderMillis])

/** Applies one while requests are served. Its steps that take long are recorded with it, to run afterwards. */
async function applyWhileServing(client: pg.Client, migration: Migration, log: (line: string) => void) {
  const { inTransaction, afterwards } = planMigration(migration.sql)
  let start = 0
  try {
    await whileTablesAreFree(
      client,
      migration.name,
      log,
    )(async () => {
      start = performance.now()
      for (const part of inTransaction) await client.query(part)
      await recordMigration(client, migration)
      for (const step of afterwards)
        await client.query('insert into drizzle.unfinished_steps (migration, step) values ($1, $2)', [
          migration.name,
          JSON.stringify(step),
        ])
    })
  } catch (error) {
    throw describeFailure(migration, 'it changed nothing', error)
  }
  return Math.round(performance.now() - start)
}

async function finishSteps(client: pg.Client, log: (line: string) => void): Promise<void> {
  const { rows } = await client.query('select id, migration, step from drizzle.unfinished_steps order by id')
  for (const { id, migration, step } of rows as { id: number; migration: string; step: Step }[]) {
    const start = performance.now()
    try {
      await runStep(client, step, whileTablesAreFree(client, migration, log))
    } catch (error) {
      const reason = `${innermostMessage(error)}${permissionAdvice(error)}`
      throw new Error(
        `The ${step.kind} ${step.name} of migration ${migration} failed: ${reason}. Run it again to continue there.`,
        { cause: error },
      )
    }
    await client.query('delete from drizzle.unfinished_steps where id = $1', [id])
    const ms = Math.round(performance.now() - start)
    log(`migration step finished name=${migration} ${step.kind}=${step.name} ms=${ms}`)
  }
}

/** Runs work in a transaction. If a table is locked, it undoes everything, lets requests pass, and tries again. */
function whileTablesAreFree(client: pg.Client, name: string, log: (line: string) => void): InTransaction {
  return async work => {
    const start = performance.now()
    for (let attempt = 1; ; attempt++) {
      try {
        return await inTransaction(client, async () => {
          const timeout = LOCK_TIMEOUTS_MS[Math.min(attempt, LOCK_TIMEOUTS_MS.length) - 1]
          await client.query(`set local lock_timeout = ${timeout}`)
          return work()
        })
      } catch (error) {
        const isLocked = ['55P03', '40P01'].includes((error as { code?: string }).code ?? '')
        if (!isLocked) throw error
        if (performance.now() - start > LOCK_PATIENCE_MS)
          throw new Error(
            `a table stayed locked for ${LOCK_PATIENCE_MS / 60_000} minutes. End the long transactions that ` +
              'pg_stat_activity shows, and run it again',
          )
        if (attempt === 1) log(`migration waits for a lock name=${name}`)
        await delay(Math.min(200 * attempt, 5000))
      }
    }
  }
}

function describeFailure({ name }: Migration, outcome: string, error: unknown): Error {
  const reason = `${innermostMessage(error)}${permissionAdvice(error)}`
  return new Error(`Migration ${name} failed, so ${outcome}: ${reason}`, { cause: error })
}

/** Throws if the database lacks migrations that the baseline replaced. Such a database was never released. */
async function refuseOlderDatabase(client: pg.Client, times: number[]): Promise<void> {
  if (times.length === 0) return
  const { rows } = await client.query(`select current_database() as name, to_regclass('public.sync_cursors') as table`)
  if (rows[0]!.table === null) return
  throw new Error(
    `The database "${rows[0]!.name}" lacks migrations up to 0065_listener_policies, which are now in the baseline. ` +
      'Choose an empty database.',
  )
}

/** Throws if another application uses the database. */
async function refuseForeignDatabase(
  client: pg.Client,
  { hasForeignMigrations, sharesDatabase }: { hasForeignMigrations: boolean; sharesDatabase: boolean },
): Promise<void> {
  const { rows } = await client.query('select current_database() as name')
  const name = `The database "${rows[0]!.name}"`
  // Migrations are applied by their time, so the two applications would skip each other's.
  if (hasForeignMigrations)
    throw new Error(`${name} has the migrations of another application that uses drizzle. Choose an empty database.`)
  if (sharesDatabase) return
  // Extensions have tables in a fresh database. So have hosting providers, in schemas where we cannot create any.
  const { rows: foreign } = await client.query(`
    select format('%I.%I', n.nspname, c.relname) as table
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p')
      and n.nspname not in ('pg_catalog', 'information_schema', 'drizzle')
      and n.nspname !~ '^pg_(toast|temp)'
      and (n.nspname = 'public' or has_schema_privilege(n.oid, 'create'))
      and not exists (
        select from pg_depend d
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    order by n.nspname <> 'public', n.nspname, c.relname
    limit 1`)
  if (foreign.length > 0)
    throw new Error(
      `${name} has tables of another application, such as ${foreign[0]!.table}. ` +
        'Choose an empty database, or set SHARE_DATABASE=true to add the tables of Slipway to this one.',
    )
}

export async function connectClient(databaseUrl: string): Promise<pg.Client> {
  try {
    const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 })
    client.on('error', () => {})
    await client.connect()
    return client
  } catch (error) {
    throw new Error(`The database cannot be reached: ${innermostMessage(error)}`, { cause: error })
  }
}

const permissionAdvice = (error: unknown): string =>
  /permission denied/.test(innermostMessage(error))
    ? '. Set DATABASE_OWNER_URL to the owner of the database, with the rights of docs/operate/database-logins.md.'
    : ''

/** drizzle's own message is the whole statement. Other properties of the error may contain the password. */
function innermostMessage(error: unknown): string {
  const { message, cause, code } = error as { message?: string; cause?: unknown; code?: string }
  return cause ? innermostMessage(cause) : message || code || String(error)
}

const USAGE = `slipway migrate [--wait SECONDS]

Applies the new migrations to the database of DATABASE_OWNER_URL, while requests are served. With --wait, it changes
nothing: it waits until another one has applied them, and fails after that time. Then DATABASE_URL is enough.`

export async function main(): Promise<void> {
  try {
    const { values } = parseArgs({
      options: { wait: { type: 'string' }, help: { type: 'boolean', short: 'h', default: false } },
    })
    if (values.help) return console.log(USAGE)
    const url = readOwnerUrl(process.env)
    if (values.wait !== undefined) return await waitForMigrations(url, { seconds: parseSeconds(values.wait) })
    await migrate(url, { sharesDatabase: readSharesDatabase(process.env) })
    const clickHouse = readClickHouseUrl(process.env)
    if (clickHouse) await migrateClickHouse(clickHouse)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}

function parseSeconds(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text)
  throw new Error(`--wait ${text} is not a number of seconds. Give one like --wait 300.`)
}

/** Waits until the database has every migration of this version. Nothing else is asked of the login. */
export async function waitForMigrations(
  databaseUrl: string,
  { seconds, log = console.log }: { seconds: number; log?: (line: string) => void },
): Promise<void> {
  const { name, folderMillis } = readMigrations().at(-1)!
  const end = performance.now() + seconds * 1000
  let reported: string | undefined
  for (;;) {
    const missing = await describeMissing(databaseUrl, folderMillis)
    if (missing === undefined) return log(`database migrated name=${name}`)
    if (performance.now() >= end)
      throw new Error(`After ${seconds} s, ${missing} This version needs the migration ${name}: run slipway migrate.`)
    if (missing !== reported) log(`waiting for the migration ${name}: ${missing}`)
    reported = missing
    await delay(Math.min(1000, Math.max(0, end - performance.now())))
  }
}

async function describeMissing(databaseUrl: string, newest: number): Promise<string | undefined> {
  try {
    const client = await connectClient(databaseUrl)
    try {
      const { rows } = await client.query('select max(created_at) as newest from drizzle.__drizzle_migrations')
      return Number(rows[0].newest) >= newest ? undefined : 'the database has an older schema.'
    } finally {
      await client.end()
    }
  } catch (error) {
    const { code } = error as { code?: string }
    // The table, its schema or the grant comes with the first migration.
    if (['42P01', '3F000', '42501'].includes(code ?? '')) return 'the database has no schema.'
    return `${innermostMessage(error)}.`
  }
}

if (import.meta.main) await main()
