// Is it alive, and is it ready: for load balancers and for people.
import { sql } from 'drizzle-orm'
import * as z from 'zod'
import journal from '../../drizzle/meta/_journal.json' with { type: 'json' }
import type { Database } from './db.ts'
import { fail } from './errors.ts'
import { slice } from './routes.ts'

const Health = z.object({ status: z.literal('ok') }).meta({ id: 'Health' })
const Readiness = z.object({ status: z.literal('ready'), migration: z.string() }).meta({ id: 'Readiness' })
const newest = journal.entries.at(-1)!

const FRESH_MS = 1000
const ready = new WeakMap<Database, { migration: string; at: number }>()

/** Anyone may ask, so a good answer serves everyone for a second. */
async function recentReadiness(database: Database): Promise<string> {
  const last = ready.get(database)
  if (last && Date.now() - last.at < FRESH_MS) return last.migration
  const migration = await readiness(database)
  ready.set(database, { migration, at: Date.now() })
  return migration
}

/** The name of the newest migration, when the database answers and has it. */
export async function readiness(database: Database): Promise<string> {
  const applied = sql`select max(created_at) from drizzle.__drizzle_migrations`
  const [[row]] = (await database([applied]).catch(error => {
    // The table of migrations is missing, or nothing has been granted to this login yet.
    throw ['42P01', '42501'].includes((error as { code?: string }).code ?? '')
      ? fail('not_ready', { cause: error })
      : error
  })) as [[string[]]]
  if (Number(row[0]) < newest.when) throw fail('not_ready')
  return newest.tag
}

export const healthRoutes = slice('Health', 'For load balancers and for people.')
  .get('/healthz', {
    id: 'health',
    summary: 'Is the process alive; asks no database',
    reply: Health,
    open: c => c.json({ status: 'ok' }),
  })
  .get('/readyz', {
    id: 'readiness',
    summary: 'Does the database answer, with the schema that this build expects',
    reply: Readiness,
    errors: ['not_ready', 'database_unavailable'],
    open: async (c, { database }) => c.json({ status: 'ready', migration: await recentReadiness(database) }),
  })
