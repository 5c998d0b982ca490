// Serves the Neon driver's HTTP protocol from a Postgres pool, so all runtimes share one driver and code path.
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { type ConnectionShares, createConnectionShares, USE_HEADERS } from '../kernel/limits/connection-shares.ts'
import { ShareExhausted } from '../kernel/limits/shares.ts'
import type { ConnectionUse, DriverFetch, DriverRequest } from '../platform.ts'
import { type Cancellation, cancelSoon } from './cancel-statement.ts'
import { type Preparing, type Result, runPipeline, type Statement } from './pipeline.ts'

export type GatewayOptions = {
  databaseUrl: string
  /** Another login of the same database. Without it, both share one pool. */
  systemUrl?: string
  poolSize?: number
  /** Milliseconds. */
  statementTimeout?: number
  /** Random by default. Set it to keep connection strings valid across restarts. */
  token?: string
  onTrip?: (trip: { queries: Statement[] }) => void
  rewrite?: (sql: string) => string
  /** By default, Postgres keeps statements parsed on each connection, unless a pooler loses them. */
  prepares?: boolean
  /** Called once, when a pooler has lost prepared statements. */
  onStatementsLost?: () => void
}

export type Gateway = {
  connectionString: string
  systemConnectionString: string
  /** The driver's `fetchFunction`, for use in this process. The answer is handed over as it is, never as text. */
  fetch: DriverFetch
  /** Serves the driver's `fetchEndpoint` over HTTP, on the loopback address only. */
  listen(port?: number): Promise<{ url: string }>
  /** Connections of the pools, and trips that wait for their share of them. */
  poolState(): { open: number; idle: number; waiting: number }
  close(): Promise<void>
}

type Headers = Record<string, string | string[] | undefined>
type Answer = { status: number; body: object }
type Login = 'app' | 'system'
type Use = NonNullable<DriverRequest['use']>
/** The pool never queues, because its shares are as many as its connections. */
type SharedPool = { pool: pg.Pool; shares: ConnectionShares; url: string }

const BODY_LIMIT = 32 * 1024 * 1024
const CONNECT_TIMEOUT = 5000
/** SQLSTATEs that end the connection: connection exceptions, shutdowns, too many connections. */
const CONNECTION_GONE = /^(08(?!P01)|57P|53300|25P0[34])/
const ISOLATION = new Map([
  ['ReadUncommitted', 'READ UNCOMMITTED'],
  ['ReadCommitted', 'READ COMMITTED'],
  ['RepeatableRead', 'REPEATABLE READ'],
  ['Serializable', 'SERIALIZABLE'],
])

/** A refusal with a code of ours, as functions of the database make them. Its detail is the time to wait. */
const BUSY: Answer = { status: 400, body: { code: 'SW000', message: 'database_busy', detail: '1' } }
const UNAUTHORIZED = refusalAnswer(401, '28P01', 'The connection string of this gateway is required')
const TOO_LARGE = refusalAnswer(413, '54000', `A request may have at most ${BODY_LIMIT} bytes`)
const MALFORMED = refusalAnswer(400, '08P01', 'This is not a request of the Neon driver')

/** The connection string of a gateway with this token. It can be computed before the gateway starts. */
export const gatewayConnectionString = (token: string, login: 'app' | 'system' = 'app'): string =>
  `postgresql://${login}:${encodeURIComponent(token)}@localhost/slipway`

/** Neon's own hosts speak the protocol themselves. */
export const isNeonUrl = (databaseUrl: string): boolean => /\.neon\.(tech|build)$/.test(new URL(databaseUrl).hostname)

