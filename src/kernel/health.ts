// Liveness and readiness checks.
import { sql } from 'drizzle-orm'
import * as z from 'zod'
import journal from '../../drizzle/meta/_journal.json' with { type: 'json' }
import type { Database } from './db.ts'
import { fail } from './errors.ts'
import { jsonResponse } from './json-response.ts'
import { slice } from './routes.ts'
import { VERSION } from './version.ts'

const Health = z.object({ status: z.literal('ok'), version: z.string() }).meta({ id: 'Health' })
const Readiness = z.object({ status: z.literal('ready'), migration: z.string() }).meta({ id: 'Readiness' })
const HEALTHY = JSON.stringify({ status: 'ok', version: VERSION })
const newestMigration = journal.entries.at(-1)!

const CACHE_MS = 1000
const readyDatabases = new WeakMap<Database, { migration: string; at: number }>()

/** The route is open to everyone, so a good result is cached for a second. */
async function readCachedReadiness(database: Database): Promise<string> {
  const last = readyDatabases.get(database)
  if (last && Date.now() - last.at < CACHE_MS) return last.migration
  const migration = await checkReadiness(database)
  readyDatabases.set(database, { migration, at: Date.now() })
  return migration
}

export async function checkReadiness(database: Database): Promise<string> {
  const applied = sql`select max(created_at) from drizzle.__drizzle_migrations`
  const [[row]] = (await database([applied]).catch(error => {
    // The table of migrations does not exist, or the login has no grants yet.
    throw ['42P01', '42501'].includes((error as { code?: string }).code ?? '')
      ? fail('not_ready', { cause: error })
      : error
  })) as [[string[]]]
  if (Number(row[0]) < newestMigration.when) throw fail('not_ready')
  return newestMigration.tag
}

export const healthRoutes = slice('Health', 'Liveness and readiness checks for load balancers and people.')
  .get('/healthz', {
    id: 'health',
    summary: 'Check that the process is alive, without the database',
    reply: Health,
    open: () => jsonResponse(HEALTHY),
  })
  .get('/readyz', {
    id: 'readiness',
    summary: 'Check that the database responds and has the schema of this version',
    reply: Readiness,
    errors: ['not_ready', 'shutting_down', 'database_unavailable'],
    open: async (c, { config, database }) => {
      if (config.draining?.aborted) throw fail('shutting_down')
      return c.json({ status: 'ready', migration: await readCachedReadiness(database) })
    },
  })
