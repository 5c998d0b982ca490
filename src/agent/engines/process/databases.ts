// The databases of applications on one Postgres: a role and a database for each deployment, which nobody else enters.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { PostgresServer } from './postgres-server.ts'

/** What is kept of one, from before it is made until it was dropped. */
export type Database = {
  /** Of the role and of the database: by it the server knows which may enter which. */
  name: string
  password: string
  /** What the application is given; null until it was there once. */
  uri: string | null
  connections: number
  storage_gi: number
  /** It has more than it may, and takes no more. */
  full: boolean
}

const GIB = 1024 ** 3
const QUERY_TIMEOUT_MS = 30_000

export const newDatabase = (deployment_id: string, limits: Pick<Database, 'connections' | 'storage_gi'>): Database => ({
  ...{ name: `app_${deployment_id.replaceAll('-', '')}`, password: randomBytes(24).toString('base64url') },
  ...{ uri: null, full: false, ...limits },
})

export class Databases {
  readonly #server: PostgresServer

  constructor(server: PostgresServer) {
    this.#server = server
  }

  /** Made, or made as it is wanted; its address. */
  async ensure({ name, password, connections }: Database): Promise<string> {
    const role = `login connection limit ${connections} password '${password}'`
    const admin = await this.#server.open()
    await withClient(admin, async ask => {
      const [there] = await ask<{ role: boolean; database: boolean }>(
        `select exists (select from pg_roles where rolname = '${name}') as role,
                exists (select from pg_database where datname = '${name}') as database`,
      )
      await ask(`${there!.role ? 'alter' : 'create'} role ${name} ${role}`)
      // Whoever is no superuser may end the connections of those that it belongs to.
      await ask(`grant ${name} to current_user`)
      // An owner could let others in: it may do everything inside, and nothing to the database itself.
      if (!there!.database) await ask(`create database ${name}`)
      await ask(`revoke all on database ${name} from public`)
      await ask(`grant connect, create, temporary on database ${name} to ${name}`)
    })
    await withClient(databaseUrl(admin, name), ask => ask(`grant all on schema public to ${name}`))
    return databaseUrl(admin, name, `${name}:${password}`)
  }

  async drop({ name }: Database): Promise<void> {
    await withClient(await this.#server.open(), async ask => {
      await ask(`drop database if exists ${name} with (force)`)
      await ask(`drop role if exists ${name}`)
    })
  }

  /** Gibibytes that each has on disk. */
  async sizes(): Promise<Map<string, number>> {
    const rows = await withClient(await this.#server.open(), ask =>
      ask<{ name: string; bytes: string }>(
        `select datname as name, pg_database_size(oid) as bytes from pg_database where datname like 'app\\_%'`,
      ),
    )
    return new Map(rows.map(({ name, bytes }) => [name, Number(bytes) / GIB]))
  }

  /** From now on, or no more; whoever is connected connects again. */
  async setReadOnly({ name }: Database, full: boolean): Promise<void> {
    await withClient(await this.#server.open(), async ask => {
      await ask(
        `alter role ${name} ${full ? 'set default_transaction_read_only = on' : 'reset default_transaction_read_only'}`,
      )
      await ask(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${name}'`)
    })
  }
}

/** That address with another database, and another role where one is named. */
function databaseUrl(admin: string, database: string, role?: string): string {
  const { pathname: _, search, ...at } = parseUrl(admin)
  return `postgres://${role ?? at.who}@${at.host}/${database}${search}`
}

function parseUrl(address: string) {
  const { username, password, host, pathname, search } = new URL(address)
  return { who: password ? `${username}:${password}` : username, host, pathname, search }
}

const explainError = (what: string) => (error: Error) => {
  const said = `The Postgres that this agent gives databases from ${what}: ${error.message.replace(/\.$/, '')}.`
  throw new Error(`${said} Ask whoever runs the agent.`)
}

type RunQuery = <Row extends object>(sql: string) => Promise<Row[]>
async function withClient<T>(url: string, work: (ask: RunQuery) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    ...{ connectionString: url, connectionTimeoutMillis: 5_000, query_timeout: QUERY_TIMEOUT_MS },
    application_name: 'slipway-agent',
  })
  client.on('error', () => {})
  const ask: RunQuery = async <Row extends object>(sql: string) =>
    (await client.query<Row>(sql).catch(explainError('refuses'))).rows
  await client.connect().catch(explainError('cannot be reached'))
  try {
    return await work(ask)
  } finally {
    await client.end().catch(() => {})
  }
}
