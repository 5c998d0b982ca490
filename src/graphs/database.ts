// The connections of one copy: a pool, and one connection that listens.
import pg from 'pg'
import { MIGRATIONS } from './migrations.ts'

// biome-ignore lint/suspicious/noExplicitAny: the statement names the columns.
export type Row = Record<string, any>
export type Query = <Result extends Row = Row>(text: string, values?: unknown[]) => Promise<Result[]>
export type Database = {
  query: Query
  transaction<Result>(work: (query: Query) => Promise<Result>): Promise<Result>
  /** Serializes a step of the start between copies. */
  inLock<Result>(name: string, work: () => Promise<Result>): Promise<Result>
  close(): Promise<void>
}

/** Names of statements, so that Postgres parses and plans each once for a connection. */
const names = new Map<string, string>()
/** Searches with filters have many texts, which would fill the memory of each connection. */
const MOST_NAMES = 200
function nameOf(text: string): string | undefined {
  const known = names.get(text)
  if (known !== undefined || names.size >= MOST_NAMES) return known
  const name = `graphs_${names.size}`
  names.set(text, name)
  return name
}

const queryWith =
  (client: pg.Pool | pg.ClientBase): Query =>
  async <Result extends Row>(text: string, values?: unknown[]) => {
    const name = values && nameOf(text)
    return (await client.query<Result>({ text, ...(values && { values }), ...(name && { name }) })).rows
  }

/** A statement that takes longer would hold a connection, and locks of others. */
const STATEMENT_MS = 30_000
/** Without an answer, the server or the network is gone: later than the database itself would end the statement. */
const ANSWER_MS = 40_000

const LIMITS: pg.PoolConfig = {
  statement_timeout: STATEMENT_MS,
  idle_in_transaction_session_timeout: STATEMENT_MS,
  query_timeout: ANSWER_MS,
  connectionTimeoutMillis: STATEMENT_MS,
}

export function openDatabase(url: string, limits: pg.PoolConfig = LIMITS): Database {
  const pool = new pg.Pool({ connectionString: url, max: 10, application_name: 'graphs', ...limits })
  // A lost idle connection is replaced by the pool; a query that fails reports its own error.
  pool.on('error', error => console.error(`database connection lost: ${error.message}`))
  // One that is lost between the statements of a transaction has no listener of the pool, which would end the server.
  pool.on('connect', client => client.on('error', () => {}))

  async function transaction<Result>(work: (query: Query) => Promise<Result>): Promise<Result> {
    const client = await pool.connect()
    let isBroken = false
    try {
      await client.query('begin')
      const result = await work(queryWith(client))
      await client.query('commit')
      return result
    } catch (error) {
      await client.query('rollback').catch(() => {
        isBroken = true
      })
      throw error
    } finally {
      client.release(isBroken)
    }
  }

  /** Polls: a statement that waits would block `create index concurrently` of a saver's migrations. */
  async function inLock<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const client = await pool.connect()
    const query = queryWith(client)
    try {
      for (;;) {
        const [row] = await query('select pg_try_advisory_lock(hashtext($1)) as locked', [`graphs ${name}`])
        if (row!.locked) break
        await new Promise(resolve => setTimeout(resolve, 100))
      }
      try {
        return await work()
      } finally {
        await query('select pg_advisory_unlock(hashtext($1))', [`graphs ${name}`])
      }
    } finally {
      client.release()
    }
  }

  return { query: queryWith(pool), transaction, inLock, close: () => pool.end() }
}

/** The rows of a select, refused as a whole if they have too many bytes. `others`: expressions that it reads. */
export const withinAnswer = (select: string, ...others: string[]) => `
    with ${[...others, `page as materialized (${select})`].join(', ')}
    select page.*
    from page
    where (select graphs.admit_answer(count(*), sum(octet_length(page::text))) from page)`

/** The code of an error of Postgres, or nothing. */
const codeOf = (error: unknown): string => String((error as { code?: unknown })?.code ?? '')

/** Codes of class 22 are about the data of a statement, of class 54 about its size. */
export const isDataError = (error: unknown): error is Error => /^(?:22|54)/.test(codeOf(error))

/** Rows that `graphs.admit_answer` refused, with a sentence for the caller. */
export const isTooLong = (error: unknown): error is Error => codeOf(error) === 'GL413'

/** A statement was ended, or there was no connection for it. The driver has words for these, and no codes. */
export const isTimeout = (error: unknown): boolean =>
  codeOf(error) === '57014' || /timeout/i.test(error instanceof Error ? error.message : '')

/** Without limits of time: an index of a large table takes long. */
export async function migrate(url: string): Promise<void> {
  const database = openDatabase(url, { max: 2 })
  try {
    await database.inLock('migrations', () => applyMigrations(database))
  } finally {
    await database.close()
  }
}

async function applyMigrations(database: Database): Promise<void> {
  await database.query('create schema if not exists graphs')
  await database.query(`create table if not exists graphs.migrations (
    version int primary key,
    applied_at timestamptz not null default now()
  )`)
  const applied = new Set((await database.query('select version from graphs.migrations')).map(row => row.version))
  for (const [version, sql] of MIGRATIONS.entries()) {
    if (applied.has(version)) continue
    await database.transaction(async query => {
      await query(sql)
      await query('insert into graphs.migrations (version) values ($1)', [version])
    })
  }
}

const CHANNELS = ['graphs_runs', 'graphs_events', 'graphs_control', 'graphs_quiet'] as const
export type Channel = (typeof CHANNELS)[number]

/** Listens until it is closed, with a new connection whenever the last one is lost. */
export function listen(url: string, onNotification: (channel: Channel, payload: string) => void) {
  let client: pg.Client | undefined
  let isClosed = false
  async function connect(): Promise<void> {
    const next = new pg.Client({ connectionString: url, keepAlive: true, application_name: 'graphs listener' })
    client = next
    let isLost = false
    const reconnect = (reason: string) => {
      if (isLost || isClosed) return
      isLost = true
      console.error(`listener lost, connecting again in a second: ${reason}`)
      next.end().catch(() => {})
      setTimeout(() => void connect(), 1000)
    }
    next.on('error', error => reconnect(error.message))
    next.on('end', () => reconnect('the connection ended'))
    next.on('notification', ({ channel, payload }) => onNotification(channel as Channel, payload ?? ''))
    try {
      await next.connect()
      await next.query(CHANNELS.map(channel => `listen ${channel}`).join('; '))
    } catch (error) {
      reconnect((error as Error).message)
    }
  }
  return {
    ready: connect(),
    async close() {
      isClosed = true
      await client?.end().catch(() => {})
    },
  }
}
