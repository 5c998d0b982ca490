// Postgres with all migrations, for one file of tests: a database of the run's shared server, or a server of its own.
import { inject } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { copyDataFolder } from './postgres.ts'

async function askSetup(method: 'GET' | 'POST'): Promise<string> {
  const response = await fetch(inject('postgresTemplate'), { method })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

/** Returns its URL, with the login of the owner. It is removed at the end of the run. */
export const createMigratedDatabase = (): Promise<string> => askSetup('POST')

export async function copyPostgresTemplate(dataDir: string): Promise<void> {
  await copyDataFolder(await askSetup('GET'), dataDir)
}

/** Starts a server that a test may stop or restart. */
export async function startMigratedPostgres(dataDir: string): Promise<Postgres> {
  await copyPostgresTemplate(dataDir)
  return startPostgres({ dataDir, durable: false })
}
