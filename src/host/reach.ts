// Owns the way from a Node process to any Postgres: straight to Neon's, through a gateway in this process to others.
import { sql } from 'drizzle-orm'
import { SettingsError } from '../env.ts'
import type { Database } from '../kernel/db.ts'
import type { Failure } from '../kernel/errors.ts'
import { readiness } from '../kernel/health.ts'
import { createGateway, type GatewayOptions, speaksHttp } from './gateway.ts'

/** What a gateway may be told besides where the database is. */
export type OpenGateway = Omit<GatewayOptions, 'databaseUrl' | 'systemUrl'>

type Addresses = { url: string; systemUrl?: string }

export function reach({ url, systemUrl = url }: Addresses, options: OpenGateway = {}) {
  const gateway = speaksHttp(url) ? undefined : createGateway({ ...options, databaseUrl: url, systemUrl })
  return {
    database: {
      url: gateway?.connectionString ?? url,
      systemUrl: gateway?.systemConnectionString ?? systemUrl,
      gateway: undefined,
    },
    via: gateway?.fetch as typeof fetch | undefined,
    gateway,
    close: async () => gateway?.close(),
  }
}

type Name = 'DATABASE_URL' | 'DATABASE_SYSTEM_URL'

/** Refuses, in one sentence, a database that does not answer or is older than this build. */
export async function requireReady(database: Database, name: Name = 'DATABASE_URL'): Promise<void> {
  await readiness(database).catch(error => {
    throw (error as Failure).code === 'not_ready'
      ? new SettingsError(`The database of ${name} is older than this build: run \`npm run db:migrate\` first.`)
      : unanswered(name, error)
  })
}

const ROLES = { DATABASE_URL: 'slipway_app', DATABASE_SYSTEM_URL: 'slipway_system' }

/**
 * Refuses, in one sentence, a login that cannot become the role it is for. `name` is the setting that has its
 * address.
 */
export async function requireRole(database: Database, wanted: Name, name: Name = wanted): Promise<void> {
  const role = ROLES[wanted]
  const trip = wanted === 'DATABASE_URL' ? database : database.asSystem
  await trip([sql`select set_config('role', ${role}, true)`]).catch(error => {
    throw (error as { code?: string }).code === '42501'
      ? new SettingsError(
          `The login of ${name} cannot become ${role}. Set ${wanted} to the address that \`npm run db:logins\` prints.`,
        )
      : unanswered(name, error)
  })
}

const unanswered = (name: Name, error: unknown): SettingsError =>
  new SettingsError(`${name} leads to no database that answers: ${reasonOf((error as Failure).cause ?? error)}.`)

/** The driver wraps what the gateway says, and hides why a fetch failed. */
function reasonOf(error: unknown): string {
  const { message, sourceError } = error as Error & { sourceError?: Error }
  if (sourceError) return String((sourceError.cause as Error)?.message ?? sourceError.message)
  const said = message.match(/"message":("(?:[^"\\]|\\.)*")/)?.[1]
  return said ? JSON.parse(said) : message
}
