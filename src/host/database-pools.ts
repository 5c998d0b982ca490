// The connections of a process to Postgres, for two logins, with the shares of their users.
import pg from 'pg'
import { prepareValue } from 'pg/lib/utils.js'
import { type ConnectionShares, createConnectionShares } from '../kernel/limits/connection-shares.ts'
import { ShareExhausted } from '../kernel/limits/shares.ts'
import { type DatabaseConnections, type SendingUse, type SendStatements, StatementError } from '../platform.ts'
import { type Cancellation, cancelSoon } from './cancel-statement.ts'
import { type Preparing, type Result, runPipeline, type Statement } from './pipeline.ts'

export type PoolOptions = {
  databaseUrl: string
  /** Another login of the same database. Without it, both share one pool. */
  systemUrl?: string
  poolSize?: number
  /** Milliseconds. */
  statementTimeout?: number
  onTrip?: (trip: { queries: Statement[] }) => void
  rewrite?: (sql: string) => string
  /** By default, Postgres keeps statements parsed on each connection, unless a pooler loses them. */
  prepares?: boolean
  /** Called once, when a pooler has lost prepared statements. */
  onStatementsLost?: () => void
}

export type Login = 'app' | 'system'
export type DatabasePools = {
  /**
   * Runs the statements in one transaction. Rejects with the error of Postgres, with `ShareExhausted`, or with a
   * `DatabaseUnavailableError`.
   */
  run(login: Login, statements: Statement[], use: SendingUse, signal: AbortSignal | undefined): Promise<Result[]>
  /** The same for the app in this process. */
  connections: DatabaseConnections
  /** Connections of the pools, and trips that wait for their share of them. */
  poolState(): { open: number; idle: number; waiting: number }
  close(): Promise<void>
}
/** The pool never queues, because its shares are as many as its connections. */
type SharedPool = { pool: pg.Pool; shares: ConnectionShares; url: string; answerTimeout: number }

const CONNECT_TIMEOUT = 5000
/** SQLSTATEs that end the connection: connection exceptions, shutdowns, too many connections. */
const CONNECTION_GONE = /^(08(?!P01)|57P|53300|25P0[34])/
const BOOLEAN = 16

export function openPools({
  databaseUrl,
  systemUrl = databaseUrl,
  poolSize = 10,
  statementTimeout = 10_000,
  onTrip,
  rewrite,
  ...options
}: PoolOptions): DatabasePools {
  const open = (url: string): SharedPool => ({
    url,
    pool: openPool(url, poolSize, statementTimeout),
    shares: createConnectionShares(poolSize),
    // The server's own timeout comes first. This one is for a server that no longer answers.
    answerTimeout: statementTimeout + CONNECT_TIMEOUT,
  })
  const app = open(databaseUrl)
  const poolOf = { app, system: systemUrl === databaseUrl ? app : open(systemUrl) }
  const pools = [...new Set(Object.values(poolOf))]
  let preparing: Preparing = options.prepares === false ? undefined : { onLost: stopPreparing }
  function stopPreparing(): void {
    if (preparing) options.onStatementsLost?.()
    preparing = undefined
  }

  async function run(login: Login, given: Statement[], use: SendingUse, signal: AbortSignal | undefined) {
    const queries = rewrite ? given.map(one => ({ ...one, query: rewrite(one.query) })) : given
    onTrip?.({ queries })
    return runStatements(poolOf[login], queries, preparing, use, signal)
  }

  const sendAs =
    (login: Login): SendStatements =>
    async (statements, use, signal) => {
      const queries = statements.map(({ sql, params }) => ({ query: sql, params: params.map(prepareValue) }))
      const results = await rejectOnAbort(run(login, queries, use, signal), signal).catch((error: unknown) => {
        throw toStatementError(error)
      })
      return results.map(readRows)
    }

  return {
    run,
    connections: { app: sendAs('app'), system: sendAs('system') },
    poolState() {
      const total = (count: (one: SharedPool) => number) => pools.reduce((sum, one) => sum + count(one), 0)
      return {
        open: total(one => one.pool.totalCount),
        idle: total(one => one.pool.idleCount),
        waiting: total(one => one.shares.waiting()),
      }
    },
    async close() {
      await Promise.all(pools.map(each => each.pool.end()))
    },
  }
}