export function createGateway({
  databaseUrl,
  systemUrl = databaseUrl,
  poolSize = 10,
  statementTimeout = 10_000,
  ...options
}: GatewayOptions): Gateway {
  const token = options.token || randomBytes(24).toString('base64url')
  const connectionString = gatewayConnectionString(token)
  const key = sha256Digest(new URL(connectionString).password)
  const open = (url: string): SharedPool => ({
    url,
    pool: openPool(url, poolSize, statementTimeout),
    shares: createConnectionShares(poolSize),
  })
  const pool = open(databaseUrl)
  const systemPool = systemUrl === databaseUrl ? pool : open(systemUrl)
  const pools = [...new Set([pool, systemPool])]
  let preparing: Preparing = options.prepares === false ? undefined : { onLost: stopPreparing }
  function stopPreparing(): void {
    if (preparing) options.onStatementsLost?.()
    preparing = undefined
  }

  /** Any web page and any local user can reach a loopback port, so the token is required. */
  function authenticate(headers: Headers): Login | undefined {
    const text = String(headers['neon-connection-string'])
    if (!URL.canParse(text)) return undefined
    const { username, password } = new URL(text)
    if (!timingSafeEqual(sha256Digest(password), key)) return undefined
    return username === 'system' ? 'system' : 'app'
  }

  async function answer(
    login: Login,
    headers: Headers,
    body: string,
    use: Use,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    if (body.length > BODY_LIMIT) return TOO_LARGE
    const request = parseRequest(body)
    const begin = beginCommand(headers)
    if (!request || begin === undefined) return MALFORMED
    const { rewrite, onTrip } = options
    const queries = rewrite ? request.queries.map(q => ({ ...q, query: rewrite(q.query) })) : request.queries
    onTrip?.({ queries })
    try {
      const results = await runStatements(
        login === 'system' ? systemPool : pool,
        request.batch ? [plainStatement(begin), ...queries, plainStatement('COMMIT')] : queries,
        preparing,
        use,
        signal,
      )
      const bodies = results.map(result => toNeonResult(result, headers['neon-array-mode'] === 'true'))
      return { status: 200, body: request.batch ? { results: bodies.slice(1, -1) } : (bodies[0] ?? {}) }
    } catch (error) {
      if (error instanceof ShareExhausted) return BUSY
      if (error instanceof pg.DatabaseError) return { status: 400, body: { ...error, message: error.message } }
      const { code, message } = error instanceof DatabaseUnavailableError ? error : new DatabaseUnavailableError(error)
      return refusalAnswer(503, code, message)
    }
  }

  const server = createServer(
    { noDelay: true, keepAlive: true, keepAliveTimeout: 65_000 },
    async (request, response) => {
      const login = authenticate(request.headers)
      if (!login) return sendAnswer(response, UNAUTHORIZED)
      const gone = new AbortController()
      response.once('close', () => gone.abort())
      try {
        const body = await readBody(request)
        const { headers } = request
        sendAnswer(
          response,
          body === undefined ? TOO_LARGE : await answer(login, headers, body, readUse(headers), gone.signal),
        )
      } catch {
        response.destroy()
      }
    },
  )

  return {
    connectionString,
    systemConnectionString: gatewayConnectionString(token, 'system'),
    async fetch(_endpoint, request) {
      const headers = lowerCaseNames(request.headers)
      const login = authenticate(headers)
      const { signal, use = readUse(headers) } = request
      const answering = login ? answer(login, headers, request.body, use, signal) : Promise.resolve(UNAUTHORIZED)
      const { status, body } = await rejectOnAbort(answering, signal)
      return { ok: status === 200, status, json: async () => body, text: async () => JSON.stringify(body) }
    },
    async listen(port = 0) {
      await once(server.listen(port, '127.0.0.1'), 'listening')
      return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
    },
    poolState() {
      const total = (count: (one: SharedPool) => number) => pools.reduce((sum, one) => sum + count(one), 0)
      return {
        open: total(one => one.pool.totalCount),
        idle: total(one => one.pool.idleCount),
        waiting: total(one => one.shares.waiting()),
      }
    },
    async close() {
      server.close()
      server.closeAllConnections()
      await Promise.all(pools.map(each => each.pool.end()))
    },
  }
}

