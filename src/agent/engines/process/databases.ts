// A role and a database per deployment, on a server of its own. Those of earlier agents share one, as those on the
// operator's server do. No other application may connect to it.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { DeploymentServers } from './deployment-servers.ts'
import { embeddedObstacle, externalServer, type PostgresServer, sharedServer } from './postgres-server.ts'

/** The record exists from before the database is created until it is dropped. */
export type Database = {
  /** The name of both the role and the database: pg_hba.conf lets a role enter only the database of its name. */
  name: string
  /** It is on a server of its own. */
  isOwn?: boolean
  password: string
  /** The value of DATABASE_URI; null before the database was ready. */
  uri: string | null
  connections: number
  storage_gi: number
  /** Absent in records of earlier agents. */
  memory_mb?: number
  /** True while it is read-only because it exceeds its storage limit. */
  full: boolean
}

const QUERY_TIMEOUT_MS = 30_000
const DEFAULT_MEMORY_MB = 1024

/** A backup has the name, so that it fits each deployment. */
const OWN_NAME = 'app'

type DatabaseLimits = { connections: number; storage_gi: number; memory_mb: number }
/** `bytes`: on the disk. `connections`: open now. */
export type DatabaseUse = { bytes: number; connections: number }

export class Databases {
  readonly #own: DeploymentServers
  /** The operator's, or the one that earlier agents used. */
  readonly #shared: PostgresServer
  readonly #hasOwn: boolean

  constructor(home: string, own: DeploymentServers, external_url: string | undefined) {
    this.#own = own
    this.#hasOwn = external_url === undefined
    this.#shared = external_url === undefined ? sharedServer(home) : externalServer(external_url)
  }

  /** The reason why there can be no database, as a sentence for the user; null if there can. */
  get obstacle(): string | null {
    return this.#hasOwn ? embeddedObstacle() : null
  }

  /** The operator of another server backs it up. */
  get areBackedUp(): boolean {
    return this.#hasOwn && this.obstacle === null
  }

  create(deployment_id: string, limits: DatabaseLimits): Database {
    const password = randomBytes(24).toString('base64url')
    const name = this.#hasOwn ? OWN_NAME : `app_${deployment_id.replaceAll('-', '')}`
    return { name, isOwn: this.#hasOwn, password, uri: null, full: false, ...limits }
  }

  hasData(deployment_id: string): boolean {
    return this.#own.generationOf(deployment_id) !== undefined
  }

  /** True while the process of its server runs. Does not connect. */
  isUp(deployment_id: string, { isOwn }: Database): boolean {
    return isOwn ? this.#own.isUp(deployment_id) : this.#shared.isUp()
  }

  /** Starts the server if needed, creates or updates the role and the database, and returns the database's URL. */
  async ensure(deployment_id: string, database: Database): Promise<string> {
    const { name, password, connections, full } = database
    if (database.isOwn) this.#own.create(deployment_id)
    const role = `login connection limit ${connections} password '${password}'`
    const admin = await this.#open(deployment_id, database)
    await withClient(admin, async query => {
      const [existing] = await query<{ role: boolean; database: boolean }>(
        `select exists (select from pg_roles where rolname = '${name}') as role,
                exists (select from pg_database where datname = '${name}') as database`,
      )
      await query(`${existing!.role ? 'alter' : 'create'} role ${name} ${role}`)
      // An admin without superuser rights may terminate only connections of roles that it is a member of.
      await query(`grant ${name} to current_user`)
      // A restored role may have the setting of its time.
      await query(`alter role ${name} ${readOnlySetting(full)}`)
      // The admin owns the database, because an owner could grant access to other roles.
      if (!existing!.database) await query(`create database ${name}`)
      await query(`revoke all on database ${name} from public`)
      await query(`grant connect, create, temporary on database ${name} to ${name}`)
    })
    await withClient(databaseUrl(admin, name), query => query(ownSchema(name)))
    return databaseUrl(admin, name, `${name}:${password}`)
  }

  async drop(deployment_id: string, { name, isOwn }: Database): Promise<void> {
    if (isOwn) return this.#own.remove(deployment_id)
    await withClient(await this.#shared.open(), async query => {
      await query(`drop database if exists ${name} with (force)`)
      await query(`drop role if exists ${name}`)
    })
  }

  async measure(deployment_id: string, database: Database): Promise<DatabaseUse | undefined> {
    const [row] = await withClient(await this.#open(deployment_id, database), query =>
      query<{ bytes: string; connections: number }>(
        `select pg_database_size(oid) as bytes,
                (select count(*)::int from pg_stat_activity where datname = '${database.name}') as connections
           from pg_database where datname = '${database.name}'`,
      ),
    )
    return row && { bytes: Number(row.bytes), connections: row.connections }
  }

  /** Ends all connections of the role, because the setting applies to new sessions only. */
  async setReadOnly(deployment_id: string, database: Database, full: boolean): Promise<void> {
    const { name } = database
    await withClient(await this.#open(deployment_id, database), async query => {
      await query(`alter role ${name} ${readOnlySetting(full)}`)
      await query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${name}'`)
    })
  }

  /** The servers run on, for the next agent. */
  release(): Promise<void> {
    return this.#own.release()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#own.stop(), this.#shared.stop()])
  }

  #open(deployment_id: string, { isOwn, connections, memory_mb = DEFAULT_MEMORY_MB }: Database): Promise<string> {
    return isOwn ? this.#own.open(deployment_id, { connections, memory_mb }) : this.#shared.open()
  }
}

/** Its owner may remove it and make it again. */
const ownSchema = (name: string) => `do $$
  begin
    if exists (select from pg_namespace where nspname = 'public') then
      alter schema public owner to ${name};
    end if;
  end
$$`

const readOnlySetting = (full: boolean) =>
  full ? 'set default_transaction_read_only = on' : 'reset default_transaction_read_only'

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
