// A Postgres data folder with all migrations in the database `postgres`. Runs copy it, and it is made again when the
// migrations, what applies them, or the binaries change.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { copyDataFolder } from './postgres.ts'

const ROOT = join(import.meta.dirname, '../..')
const CACHE = join(ROOT, 'node_modules/.cache')
const PREFIX = 'postgres-'
const SOURCES = [
  'drizzle',
  'src/postgres',
  ...['embedded-postgres', 'migrate', 'migration-plan', 'migration-steps'].map(name => `src/host/${name}.ts`),
  'package-lock.json',
]

function hashSources(): string {
  const hash = createHash('sha256')
  const add = (path: string): void => {
    if (!statSync(join(ROOT, path)).isDirectory()) hash.update(path).update(readFileSync(join(ROOT, path)))
    else for (const name of readdirSync(join(ROOT, path)).sort()) add(`${path}/${name}`)
  }
  for (const path of SOURCES) add(path)
  return hash.digest('hex').slice(0, 16)
}

export async function findTemplateFolder(): Promise<string> {
  const name = PREFIX + hashSources()
  const folder = join(CACHE, name)
  if (existsSync(folder)) return folder
  const work = await mkdtemp(join(tmpdir(), 'slipway-template-'))
  const copy = `${folder}-${process.pid}`
  try {
    const postgres = await startPostgres({ dataDir: join(work, 'data'), durable: false })
    await migrate(postgres.url, { log: () => {} }).finally(() => postgres.stop())
    await mkdir(copy, { recursive: true })
    await copyDataFolder(join(work, 'data'), copy)
    await rename(copy, folder)
  } catch (error) {
    // Another run may have made it meanwhile.
    if (!existsSync(folder)) throw error
  } finally {
    await Promise.all([work, copy].map(path => rm(path, { recursive: true, force: true, maxRetries: 9 })))
  }
  for (const other of await readdir(CACHE))
    if (other.startsWith(PREFIX) && !other.startsWith(name))
      await rm(join(CACHE, other), { recursive: true, force: true, maxRetries: 9 })
  return folder
}
