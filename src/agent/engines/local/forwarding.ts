// Forwards requests to copies: those that may be sent again over kept connections, others and WebSockets over
// connections of their own.
import type * as http from 'node:http'
import { constants, type Http2ServerResponse } from 'node:http2'
import { Socket } from 'node:net'
import type { EditHeaders } from '../../site/serve-site.ts'
import { respondProblem } from '../../system/problem-response.ts'
import { type AnswerLimits, AnswerTimes } from './answer-times.ts'
import { type CopyConnection, type CopyConnections, dial } from './copy-connections.ts'
import { CopySession, CopySessions } from './copy-sessions.ts'
import { sendKept } from './kept-request.ts'
import type { ServerTarget } from './serving.ts'
import { sendInSession } from './session-request.ts'
import { joinTunnel, sendStreamed } from './streamed-request.ts'

/** Undefined if the target accepts no connection. */
export type Connect = (target: ServerTarget) => CopyConnection | Promise<Channel | undefined>
export type Channel = Socket | CopyConnection | CopySession
export type Passed = {
  answerer: Channel
  release: () => void
  edit: EditHeaders | undefined
  recordAnswer: (status: number) => void
  /** The request is to be sent again: this attempt does not count. */
  withdraw: () => void
}
/** Finds a copy. `prepare` is done once, before one is chosen. Undefined if the client has already been answered. */
type Pass = (
  req: http.IncomingMessage,
  res: http.ServerResponse,
  connect: Connect,
  prepare?: () => Promise<void>,
) => Promise<Passed | undefined>
type Host = {
  limits: AnswerLimits
  connections: CopyConnections
  pass: Pass
  /** The headers that the application gets, without `Connection`. */
  headersOf: (req: http.IncomingMessage) => string[]
}

const KEEP_ALIVE = ['Connection', 'keep-alive']
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])
/** A longer body, or one of unknown length, is forwarded as it comes. */
const SHORT_BODY_BYTES = 65_536
const bodyLengthOf = ({ headers }: http.IncomingMessage) => Number(headers['content-length'] ?? 0)
const isShort = (req: http.IncomingMessage) =>
  req.headers['transfer-encoding'] === undefined && bodyLengthOf(req) <= SHORT_BODY_BYTES
const isRepeatable = (req: http.IncomingMessage) =>
  SAFE_METHODS.has(req.method!) && req.url !== '*' && isShort(req) && bodyLengthOf(req) === 0

export class Forwarding {
  readonly #host: Host
  readonly #times: AnswerTimes
  readonly #sessions = new CopySessions()

  constructor(host: Host) {
    this.#host = host
    this.#times = new AnswerTimes(host.limits)
  }

  /** The copies that have a route. */
  keepOnly(targets: ServerTarget[]): void {
    this.#host.connections.keepOnly(targets)
    this.#sessions.keepOnly(targets)
  }

  async forward(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    if (isRepeatable(req)) return this.#forwardKept(req, res)
    if (isShort(req)) return this.#forwardShort(req, res)
    const passed = await this.#forwardStreamed(req, res, KEEP_ALIVE)
    if (passed) req.pipe(passed.out)
  }

  /** Forwards only the headers until the application answers 101. */
  async openTunnel(req: http.IncomingMessage, res: http.ServerResponse, client: Socket, head: Buffer): Promise<void> {
    const passed = await this.#forwardStreamed(req, res, ['Connection', 'Upgrade', 'Upgrade', 'websocket'])
    if (!passed) return
    const { out, socket, endWatch, recordAnswer, release } = passed
    const onOpen = () => {
      endWatch()
      recordAnswer(101)
    }
    joinTunnel(res, client, head, out, onOpen, () => {
      release()
      socket.destroy()
    })
    out.end()
  }

