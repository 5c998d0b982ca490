// Makes lines of the requests that end: the ones that failed or were slow, and a sample of the others.
import type * as http from 'node:http'
import type { Socket } from 'node:net'
import type { LogBatch } from '../../../protocol/logs.schema.ts'
import type { RequestLogs } from '../../../protocol/request-logs.schema.ts'
import { CLIENT_GONE } from './request-counts.ts'
import { RequestSample } from './request-sample.ts'
import { traceOf } from './trace-context.ts'

export type RequestLine = Pick<LogBatch['lines'][number], 'timestamp' | 'level' | 'message'> & {
  attributes: Record<string, string | number | boolean>
}
/** Lines of one revision, in the order of their times. */
export type RequestLines = { deployment_id: string; revision_id: string; lines: RequestLine[] }
type Logged = { of?: string; revision?: string; logs?: RequestLogs }

type Entry = {
  at: number
  since: number
  host: string
  path: string
  socket?: Socket | null
  bytesRead?: number
  bytesWritten?: number
  route?: Logged
  copy?: string | undefined
  chosenAt?: number
  status?: number
  answeredAt?: number
}
type Sample = {
  failed: RequestSample<Drawn>
  others: RequestSample<Drawn>
  /** The revision of the latest request. */
  revision: string
  leftOut: number
  toldAt: number
}
type Drawn = { at: number; revision: string; line: RequestLine }

const ENTRY = Symbol('entry of the request log')
type Logging = http.ServerResponse & { [ENTRY]?: Entry }

const FLUSH_MS = 1_000
const RETRY_MS = 5_000
const TOLD_EVERY_MS = 60_000
const FAILED_RATE = 20
const ALL_RATE = 200
/** Lines that wait for an agent. Further ones are counted. */
const MAX_WAITING_LINES = 2_000
/** Together less than what a line may have. */
const MAX_PATH = 400
const MAX_AGENT = 150
const MAX_HOST = 100

const rateOf = ({ mode, rate }: RequestLogs) => (mode === 'errors' ? 0 : mode === 'all' ? ALL_RATE : rate)

export class RequestLog {
  /** False: no agent takes them now. */
  readonly #send: (lines: RequestLines[]) => boolean
  readonly #addressOf: (req: http.IncomingMessage) => string
  readonly #samples = new Map<string, { key: string; sample: Sample }>()
  #waiting: RequestLines[] = []
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY

  constructor(send: (lines: RequestLines[]) => boolean, addressOf: (req: http.IncomingMessage) => string) {
    this.#send = send
    this.#addressOf = addressOf
  }

  /** A request may be sent again: all attempts are one entry. */
  begin(res: Logging, host: string, path: string): Entry {
    res[ENTRY] ??= { at: Date.now(), since: performance.now(), host, path }
    return res[ENTRY]
  }

  /** It is for this deployment, and is recorded when its answer is over. */
  follow(entry: Entry, req: http.IncomingMessage, res: http.ServerResponse, route: Logged, copy?: string): void {
    if (!route.logs || route.logs.mode === 'off' || !route.of || !route.revision) return
    if (!entry.route) {
      const end = () => this.#record(entry, req, res)
      if (res.closed || res.destroyed) setImmediate(end)
      else res.once('close', end)
      // Requests of HTTP/2 share a connection.
      entry.socket = req.httpVersionMajor === 1 ? req.socket : null
      entry.bytesRead = entry.socket?.bytesRead ?? 0
      entry.bytesWritten = entry.socket?.bytesWritten ?? 0
    }
    entry.route = route
    entry.copy = copy
    entry.chosenAt ??= performance.now()
  }

  answered(entry: Entry, status: number): void {
    entry.status = status
    entry.answeredAt ??= performance.now()
  }

