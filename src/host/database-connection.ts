// Connects a process to Postgres: to Neon over HTTP, to any other by a pool of connections.
import { sql } from 'drizzle-orm'
import { SettingsError } from '../env.ts'
import { connect, type Database } from '../kernel/db/db.ts'
import type { Failure } from '../kernel/http/errors.ts'
import { checkReadiness } from '../kernel/http/readiness.ts'
import { openPools, type PoolOptions } from './database-pools.ts'

export type PoolSettings = Omit<PoolOptions, 'databaseUrl' | 'systemUrl'>

type Addresses = { url: string; systemUrl?: string }

/** Neon's own hosts speak its protocol over HTTP. */
export const isNeonUrl = (databaseUrl: string): boolean => /\.neon\.(tech|build)$/.test(new URL(databaseUrl).hostname)

export function openDatabase({ url, systemUrl = url }: Addresses, options: PoolSettings = {}) {
  const pools = isNeonUrl(url) ? undefined : openPools({ ...options, databaseUrl: url, systemUrl })
  return { database: { url, systemUrl, gateway: undefined }, pools, close: async () => pools?.close() }
}

type DatabaseSetting = 'DATABASE_URL' | 'DATABASE_SYSTEM_URL'

/** Throws if the database does not answer or lacks migrations of this build. */
export async function requireReady(database: Database, name: DatabaseSetting = 'DATABASE_URL'): Promise<void> {
  await checkReadiness(database).catch(error => {
    const { code, extra } = error as Failure
    if (code !== 'not_ready') throw unusableError(name, error)
    throw new SettingsError(
      extra.detail ?? `The database of ${name} is older than this build. Run \`npm run db:migrate\` first.`,
    )
  })
}

const ROLES = { DATABASE_URL: 'slipway_app', DATABASE_SYSTEM_URL: 'slipway_system' }

/** Throws if the login cannot become its role. `name` is the setting with its address. */
export async function requireRole(
  database: Database,
  setting: DatabaseSetting,
  name: DatabaseSetting = setting,
): Promise<void> {
  const role = ROLES[setting]
  const trip = setting === 'DATABASE_URL' ? database : database.asSystem
  await trip([sql`select set_config('role', ${role}, true)`]).catch(error => {
    throw (error as { code?: string }).code === '42501'
      ? new SettingsError(
          `The login of ${name} cannot become ${role}. ` +
            `Set ${setting} to the address that \`npm run db:logins\` prints.`,
        )
      : unusableError(name, error)
  })
}

/** For a command of the operator. Throws if the database is not ready, or the login cannot become slipway_system. */
export async function openSystemDatabase(url: string, name: DatabaseSetting) {
  const { database: address, pools, close } = openDatabase({ url }, { poolSize: 1 })
  try {
    const database = connect({ database: address }, pools?.connections)
    await requireReady(database, name)
    await requireRole(database, 'DATABASE_SYSTEM_URL', name)
    return { database, close }
  } catch (error) {
    await close()
    throw error
  }
}

const unusableError = (name: DatabaseSetting, error: unknown): SettingsError =>
  new SettingsError(
    `The database of ${name} cannot be used: ${driverReason((error as Failure).cause ?? error)}. ` +
      `Check the address in ${name}, and whether its Postgres runs.`,
  )

/** Neon's driver hides why a fetch failed. */
function driverReason(error: unknown): string {
  const { message, sourceError } = error as Error & { sourceError?: Error }
  return String((sourceError?.cause as Error | undefined)?.message ?? sourceError?.message ?? message)
}
