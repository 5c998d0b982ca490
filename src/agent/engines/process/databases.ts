// A role and a database per deployment on one Postgres server. No other application may connect to it.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { PostgresServer } from './postgres-server.ts'

/** The record exists from before the database is created until it is dropped. */
export type Database = {
  /** The name of both the role and the database: pg_hba.conf lets a role enter only the database of its name. */
  name: string
  password: string
  /** The value of DATABASE_URI; null before the database was ready. */
  uri: string | null
  connections: number
  storage_gi: number
  /** True while it is read-only because it exceeds its storage limit. */
  full: boolean
}

const GIB = 1024 ** 3
const QUERY_TIMEOUT_MS = 30_000

export const newDatabase = (deployment_id: string, limits: Pick<Database, 'connections' | 'storage_gi'>): Database => ({
  name: `app_${deployment_id.replaceAll('-', '')}`,
  password: randomBytes(24).toString('base64url'),
  uri: null,
  full: false,
  ...limits,
})

export class Databases {
  readonly #server: PostgresServer

  constructor(server: PostgresServer) {
    this.#server = server
  }

  /** Creates or updates the role and the database, and returns the database's URL. */
  async ensure({ name, password, connections }: Database): Promise<string> {
    const role = `login connection limit ${connections} password '${password}'`
    const admin = await this.#server.open()
    await withClient(admin, async query => {
      const [existing] = await query<{ role: boolean; database: boolean }>(
        `select exists (select from pg_roles where rolname = '${name}') as role,
                exists (select from pg_database where datname = '${name}') as database`,
      )
      await query(`${existing!.role ? 'alter' : 'create'} role ${name} ${role}`)
      // An admin without superuser rights may terminate only connections of roles that it is a member of.
      await query(`grant ${name} to current_user`)
      // The admin owns the database, because an owner could grant access to other roles.
      if (!existing!.database) await query(`create database ${name}`)
      await query(`revoke all on database ${name} from public`)
      await query(`grant connect, create, temporary on database ${name} to ${name}`)
    })
    await withClient(databaseUrl(admin, name), query => query(`grant all on schema public to ${name}`))
    return databaseUrl(admin, name, `${name}:${password}`)
  }

  async drop({ name }: Database): Promise<void> {
    await withClient(await this.#server.open(), async query => {
      await query(`drop database if exists ${name} with (force)`)
      await query(`drop role if exists ${name}`)
    })
  }

  /** The size of each database on disk, in GiB. */
  async sizes(): Promise<Map<string, number>> {
    const rows = await withClient(await this.#server.open(), query =>
      query<{ name: string; bytes: string }>(
        `select datname as name, pg_database_size(oid) as bytes from pg_database where datname like 'app\\_%'`,
      ),
    )
    return new Map(rows.map(({ name, bytes }) => [name, Number(bytes) / GIB]))
  }

  /** Ends all connections of the role, because the setting applies to new sessions only. */
  async setReadOnly({ name }: Database, full: boolean): Promise<void> {
    await withClient(await this.#server.open(), async query => {
      await query(
        `alter role ${name} ${full ? 'set default_transaction_read_only = on' : 'reset default_transaction_read_only'}`,
      )
      await query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${name}'`)
    })
  }
}

/** The admin's URL with another database and, if given, other credentials (`role:password`). */
function databaseUrl(adminUrl: string, database: string, credentials?: string): string {
  const { username, password, host, search } = new URL(adminUrl)
  const adminCredentials = password ? `${username}:${password}` : username
  return `postgresql://${credentials ?? adminCredentials}@${host}/${database}${search}`
}

const explainError = (problem: string) => (error: Error) => {
  const message = `The Postgres server of this agent ${problem}: ${error.message.replace(/\.$/, '')}.`
  throw new Error(`${message} Ask the operator to check it.`)
}

type RunQuery = <Row extends object>(sql: string) => Promise<Row[]>
async function withClient<T>(url: string, work: (query: RunQuery) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    query_timeout: QUERY_TIMEOUT_MS,
    application_name: 'slipway-agent',
  })
  client.on('error', () => {})
  const query: RunQuery = async <Row extends object>(sql: string) =>
    (await client.query<Row>(sql).catch(explainError('rejected a statement'))).rows
  await client.connect().catch(explainError('is unreachable'))
  try {
    return await work(query)
  } finally {
    await client.end().catch(() => {})
  }
}
