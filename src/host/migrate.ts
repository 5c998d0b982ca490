// `npm run db:migrate`: applies the new migrations of drizzle/, each once, also when several starts race.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type SQL, sql } from 'drizzle-orm'
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { PgDialect, type PgSession } from 'drizzle-orm/pg-core'
import pg from 'pg'
import { readClickHouseUrl, readOwnerUrl, readSharesDatabase } from '../env.ts'
import { migrateClickHouse } from '../traces/clickhouse/migrate.ts'

export type MigrateOptions = {
  /** Migrates a database that has tables of another application. */
  sharesDatabase?: boolean
  /** The idx of the last migration to apply. */
  to?: number
  folder?: string
  log?: (line: string) => void
}
export type AppliedMigration = { name: string; ms: number }

type Journal = { entries: { idx: number; tag: string }[] }

const MIGRATIONS_FOLDER = fileURLToPath(new URL('../../drizzle', import.meta.url))
const MIGRATION_LOCK = 7_547_929

/** All in one transaction with an advisory lock, which works behind a transaction pooler too, unlike a session lock. */
export async function migrate(
  databaseUrl: string,
  { sharesDatabase = false, to = Infinity, folder = MIGRATIONS_FOLDER, log = console.log }: MigrateOptions = {},
) {
  const journal: Journal = JSON.parse(readFileSync(`${folder}/meta/_journal.json`, 'utf8'))
  const available = readMigrationFiles({ migrationsFolder: folder })
    .map((migration, i) => ({ migration, ...journal.entries[i]! }))
    .filter(({ idx }) => idx <= to)

  const client = await connectClient(databaseUrl)
  try {
    const applied = await drizzle(client).transaction(async tx => {
      await tx.execute(sql`select pg_advisory_xact_lock(${MIGRATION_LOCK})`)
      // drizzle's migrator opens a transaction of its own. Inside this one it must be a savepoint.
      const session = {
        execute: tx.execute.bind(tx),
        all: async (query: SQL) => (await tx.execute(query)).rows,
        transaction: tx.transaction.bind(tx),
      } as unknown as PgSession
      const run = (migrations: MigrationMeta[]) =>
        new PgDialect().migrate(migrations, session, { migrationsFolder: folder })

      await run([]).catch(error => {
        throw new Error(
          `The table of migrations was not created: ${innermostMessage(error)}${permissionAdvice(error)}`,
          {
            cause: error,
          },
        )
      })
      const { rows } = await tx.execute(sql`select created_at from drizzle.__drizzle_migrations`)
      const times = rows.map(row => Number(row.created_at))
      if (!times.includes(available[0]!.migration.folderMillis))
        await refuseForeignDatabase(tx, { hasForeignMigrations: times.length > 0, sharesDatabase })
      const last = Math.max(0, ...times)
      const applied: AppliedMigration[] = []
      for (const { migration, tag } of available) {
        if (migration.folderMillis <= last) continue
        const start = performance.now()
        await run([migration]).catch(error => {
          const reason = `${innermostMessage(error)}${permissionAdvice(error)}`
          throw new Error(`Migration ${tag} failed, so no migration was applied: ${reason}`, { cause: error })
        })
        applied.push({ name: tag, ms: Math.round(performance.now() - start) })
      }
      return applied
    })
    for (const { name, ms } of applied) log(`migration applied name=${name} ms=${ms}`)
    if (applied.length === 0) log('database up to date')
    return applied
  } finally {
    await client.end()
  }
}

/** Throws if another application uses the database. */
async function refuseForeignDatabase(
  tx: Pick<NodePgDatabase, 'execute'>,
  { hasForeignMigrations, sharesDatabase }: { hasForeignMigrations: boolean; sharesDatabase: boolean },
): Promise<void> {
  const { rows } = await tx.execute(sql`select current_database() as name`)
  const name = `The database "${rows[0]!.name}"`
  // Migrations are applied by their time, so the two applications would skip each other's.
  if (hasForeignMigrations)
    throw new Error(`${name} has the migrations of another application that uses drizzle. Choose an empty database.`)
  if (sharesDatabase) return
  // Extensions have tables in a fresh database. So have hosting providers, in schemas where we cannot create any.
  const { rows: foreign } = await tx.execute(sql`
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
    ? '. Set DATABASE_OWNER_URL to the owner of the database, with the rights that docs/database-logins.md names.'
    : ''

/** drizzle's own message is the whole statement. Other properties of the error may contain the password. */
function innermostMessage(error: unknown): string {
  const { message, cause, code } = error as { message?: string; cause?: unknown; code?: string }
  return cause ? innermostMessage(cause) : message || code || String(error)
}

export async function main(): Promise<void> {
  try {
    await migrate(readOwnerUrl(process.env), { sharesDatabase: readSharesDatabase(process.env) })
    const clickHouse = readClickHouseUrl(process.env)
    if (clickHouse) await migrateClickHouse(clickHouse)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}

if (import.meta.main) await main()
