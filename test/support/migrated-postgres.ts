// Postgres with all migrations, for one file of tests: a database of the run's shared server, or a server of its own.
// Also an empty data folder for the databases of an agent.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { inject } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { copyDataFolder } from './postgres.ts'

async function askSetup(method: 'GET' | 'POST', path = ''): Promise<string> {
  const response = await fetch(inject('postgresTemplate') + path, { method })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

/** Returns its URL, with the login of the owner. It is removed at the end of the run. */
export const createMigratedDatabase = (): Promise<string> => askSetup('POST')

export async function copyPostgresTemplate(dataDir: string): Promise<void> {
  await copyDataFolder(await askSetup('GET'), dataDir)
}

/** In a tenth of the time that initdb takes. By default, it is what the agent of this home copies for each database. */
export async function copyEmptyDatabase(home: string, name = 'databases/template'): Promise<void> {
  const folder = join(home, name)
  await mkdir(folder, { recursive: true, mode: 0o711 })
  await copyDataFolder(await askSetup('GET', '/empty'), folder)
}

/** Starts a server that a test may stop or restart. */
export async function startMigratedPostgres(dataDir: string): Promise<Postgres> {
  await copyPostgresTemplate(dataDir)
  return startPostgres({ dataDir, durable: false })
}