function openPool(connectionString: string, max: number, statementTimeout: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString,
    max,
    keepAlive: true,
    idleTimeoutMillis: 60_000,
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    statement_timeout: statementTimeout,
    // The server's own timeout comes first. This one is for a server that no longer answers.
    query_timeout: statementTimeout + CONNECT_TIMEOUT,
  })
  // A broken connection fails its own query. Without a listener it would also end the process.
  pool.on('error', () => {})
  pool.on('connect', client => client.on('error', () => {}))
  return pool
}

async function runStatements(
  { pool, shares, url }: SharedPool,
  statements: Statement[],
  preparing: Preparing,
  use: Use,
  signal: AbortSignal | undefined,
): Promise<Result[]> {
  const release = shares.tryTake(use) ?? (await shares.take(use, signal))
  try {
    const client = await pool.connect().catch(error => {
      throw new DatabaseUnavailableError(error)
    })
    const heldSince = Date.now()
    return await runOnClient(client, statements, preparing, url, signal).finally(() =>
      use.onReleased?.(Date.now() - heldSince),
    )
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

/** Reads the use from the headers of a driver in another process. Drivers that name no group are one group. */
function readUse(headers: Headers): ConnectionUse {
  const group = headers[USE_HEADERS.group]
  return { group: typeof group === 'string' ? group : 'driver', isSlow: headers[USE_HEADERS.isSlow] === 'true' }
}

const lowerCaseNames = (headers: Record<string, string>): Headers =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** No connection to the database, or it was lost. The same request may succeed later. */
class DatabaseUnavailableError extends Error {
  readonly code: string
  constructor(cause: unknown) {
    super((cause instanceof Error && cause.message) || 'The database cannot be reached', { cause })
    this.code = (cause instanceof pg.DatabaseError && cause.code) || '08006'
  }
}

function parseRequest(body: string): { batch: boolean; queries: Statement[] } | undefined {
  try {
    const request = JSON.parse(body)
    const batch = Array.isArray(request.queries)
    const queries: Statement[] = (batch ? request.queries : [request]).map(({ query, params = [] }: Statement) => ({
      query,
      params,
    }))
    if (queries.every(({ query, params }) => typeof query === 'string' && Array.isArray(params)))
      return { batch, queries }
  } catch {
    // Not JSON, or not objects: the caller answers 400.
  }
}

/** The command that opens a batch's transaction, or undefined for an unknown isolation level. */
function beginCommand(headers: Headers): string | undefined {
  const isolation = headers['neon-batch-isolation-level']
  const level = ISOLATION.get(String(isolation))
  if (isolation !== undefined && level === undefined) return undefined
  const modes = [
    ...(level ? [`ISOLATION LEVEL ${level}`] : []),
    ...(headers['neon-batch-read-only'] === 'true' ? ['READ ONLY'] : []),
    ...(headers['neon-batch-deferrable'] === 'true' ? ['DEFERRABLE'] : []),
  ]
  return `BEGIN ${modes.join(', ')}`
}

const plainStatement = (query: string): Statement => ({ query, params: [] })

function toNeonResult({ rows, ...result }: Result, rowAsArray: boolean): object {
  const named = (row: Result['rows'][number]) =>
    Object.fromEntries(row.map((value, i) => [result.fields[i]!.name, value]))
  return { ...result, rows: rowAsArray ? rows : rows.map(named), rowAsArray }
}

/** The body, or undefined if it is too large: the rest is then dropped as it arrives. */
function readBody(request: IncomingMessage): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= BODY_LIMIT) return chunks.push(chunk)
      chunks.length = 0
      resolve(undefined)
    })
    request.on('end', () => resolve(Buffer.concat(chunks).toString()))
    request.on('error', reject)
  })
}

function sendAnswer(response: ServerResponse, { status, body }: Answer): void {
  const text = JSON.stringify(body)
  // The rest of a refused body is not read.
  if (status === 401 || status === 413) response.setHeader('connection', 'close')
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  // Node sends a short head and a text that follows it in one write.
  response.writeHead(status, headers).end(text)
}

function refusalAnswer(status: number, code: string, message: string): Answer {
  return { status, body: { message, code } }
}

function sha256Digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
