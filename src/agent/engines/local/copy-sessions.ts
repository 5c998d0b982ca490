// HTTP/2 without TLS between the router and copies that speak it: a session for each copy, with a stream for each
// request, and another one when it has as many as it takes. Trailers pass, so that gRPC works.
import * as http2 from 'node:http2'
import type { CopyAddress } from './copy-connections.ts'
import { originOf } from './copy-connections.ts'

const CONNECT_MS = 5_000
/** A session without streams is closed after so long. */
const IDLE_MS = 60_000
/** Others may take all places of a session that was opened, and a copy may close it at once. The router asks again. */
const TRIES = 5

export class CopySession {
  readonly #session: http2.ClientHttp2Session
  /** Requests that have been given this session, and are not over. */
  #taken = 0

  constructor(session: http2.ClientHttp2Session) {
    this.#session = session
  }

  get isOpen(): boolean {
    return !this.#session.closed && !this.#session.destroyed
  }

  /** Streams beyond the number of the copy would wait without a limit. False: it has no room. */
  take(): boolean {
    const most = Math.max(1, this.#session.remoteSettings.maxConcurrentStreams ?? Number.POSITIVE_INFINITY)
    if (!this.isOpen || this.#taken >= most) return false
    this.#taken++
    return true
  }

  /** Nothing was sent for the request that took it. */
  leave(): void {
    this.#taken--
  }

  request(headers: http2.OutgoingHttpHeaders, options: http2.ClientSessionRequestOptions): http2.ClientHttp2Stream {
    try {
      return this.#session.request(headers, options).once('close', () => this.leave())
    } catch (error) {
      this.leave()
      throw error
    }
  }

  close(): void {
    this.#session.close()
  }
}

export class CopySessions {
  readonly #open = new Map<string, CopySession[]>()
  readonly #opening = new Map<string, Promise<CopySession | undefined>>()

  /** Undefined if nothing accepts, or it speaks no HTTP/2. */
  async open(address: CopyAddress): Promise<CopySession | undefined> {
    const origin = originOf(address)
    for (let tries = 0; tries < TRIES; tries++) {
      const free = this.#open.get(origin)?.find(one => one.take())
      if (free) return free
      if (!(await this.#openAnother(origin))) return undefined
    }
    return undefined
  }

  /** One at a time. */
  #openAnother(origin: string): Promise<CopySession | undefined> {
    const known = this.#opening.get(origin)
    if (known) return known
    const opening = this.#connect(origin).finally(() => this.#opening.delete(origin))
    this.#opening.set(origin, opening)
    return opening
  }

  #connect(origin: string): Promise<CopySession | undefined> {
    return new Promise(resolve => {
      const session = http2.connect(origin)
      const opened = new CopySession(session)
      const end = () => {
        clearTimeout(timer)
        session.destroy()
        const left = this.#open.get(origin)?.filter(one => one !== opened) ?? []
        if (left.length > 0) this.#open.set(origin, left)
        else this.#open.delete(origin)
        resolve(undefined)
      }
      const timer = setTimeout(end, CONNECT_MS)
      session.on('error', () => {})
      session.once('close', end)
      session.setTimeout(IDLE_MS, () => session.close())
      // Its settings tell that it speaks HTTP/2.
      session.once('remoteSettings', () => {
        clearTimeout(timer)
        if (session.closed) return
        this.#open.set(origin, [...(this.#open.get(origin) ?? []), opened])
        resolve(opened)
      })
    })
  }

  /** Streams of a copy without a route end first. */
  keepOnly(addresses: CopyAddress[]): void {
    const kept = new Set(addresses.map(originOf))
    for (const [origin, sessions] of this.#open) if (!kept.has(origin)) for (const one of sessions) one.close()
    for (const [origin, opening] of this.#opening) if (!kept.has(origin)) void opening.then(opened => opened?.close())
  }
}