  #record(entry: Entry, req: http.IncomingMessage, res: http.ServerResponse): void {
    const { of = '', logs } = entry.route!
    const status = entry.status ?? (res.headersSent ? res.statusCode : CLIENT_GONE)
    const now = performance.now()
    const firstByte = (entry.answeredAt ?? now) - entry.since
    const isFailed = status >= 500 || status === CLIENT_GONE || firstByte >= logs!.slow_ms
    if (!isFailed && logs!.mode === 'errors') return
    const sample = this.#sampleOf(of, logs!)
    const revision = entry.route!.revision!
    sample.revision = revision
    const build = () => ({
      at: entry.at,
      revision,
      line: this.#lineOf(entry, req, res, { status, total: now - entry.since, firstByte }),
    })
    const draw = isFailed ? sample.failed : sample.others
    draw.offer(build, Math.random())
    this.#flushIn(FLUSH_MS)
  }

  #flushIn(ms: number): void {
    const dueAt = performance.now() + ms
    if (this.#dueAt <= dueAt) return
    clearTimeout(this.#timer)
    this.#dueAt = dueAt
    this.#timer = setTimeout(() => this.flush(), ms).unref()
  }

  #sampleOf(of: string, logs: RequestLogs): Sample {
    const rate = rateOf(logs)
    const key = `${rate}`
    const known = this.#samples.get(of)
    if (known?.key === key) return known.sample
    const now = performance.now()
    const sample: Sample = {
      failed: new RequestSample(FAILED_RATE, now),
      others: new RequestSample(rate, now, rate === ALL_RATE ? rate : undefined),
      revision: known?.sample.revision ?? '',
      leftOut: known?.sample.leftOut ?? 0,
      toldAt: known?.sample.toldAt ?? now - TOLD_EVERY_MS,
    }
    this.#samples.set(of, { key, sample })
    return sample
  }

  /** The deployments that have a route. */
  keepOnly(served: ReadonlySet<string | undefined>): void {
    for (const of of this.#samples.keys()) if (!served.has(of)) this.#samples.delete(of)
  }

  /** Also when an agent comes back. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#dueAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    for (const [of, { sample }] of this.#samples) this.#take(of, sample, now)
    if (this.#waiting.length > 0 && this.#send(this.#waiting)) this.#waiting = []
    if (this.#waiting.length > 0) this.#flushIn(RETRY_MS)
    else if ([...this.#samples.values()].some(({ sample }) => sample.leftOut > 0)) this.#flushIn(TOLD_EVERY_MS)
  }

  #take(of: string, sample: Sample, now: number): void {
    const taken = [sample.failed.take(now), sample.others.take(now)]
    const room = Math.max(0, MAX_WAITING_LINES - this.#waiting.reduce((sum, { lines }) => sum + lines.length, 0))
    const drawn = taken.flatMap(({ lines }) => lines).sort((a, b) => a.at - b.at)
    const kept = drawn.slice(0, room)
    sample.leftOut += taken.reduce((sum, { leftOut }) => sum + leftOut, 0) + drawn.length - kept.length
    const revisions = Map.groupBy(kept, ({ revision }) => revision)
    for (const [revision_id, its] of revisions)
      this.#waiting.push({ deployment_id: of, revision_id, lines: its.map(({ line }) => line) })
    if (sample.leftOut === 0 || now - sample.toldAt < TOLD_EVERY_MS || room === kept.length) return
    this.#waiting.push({ deployment_id: of, revision_id: sample.revision, lines: [leftOutLine(sample.leftOut)] })
    sample.leftOut = 0
    sample.toldAt = now
  }

  #lineOf(
    { at, host, path, socket, bytesRead = 0, bytesWritten = 0, route, copy, since, chosenAt }: Entry,
    req: http.IncomingMessage,
    res: http.ServerResponse,
    { status, total, firstByte }: { status: number; total: number; firstByte: number },
  ): RequestLine {
    const { trace_id, request_id } = traceOf(req)
    const client = shownAddress(this.#addressOf(req), route!.logs!.client_address)
    const agent = req.headers['user-agent']
    const length = req.headers['content-length']
    const shownPath = path.slice(0, MAX_PATH)
    const method = req.method!.slice(0, 20)
    const isCut = status !== 101 && status !== CLIENT_GONE && res.writableFinished === false
    return {
      timestamp: new Date(at).toISOString(),
      level: status >= 500 ? 'ERROR' : firstByte >= route!.logs!.slow_ms || status === CLIENT_GONE ? 'WARNING' : 'INFO',
      message: `${method} ${shownPath} ${status} ${round(total)} ms`,
      attributes: {
        ...{ method, host: host.slice(0, MAX_HOST), path: shownPath, status },
        ...{ duration_ms: round(total), first_byte_ms: round(firstByte) },
        wait_ms: round((chosenAt ?? since) - since),
        ...(length !== undefined && status !== 101 && { bytes_in: Number(length) }),
        ...(length === undefined && socket && { bytes_in: Math.max(0, socket.bytesRead - bytesRead) }),
        ...(socket && { bytes_out: Math.max(0, socket.bytesWritten - bytesWritten) }),
        ...(copy !== undefined && { copy }),
        ...(client !== '' && { client }),
        ...(agent !== undefined && { user_agent: agent.slice(0, MAX_AGENT) }),
        ...(isCut && { cut: true }),
        ...{ trace_id, request_id },
      },
    }
  }
}

const round = (ms: number) => Math.round(ms * 10) / 10

const leftOutLine = (count: number): RequestLine => ({
  timestamp: new Date().toISOString(),
  level: 'INFO',
  message: `${count} requests before this line were left out of the log.`,
  attributes: { left_out: count },
})

/** The network of an address has as many people as a district or a company. */
export function shownAddress(address: string, shown: RequestLogs['client_address']): string {
  if (shown === 'full' || address === '') return address
  if (shown === 'none') return ''
  if (!address.includes(':')) return `${address.slice(0, address.lastIndexOf('.'))}.0`
  const [head = ''] = address.split('::')
  const groups = head.split(':').filter(group => group !== '')
  return `${groups.slice(0, 3).join(':')}::`
}
