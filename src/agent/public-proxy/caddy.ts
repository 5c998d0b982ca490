// Caddy as the public proxy: compares its configuration with the wanted one over the admin API, and corrects it.
import * as fs from 'node:fs'
import * as http from 'node:http'
import { text } from 'node:stream/consumers'
import { isDeepStrictEqual } from 'node:util'
import type { LogEvent } from '../system/log-event.ts'
import { type CaddyConfig, DIALECTS, withOwnParts } from './caddy-config.ts'
import type { PublicProxy, RouterEndpoint } from './public-proxy.ts'
import type { ProxySettings } from './settings.ts'

const CHECK_MS = 5_000
/** A new configuration is answered once it serves. */
const TIMEOUT_MS = 30_000
/** The number of attempts at a change that conflicts with changes of another program. */
const MAX_CONFLICTS = 5

type Options = { settings: ProxySettings; logEvent: LogEvent; check_ms?: number }
type Answer = { status: number; etag: string | undefined; body: string }

export class CaddyProxy implements PublicProxy {
  readonly #settings: ProxySettings
  readonly #logEvent: LogEvent
  readonly #checkMs: number
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #lastError: string | undefined

  constructor({ settings, logEvent, check_ms = CHECK_MS }: Options) {
    this.#settings = settings
    this.#logEvent = logEvent
    this.#checkMs = check_ms
  }

  open(router: () => RouterEndpoint): void {
    const check = async () => {
      await this.#converge(router).then(
        hasChanged => {
          if (hasChanged || this.#lastError !== undefined) this.#logEvent('public proxy configured')
          this.#lastError = undefined
        },
        (error: Error) => this.#report(error),
      )
      if (!this.#isClosed) this.#timer = setTimeout(check, this.#checkMs)
    }
    void check()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  /** True if it changed the configuration. */
  async #converge(router: () => RouterEndpoint): Promise<boolean> {
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      const { status, etag, body } = await this.#request('GET')
      if (status !== 200) throw new Error(`Caddy answers ${status}: ${body.trim().slice(0, 500)}`)
      const current = (JSON.parse(body) ?? {}) as CaddyConfig
      const certificateStamp = stampFiles(this.#settings)
      const wanted = DIALECTS.map(dialect =>
        withOwnParts(current, { settings: this.#settings, router: router(), certificateStamp, dialect }),
      )
      if (wanted.some(config => isDeepStrictEqual(current, config))) return false
      const changed = await this.#replace(wanted, etag)
      if (changed.status === 200) return true
      if (changed.status !== 412)
        throw new Error(`Caddy refuses the configuration (${changed.status}): ${changed.body.trim().slice(0, 500)}`)
    }
    throw new Error('Another program changes the configuration of Caddy all the time.')
  }

  /** Each version of Caddy accepts one of them, and keeps its configuration when it refuses another. */
  async #replace(candidates: CaddyConfig[], etag: string | undefined): Promise<Answer> {
    const [first, ...others] = candidates
    const answer = await this.#request('POST', JSON.stringify(first), etag)
    const isUnknown = /unknown field|permission module/.test(answer.body)
    return others.length > 0 && isUnknown ? this.#replace(others, etag) : answer
  }

  #report(error: NodeJS.ErrnoException): void {
    const { admin } = this.#settings
    const reason = error.syscall === 'connect' ? `Caddy does not answer at ${admin}: ${error.code}` : error.message
    if (reason !== this.#lastError && !this.#isClosed) this.#logEvent('public proxy not configured', { reason })
    this.#lastError = reason
  }

  #request(method: string, body?: string, etag?: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      // No host is the only one that every version allows on a socket. In an object, Node would replace it.
      const headers = ['Host', '']
      if (body !== undefined)
        headers.push('Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body)))
      if (etag) headers.push('If-Match', etag)
      const { admin: socketPath } = this.#settings
      const signal = AbortSignal.timeout(TIMEOUT_MS)
      const options = { socketPath, path: '/config/', method, headers, setHost: false, agent: false, signal }
      const request = http.request(options, answer => {
        const { statusCode: status = 0, headers } = answer
        text(answer).then(body => resolve({ status, etag: headers.etag, body }), reject)
      })
      request.once('error', reject).end(body)
    })
  }
}

function stampFiles({ certificate }: ProxySettings): string {
  if (!certificate) return ''
  const times = [certificate.file, certificate.key].map(file => fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs)
  return times.map(time => Math.round(time ?? 0)).join('-')
}