function readRows({ rows, fields }: Result): unknown[][] {
  const booleans = fields.flatMap(({ dataTypeID }, i) => (dataTypeID === BOOLEAN ? [i] : []))
  if (booleans.length === 0) return rows
  return rows.map((row: unknown[]) => {
    for (const i of booleans) if (row[i] !== null) row[i] = row[i] === 't'
    return row
  })
}

function toStatementError(error: unknown): unknown {
  if (error instanceof ShareExhausted) return new StatementError(BUSY, error)
  return error instanceof pg.DatabaseError && error.code ? new StatementError(error as DatabaseAnswer, error) : error
}
type DatabaseAnswer = pg.DatabaseError & { code: string }

/** A refusal with a code of ours, as functions of the database make them. Its detail is the time to wait. */
export const BUSY = { code: 'SW000', message: 'database_busy', detail: '1' }

function openPool(connectionString: string, max: number, statementTimeout: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString,
    max,
    keepAlive: true,
    idleTimeoutMillis: 60_000,
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    statement_timeout: statementTimeout,
  })
  // A broken connection fails its own query. Without a listener it would also end the process.
  pool.on('error', () => {})
  pool.on('connect', client => client.on('error', () => {}))
  return pool
}

async function runStatements(
  { pool, shares, url, answerTimeout }: SharedPool,
  statements: Statement[],
  preparing: Preparing,
  use: SendingUse,
  signal: AbortSignal | undefined,
): Promise<Result[]> {
  const release = shares.tryTake(use) ?? (await shares.take(use, signal))
  try {
    const client = await pool.connect().catch(error => {
      throw new DatabaseUnavailableError(error)
    })
    const heldSince = Date.now()
    // Not `query_timeout` of node-postgres, whose callback would keep the rows in memory (see `Pipeline`).
    const timer = setTimeout(() => client.end(), answerTimeout)
    return await runOnClient(client, statements, preparing, url, signal).finally(() => {
      clearTimeout(timer)
      use.onReleased?.(Date.now() - heldSince)
    })
  } finally {
    release()
  }
}

/** An abandoned trip is cancelled. It keeps its connection, and its share, until Postgres has ended it. */
async function runOnClient(
  client: pg.PoolClient,
  statements: Statement[],
  preparing: Preparing,
  url: string,
  signal: AbortSignal | undefined,
): Promise<Result[]> {
  let cancellation: Cancellation | undefined
  const cancel = () => {
    cancellation = cancelSoon(client, url)
  }
  signal?.addEventListener('abort', cancel)
  if (signal?.aborted) cancel()
  const stopCancelling = () => {
    signal?.removeEventListener('abort', cancel)
    return cancellation?.stop() === true
  }
  try {
    const results = await runPipeline(client, statements, preparing)
    if (stopCancelling()) {
      client.release(true)
      return results
    }
    // The next caller must not inherit a transaction that was left open.
    if (client.getTransactionStatus() !== 'I') await client.query('ROLLBACK')
    client.release()
    return results
  } catch (error) {
    const isUsable = !stopCancelling() && error instanceof pg.DatabaseError && !CONNECTION_GONE.test(error.code ?? '')
    const rolledBack = isUsable && (await client.query('ROLLBACK').catch(() => false))
    client.release(!rolledBack)
    throw isUsable ? error : new DatabaseUnavailableError(error)
  }
}

/** Rejects at once for an aborted caller, as over HTTP, while the statements are cancelled. */
function rejectOnAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** No connection to the database, or it was lost. The same request may succeed later. */
export class DatabaseUnavailableError extends Error {
  readonly code: string
  constructor(cause: unknown) {
    super((cause instanceof Error && cause.message) || 'The database cannot be reached', { cause })
    this.code = (cause instanceof pg.DatabaseError && cause.code) || '08006'
  }
}
