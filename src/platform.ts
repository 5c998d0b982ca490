// The interface between the app and the runtime that serves it. Each runtime has its own file in src/host/.
import type { MetricFamily } from './protocol/open-metrics.ts'

/** Requests of a key, requests that send runs with it, and requests of an application have budgets of their own. */
export type Budget = 'key' | 'ingestion' | 'deployment'

export type RateLimiter = { limit(options: { key: string }): Promise<{ success: boolean }> }

/** Storage of source archives, and of long texts in traces. `put` is atomic: a failed one stores nothing. */
export type Storage = {
  put(path: string, body: ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer>): Promise<void>
  get(path: string): Promise<ReadableStream<Uint8Array> | null>
  remove(paths: string[]): Promise<void>
}

/** The built dashboard. `get` answers null for a file that does not exist. */
export type BuiltFiles = { get(path: string, acceptEncoding?: string): Promise<Response | null> }

/** Limits of streams and long polls. */
export type StreamLimits = {
  seconds: number
  /** Round trips to the database within one request. */
  trips: number
  /** Streams and long polls of one key at a time, in one process. */
  perKey: number
  /** The delay between two looks at the database: the least while things move, the most while they do not. */
  lookMs: [min: number, max: number]
  /** The interval at which the keys of waiting clients are checked. */
  keyCheckMs: number
}

/** Limits of bodies that verbs get as bytes, such as batches of runs. */
export type BodyLimits = {
  /** The limit before decompression. */
  wireBytes: number
  /** The limit after decompression. */
  bytes: number
  /** The limit of all requests of one process together. */
  heldBytes: number
}

export type RequestHead = { req: { header(name: string): string | undefined }; env?: unknown }

/** The share of the connections that a trip needs. A slow use is a read that may take seconds. */
export type ConnectionUse = {
  group: string
  isSlow?: boolean | undefined
  /** Aborts with the group of a stranger who becomes known. */
  untilKnown?: (() => AbortSignal) | undefined
}

export type SendingUse = ConnectionUse & {
  /** Gets how many milliseconds a connection was held, even if the caller left. */
  onReleased?: ((ms: number) => void) | undefined
}

type SentStatement = { sql: string; params: unknown[] }
/**
 * Runs statements in one round trip and one transaction. The values of rows are Postgres' text, apart from booleans.
 * Rejects with a `StatementError` if Postgres has answered, and with another error if there is no answer.
 */
export type SendStatements = (
  statements: SentStatement[],
  use: SendingUse,
  signal: AbortSignal,
) => Promise<unknown[][][]>
/** The logins of the app and of the system. */
export type DatabaseConnections = { app: SendStatements; system: SendStatements }

type DatabaseAnswer = {
  code: string
  message: string
  detail?: string | undefined
  constraint?: string | undefined
}

export class StatementError extends Error {
  readonly code: string
  readonly detail: string | undefined
  readonly constraint: string | undefined
  constructor({ code, message, detail, constraint }: DatabaseAnswer, cause?: unknown) {
    super(message, { cause })
    this.code = code
    this.detail = detail
    this.constraint = constraint
  }
}

/** Begins a read whose plan is as good for all values, so that a connection keeps the plan. */
export const ONE_PLAN = '/* one plan */'

export const EXCHANGE_MS = 1000
export const TUNNEL_LIMITS: TunnelLimits = {
  idleMs: 30 * 60_000,
  lifeMs: 12 * 3_600_000,
  joinMs: 20_000,
  checkMs: 15_000,
}

/** `now` is in milliseconds since 1970. `ahead` is how far it is ahead of the clock of the database, in tests. */
type Clock = { now(): number; ahead(): number }
export const createClock = (ahead: () => number = () => 0): Clock => ({ now: () => Date.now() + ahead(), ahead })

/** The runtime's context of one request, such as `ctx` of a Worker. */
export type Execution = { waitUntil(work: Promise<unknown>): void }

/** An end of a tunnel that has been authorized: who it is, as the instance that holds the tunnel needs it. */
export type TunnelEnd = { tunnel_id: string } & (
  | {
      side: 'client'
      deployment_id: string
      workspace: string
      credential: { kind: 'key' | 'session'; hash: string }
    }
  | { side: 'agent' }
)

