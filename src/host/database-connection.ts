// Owns the way from a Node process to any Postgres: straight to Neon's, through a gateway in this process to others.
import { sql } from 'drizzle-orm'
import { SettingsError } from '../env.ts'
import type { Database } from '../kernel/db.ts'
import type { Failure } from '../kernel/errors.ts'
import { checkReadiness } from '../kernel/health.ts'
import { createGateway, type GatewayOptions, isNeonUrl } from './gateway.ts'

/** What a gateway may be told besides where the database is. */
export type GatewaySettings = Omit<GatewayOptions, 'databaseUrl' | 'systemUrl'>

type Addresses = { url: string; systemUrl?: string }

export function openDatabase({ url, systemUrl = url }: Addresses, options: GatewaySettings = {}) {
  const gateway = isNeonUrl(url) ? undefined : createGateway({ ...options, databaseUrl: url, systemUrl })
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

type DatabaseSetting = 'DATABASE_URL' | 'DATABASE_SYSTEM_URL'

/** Refuses, in one sentence, a database that does not answer or is older than this build. */
export async function requireReady(database: Database, name: DatabaseSetting = 'DATABASE_URL'): Promise<void> {
  await checkReadiness(database).catch(error => {
    throw (error as Failure).code === 'not_ready'
      ? new SettingsError(`The database of ${name} is older than this build: run \`npm run db:migrate\` first.`)
      : noAnswerError(name, error)
  })
}

const ROLES = { DATABASE_URL: 'slipway_app', DATABASE_SYSTEM_URL: 'slipway_system' }

/**
 * Refuses, in one sentence, a login that cannot become the role it is for. `name` is the setting that has its
 * address.
 */
export async function requireRole(
  database: Database,
  wanted: DatabaseSetting,
  name: DatabaseSetting = wanted,
): Promise<void> {
  const role = ROLES[wanted]
  const trip = wanted === 'DATABASE_URL' ? database : database.asSystem
  await trip([sql`select set_config('role', ${role}, true)`]).catch(error => {
    throw (error as { code?: string }).code === '42501'
      ? new SettingsError(
          `The login of ${name} cannot become ${role}. Set ${wanted} to the address that \`npm run db:logins\` prints.`,
        )
      : noAnswerError(name, error)
  })
}

const noAnswerError = (name: DatabaseSetting, error: unknown): SettingsError =>
  new SettingsError(`${name} leads to no database that answers: ${driverReason((error as Failure).cause ?? error)}.`)

/** The driver wraps what the gateway says, and hides why a fetch failed. */
function driverReason(error: unknown): string {
  const { message, sourceError } = error as Error & { sourceError?: Error }
  if (sourceError) return String((sourceError.cause as Error)?.message ?? sourceError.message)
  const said = message.match(/"message":("(?:[^"\\]|\\.)*")/)?.[1]
  return said ? JSON.parse(said) : message
}