  /** A connection that ended before the answer began may be replaced by a new one. */
  async #forwardKept(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    const { connections, pass, headersOf } = this.#host
    let abort = () => {}
    let endWatch = () => {}
    res.once('close', () => {
      endWatch()
      abort()
    })
    for (let isFresh = false; ; isFresh = true) {
      const connect = (target: ServerTarget) => {
        if (target.h2c) return this.#sessions.open(target)
        return (isFresh ? undefined : connections.take(target)) ?? connections.open(target)
      }
      const passed = await pass(req, res, connect)
      if (!passed) return
      endWatch()
      endWatch = this.#times.watch(req, res, () => abort())
      const { answerer, edit, recordAnswer, withdraw } = passed
      const sent = { headers: headersOf(req), edit, onAnswer: recordAnswer }
      if (answerer instanceof CopySession) {
        abort = sendInSession(answerer, req, res, { ...sent, body: null }).abort
        return
      }
      const connection = answerer as CopyConnection
      const outcome = await sendKept(connection, req, res, sent, onAbort => (abort = onAbort))
      if (outcome === 'answered') return connections.giveBack(connection)
      connection.close()
      if (outcome === 'last') return
      const mayRepeat = connection.isReused || outcome === 'unread'
      if (!mayRepeat || res.headersSent || res.destroyed)
        return respondProblem(res, 502, 'The application closed the connection without an answer. Check its log.')
      withdraw()
      if (outcome === 'unread') return void (await this.#forwardStreamed(req, res, KEEP_ALIVE))?.out.end()
    }
  }

  /** The body is read before a copy is chosen, so that a slow client takes no place at one. */
  async #forwardShort(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    let body: Buffer | null = null
    const read = async () => {
      const endWatch = this.#times.watch(req, res, () => {})
      body = await readShortBody(req)
      endWatch()
    }
    const prepare = bodyLengthOf(req) > 0 ? read : undefined
    const passed = await this.#forwardStreamed(req, res, KEEP_ALIVE, { prepare, body: () => body })
    passed?.out.end(body)
  }

  /** The connection is closed only after the whole answer, which may come before the body was read. */
  async #forwardStreamed(
    req: http.IncomingMessage,
    res: http.ServerResponse,
    connection: string[],
    short?: { prepare: (() => Promise<void>) | undefined; body: () => Buffer | null },
  ) {
    const isTunnel = connection.includes('Upgrade')
    const connect = (target: ServerTarget) => (target.h2c && !isTunnel ? this.#sessions.open(target) : dial(target))
    const passed = await this.#host.pass(req, res, connect, short?.prepare)
    if (!passed) return undefined
    const { answerer, edit, recordAnswer } = passed
    const headers = this.#host.headersOf(req)
    if (answerer instanceof CopySession) {
      this.#sendStreamInSession(answerer, req, res, { headers, edit, onAnswer: recordAnswer, body: short?.body() })
      return undefined
    }
    const socket = answerer as Socket
    // Node would send a body of unknown length in its place, which many servers refuse.
    if (short && req.headers['content-length'] === undefined) headers.push('Content-Length', '0')
    headers.push(...connection)
    const out = sendStreamed(req, res, socket, { headers, edit, onAnswer: recordAnswer })
    const isReading = () => !out.writableNeedDrain
    const endWatch = this.#times.watch(req, res, () => out.destroy(), isReading)
    res.once('close', () => {
      endWatch()
      socket.destroy()
    })
    return { ...passed, out, socket, endWatch }
  }

  /** A request of HTTP/2. Copies that speak HTTP/1.1 get none. */
  async forwardHttp2(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    const connect = (target: ServerTarget) => (target.h2c ? this.#sessions.open(target) : dial(target))
    const passed = await this.#host.pass(req, res, connect)
    if (!passed) return
    const { answerer, edit, recordAnswer } = passed
    if (answerer instanceof CopySession) {
      const sent = { headers: this.#host.headersOf(req), edit, onAnswer: recordAnswer, body: undefined }
      return this.#sendStreamInSession(answerer, req, res, sent)
    }
    if (answerer instanceof Socket) answerer.destroy()
    ;(res as unknown as Http2ServerResponse).stream.close(constants.NGHTTP2_HTTP_1_1_REQUIRED)
  }

  #sendStreamInSession(
    session: CopySession,
    req: http.IncomingMessage,
    res: http.ServerResponse,
    sent: Parameters<typeof sendInSession>[3],
  ): void {
    const { abort, isReading } = sendInSession(session, req, res, sent)
    const endWatch = this.#times.watch(req, res, abort, isReading)
    res.once('close', () => {
      endWatch()
      abort()
    })
  }
}

/** Null if the client goes away first. */
async function readShortBody(req: http.IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of req) chunks.push(chunk)
  } catch {
    return null
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
}
