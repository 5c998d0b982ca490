// `npm run db:generate`: writes the migration that brings a database to the tables of each slice and to the files of
// drizzle/functions and drizzle/policies, and drizzle/schema.sql.
import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate, readMigrations } from '../../src/host/migrate.ts'
import { addressOf, compareWithFiles, DRIZZLE, readSchema, withClient } from './compare.ts'

const USAGE = `npm run db:generate -- --name add_deployment_note [--custom]

Writes the next migration: what changed in the tables, drizzle/functions and drizzle/policies. With --custom, it writes
an empty one if nothing changed. Then it writes drizzle/schema.sql.`

const { values } = parseArgs({
  options: {
    name: { type: 'string' },
    custom: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

async function generate(): Promise<void> {
  if (values.help) return console.log(USAGE)
  const before = lastMigration()
  runDrizzleKit(values.custom)
  const folder = mkdtempSync(join(tmpdir(), 'slipway-schema-'))
  const postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })
  try {
    const changes = await compareWithFiles(await createMigrated(postgres.url, 'before'))
    if (changes) {
      if (lastMigration() === before) runDrizzleKit(true)
      appendFileSync(join(DRIZZLE, `${lastMigration()}.sql`), `--> statement-breakpoint\n${changes}`)
    }
    keepLastSnapshot()
    writeFileSync(join(DRIZZLE, 'schema.sql'), await readSchema(await createMigrated(postgres.url, 'after')))
  } finally {
    await postgres.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  const name = lastMigration()
  console.log(
    name === before ? 'No migration is needed.' : `Read drizzle/${name}.sql, and keep docs/design/migrations.md.`,
  )
}

async function createMigrated(server: string, name: string): Promise<string> {
  await withClient(server, client => client.query(`create database ${name}`))
  const url = addressOf(server, name)
  await migrate(url, { log: () => {} })
  return url
}

const lastMigration = () => readMigrations().at(-1)!.name

function runDrizzleKit(isCustom: boolean): void {
  const name = values.name ? ['--name', values.name] : []
  const args = ['drizzle-kit', 'generate', '--config', 'drizzle/config.ts', ...name, ...(isCustom ? ['--custom'] : [])]
  execFileSync('npx', args, { stdio: 'inherit' })
}

/** drizzle-kit compares with the last one alone. */
function keepLastSnapshot(): void {
  const folder = join(DRIZZLE, 'meta')
  const snapshots = readdirSync(folder).filter(name => name.endsWith('_snapshot.json'))
  for (const name of snapshots.sort().slice(0, -1)) rmSync(join(folder, name))
}

await generate()
