// Owns the way from a Node process to any Postgres: straight to Neon's, through a gateway in this process to others.
import { SettingsError } from '../env.ts'
import type { Database } from '../kernel/db.ts'
import type { Failure } from '../kernel/errors.ts'
import { readiness } from '../kernel/health.ts'
import { createGateway, type GatewayOptions, speaksHttp } from './gateway.ts'

export function reach(databaseUrl: string, options: Omit<GatewayOptions, 'databaseUrl'> = {}) {
  const gateway = speaksHttp(databaseUrl) ? undefined : createGateway({ ...options, databaseUrl })
  return {
    database: { url: gateway?.connectionString ?? databaseUrl, gateway: undefined },
    via: gateway?.fetch as typeof fetch | undefined,
    gateway,
    close: async () => gateway?.close(),
  }
}

/** Refuses, in one sentence, a database that does not answer or is older than this build. */
export async function requireReady(database: Database): Promise<void> {
  try {
    await readiness(database)
  } catch (error) {
    const { code, cause } = error as Failure
    throw new SettingsError(
      code === 'not_ready'
        ? 'The database of DATABASE_URL is older than this build: run `npm run db:migrate` first.'
        : `DATABASE_URL leads to no database that answers: ${reasonOf(cause ?? error)}.`,
    )
  }
}

/** The driver wraps what the gateway says, and hides why a fetch failed. */
function reasonOf(error: unknown): string {
  const { message, sourceError } = error as Error & { sourceError?: Error }
  if (sourceError) return String((sourceError.cause as Error)?.message ?? sourceError.message)
  const said = message.match(/"message":("(?:[^"\\]|\\.)*")/)?.[1]
  return said ? JSON.parse(said) : message
}
