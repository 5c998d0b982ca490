// HTTP/2 without TLS between the router and copies that speak it: one session for each copy, with a stream for each
// request. Trailers pass, so that gRPC works.
import * as http2 from 'node:http2'
import type { CopyAddress } from './copy-connections.ts'
import { originOf } from './copy-connections.ts'

const CONNECT_MS = 5_000
/** A session without streams is closed after so long. */
const IDLE_MS = 60_000

export class CopySession {
  readonly session: http2.ClientHttp2Session

  constructor(session: http2.ClientHttp2Session) {
    this.session = session
  }
}

export class CopySessions {
  readonly #open = new Map<string, Promise<CopySession | undefined>>()

  /** Undefined if nothing accepts, or it speaks no HTTP/2. */
  async open(address: CopyAddress): Promise<CopySession | undefined> {
    const origin = originOf(address)
    const known = await this.#open.get(origin)
    if (known && !known.session.closed && !known.session.destroyed) return known
    const opening = this.#connect(origin)
    this.#open.set(origin, opening)
    return opening
  }

  #connect(origin: string): Promise<CopySession | undefined> {
    return new Promise(resolve => {
      const session = http2.connect(origin)
      const end = () => {
        clearTimeout(timer)
        session.destroy()
        resolve(undefined)
      }
      const timer = setTimeout(end, CONNECT_MS)
      session.on('error', () => {})
      session.once('close', end)
      session.setTimeout(IDLE_MS, () => session.close())
      // Its settings tell that it speaks HTTP/2.
      session.once('remoteSettings', () => {
        clearTimeout(timer)
        resolve(new CopySession(session))
      })
    })
  }

  /** Streams of a copy without a route end first. */
  keepOnly(addresses: CopyAddress[]): void {
    const kept = new Set(addresses.map(originOf))
    for (const [origin, opening] of this.#open) {
      if (kept.has(origin)) continue
      this.#open.delete(origin)
      void opening.then(opened => opened?.session.close())
    }
  }
}