/** Joins the sockets of clients and agents. */
export type Relay = {
  /** Names the process that holds sockets. The same for all where any of them reaches each socket, as on Workers. */
  instance: string
  /** The address of this process for the others. */
  address: string | null
  /** The socket of the request becomes an end of the tunnel once the response is sent. */
  accept(request: Request, end: TunnelEnd): Promise<void>
  /** The socket of the request is connected to the same path of another instance. */
  pass(request: Request, address: string): Promise<void>
}

/** A WebSocket of a runtime, in messages of bytes. */
export type Socket = {
  /** Calls `sent` once the message is on its way, or cannot be sent any more. */
  send(message: Uint8Array<ArrayBuffer>, sent?: () => void): void
  /** Messages arrive again after `resume`. On Workers, a tunnel has an object of its own, with memory of its own. */
  pause?(): void
  resume?(): void
  close(code: number, reason: string): void
  onMessage(receive: (message: Uint8Array) => void): void
  /** Called once, also if the socket has failed. */
  onClose(end: () => void): void
}

/** An e-mail of one recipient. Texts are encoded by the sender, so none can become a header. */
export type Mail = {
  to: string
  subject: string
  text: string
  html: string
  /** With angle brackets. */
  messageId: string
  references: string[]
  /** The link that ends these e-mails, for the button of a mail client. */
  unsubscribeUrl: string
  pictures: { id: string; bytes: Uint8Array }[]
}

/** The mail server did not take an e-mail. */
export class MailError extends Error {
  readonly status: number | null
  /** No later attempt can succeed. */
  readonly isFinal: boolean
  constructor(status: number | null, isFinal: boolean, cause: unknown) {
    super(status === null ? 'the mail server did not answer' : `the mail server answered ${status}`, { cause })
    this.status = status
    this.isFinal = isFinal
  }
}

/** Limits of tunnels, in milliseconds. */
export type TunnelLimits = {
  /** Without bytes in either direction. */
  idleMs: number
  lifeMs: number
  /** Until the agent has joined. */
  joinMs: number
  /** Between two checks of the credential. */
  checkMs: number
}

export type Platform = {
  /** Connections of this process. Without them, statements go over HTTP, to Neon or a gateway. */
  databaseConnections?: DatabaseConnections | undefined
  /** A store in the settings is used in its place. Without either, uploads are refused. */
  storage?: Storage | undefined
  /** Sends requests to that store, whose bodies may be read slowly. By default the fetch of the runtime. */
  storageFetch?: typeof fetch | undefined
  /** The files of the dashboard. Without them, /ui says how to build them. */
  assets?: BuiltFiles | undefined
  /** Limits that the runtime counts for several instances. On Workers, for those of one location. */
  limiters?: { [Name in Budget]?: RateLimiter | undefined }
  /** Keeps the process or the request alive for work that goes on after the response. */
  waitUntil: (work: Promise<unknown>, execution: Execution | undefined) => void
  clock: Clock
  clientAddress: (request: RequestHead) => string | undefined
  /** Only kernel/http/guarded-fetch.ts calls it. It connects to public addresses only, so that no name leads inside. */
  foreignFetch: typeof fetch
  /** Undefined without `SMTP_URL`, and on a host without connections to mail servers. Rejects with `MailError`. */
  sendMail?: ((mail: Mail) => Promise<void>) | undefined
  /** For models, whose addresses may be private if a setting allows it. By default `foreignFetch` calls them. */
  modelFetch?: typeof fetch | undefined
  /** The same for drains. */
  drainFetch?: typeof fetch | undefined
  /** By default the resolver of `node:dns`. Rejects with its codes. */
  resolveTxt?: ((name: string) => Promise<string[][]>) | undefined
  log: (line: Record<string, unknown>) => void
  /** The process ends soon: it is not ready for more requests. */
  draining?: AbortSignal | undefined
  /** The process ends: requests that wait are answered, and background work claims nothing more. */
  stopping?: AbortSignal | undefined
  /** Undefined on a host that takes no WebSockets. */
  relay?: Relay | undefined
  tunnelLimits: TunnelLimits
  /** Undefined on a host without a lasting process, where counts in memory say nothing. */
  processMetrics?: (() => MetricFamily[]) | undefined
  /** The pause between two times that an instance adds what it has answered to the database, and learns of others. */
  exchangeMs: number
  liveStreams: StreamLimits
  rawBodies: BodyLimits
  /** The most bytes of large answers that are read, written or sent at a time, in one process. */
  answerBytes: number
  /** The most messages to webhooks that may follow one request. */
  deliveriesPerRequest: number
}
