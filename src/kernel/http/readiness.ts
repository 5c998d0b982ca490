// Checks that the database responds and has the schema of this version.
import { sql } from 'drizzle-orm'
import journal from '../../../drizzle/meta/_journal.json' with { type: 'json' }
import type { Database } from '../db/db.ts'
import { fail } from './errors.ts'

const newestMigration = journal.entries.at(-1)!

const CACHE_MS = 1000
const readyDatabases = new WeakMap<Database, { migration: string; at: number }>()

const RESTORE_UNFINISHED = 'A restore of the database is not finished. Wait for it, or repeat `slipway restore`.'

/** The route is open to everyone, so a good result is cached for a second. */
export async function readCachedReadiness(database: Database): Promise<string> {
  const last = readyDatabases.get(database)
  if (last && Date.now() - last.at < CACHE_MS) return last.migration
  const migration = await checkReadiness(database)
  readyDatabases.set(database, { migration, at: Date.now() })
  return migration
}

export async function checkReadiness(database: Database): Promise<string> {
  const applied = sql`
    select max(created_at), to_regclass('drizzle.unfinished_restore')::text
    from drizzle.__drizzle_migrations`
  const [[row]] = (await database([applied]).catch(error => {
    // The table of migrations does not exist, or the login has no grants yet.
    throw ['42P01', '42501'].includes((error as { code?: string }).code ?? '')
      ? fail('not_ready', { cause: error })
      : error
  })) as [[(string | null)[]]]
  if (row[1]) throw fail('not_ready', { detail: RESTORE_UNFINISHED })
  if (Number(row[0]) < newestMigration.when) throw fail('not_ready')
  return newestMigration.tag
}
