// Serves statements from a Postgres pool, for Workers on a machine without Neon. `/rows` answers the app with the rows
// alone; every other path serves the HTTP protocol of Neon's driver.
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { ROWS_PATH } from '../kernel/db/gateway.ts'
import { USE_HEADERS } from '../kernel/limits/connection-shares.ts'
import { ShareExhausted } from '../kernel/limits/shares.ts'
import { type ConnectionUse, StatementError } from '../platform.ts'
import { BUSY, type DatabasePools, DatabaseUnavailableError, type Login } from './database-pools.ts'
import type { Result, Statement } from './pipeline.ts'

export type Gateway = {
  connectionString: string
  systemConnectionString: string
  /** Serves over HTTP, on the loopback address only. */
  listen(port?: number): Promise<{ url: string }>
  close(): Promise<void>
}

type Headers = Record<string, string | string[] | undefined>
type Answer = { status: number; body: object }

const BODY_LIMIT = 32 * 1024 * 1024
const ISOLATION = new Map([
  ['ReadUncommitted', 'READ UNCOMMITTED'],
  ['ReadCommitted', 'READ COMMITTED'],
  ['RepeatableRead', 'REPEATABLE READ'],
  ['Serializable', 'SERIALIZABLE'],
])

const UNAUTHORIZED = refusalAnswer(401, '28P01', 'The connection string of this gateway is required')
const TOO_LARGE = refusalAnswer(413, '54000', `A request may have at most ${BODY_LIMIT} bytes`)
const MALFORMED = refusalAnswer(400, '08P01', 'This is not a batch of statements')

/** The connection string of a gateway with this token. It can be computed before the gateway starts. */
export const gatewayConnectionString = (token: string, login: 'app' | 'system' = 'app'): string =>
  `postgresql://${login}:${encodeURIComponent(token)}@localhost/slipway`

/** The token is random by default. With a given one, connection strings stay valid across restarts. */
export function createGateway(pools: DatabasePools, token = randomBytes(24).toString('base64url')): Gateway {
  const connectionString = gatewayConnectionString(token)
  const key = sha256Digest(new URL(connectionString).password)

  /** Any web page and any local user can reach a loopback port, so the token is required. */
  function authenticate(headers: Headers): Login | undefined {
    const text = String(headers['neon-connection-string'])
    if (!URL.canParse(text)) return undefined
    const { username, password } = new URL(text)
    if (!timingSafeEqual(sha256Digest(password), key)) return undefined
    return username === 'system' ? 'system' : 'app'
  }

  async function answer(login: Login, headers: Headers, body: string, signal: AbortSignal): Promise<Answer> {
    const request = parseRequest(body)
    const transaction = readTransaction(headers)
    if (!request || !transaction) return MALFORMED
    const { before, after } = request.batch ? transaction : NO_COMMANDS
    try {
      const results = await pools.run(login, [...before, ...request.queries, ...after], readUse(headers), signal)
      const bodies = results
        .slice(before.length, results.length - after.length)
        .map(result => toNeonResult(result, headers['neon-array-mode'] === 'true'))
      return { status: 200, body: request.batch ? { results: bodies } : (bodies[0] ?? {}) }
    } catch (error) {
      if (error instanceof ShareExhausted) return { status: 400, body: BUSY }
      if (error instanceof pg.DatabaseError) return { status: 400, body: { ...error, message: error.message } }
      return unavailableAnswer(error)
    }
  }

  async function answerRows(login: Login, headers: Headers, body: string, signal: AbortSignal): Promise<Answer> {
    const statements = parseRequest(body)?.queries.map(({ query, params }) => ({ sql: query, params }))
    if (!statements) return MALFORMED
    try {
      return { status: 200, body: await pools.connections[login](statements, readUse(headers), signal) }
    } catch (error) {
      if (!(error instanceof StatementError)) return unavailableAnswer(error)
      const { code, message, detail, constraint } = error
      return { status: 400, body: { code, message, detail, constraint } }
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
        const respond = request.url === ROWS_PATH ? answerRows : answer
        sendAnswer(response, body === undefined ? TOO_LARGE : await respond(login, request.headers, body, gone.signal))
      } catch {
        response.destroy()
      }
    },
  )

  return {
    connectionString,
    systemConnectionString: gatewayConnectionString(token, 'system'),
    async listen(port = 0) {
      await once(server.listen(port, '127.0.0.1'), 'listening')
      return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
    },
    async close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Reads the use from the headers of a driver in another process. Drivers that name no group are one group. */
function readUse(headers: Headers): ConnectionUse {
  const group = headers[USE_HEADERS.group]
  return { group: typeof group === 'string' ? group : 'driver', isSlow: headers[USE_HEADERS.isSlow] === 'true' }
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

type Commands = { before: Statement[]; after: Statement[] }
/** The statements of a request are one transaction without commands. */
const NO_COMMANDS: Commands = { before: [], after: [] }

/** The commands for the modes of a batch's transaction, or undefined for an unknown isolation level. */
function readTransaction(headers: Headers): Commands | undefined {
  const isolation = headers['neon-batch-isolation-level']
  const level = ISOLATION.get(String(isolation))
  if (isolation !== undefined && level === undefined) return undefined
  const modes = [
    ...(level ? [`ISOLATION LEVEL ${level}`] : []),
    ...(headers['neon-batch-read-only'] === 'true' ? ['READ ONLY'] : []),
    ...(headers['neon-batch-deferrable'] === 'true' ? ['DEFERRABLE'] : []),
  ]
  if (modes.length === 0) return NO_COMMANDS
  const command = (query: string): Statement => ({ query, params: [] })
  return { before: [command(`BEGIN ${modes.join(', ')}`)], after: [command('COMMIT')] }
}

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

function unavailableAnswer(error: unknown): Answer {
  const { code, message } = error instanceof DatabaseUnavailableError ? error : new DatabaseUnavailableError(error)
  return refusalAnswer(503, code, message)
}

function refusalAnswer(status: number, code: string, message: string): Answer {
  return { status, body: { message, code } }
}

function sha256Digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
