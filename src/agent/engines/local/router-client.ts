// The agent's client of the router process: finds or starts it, sends routes, reads requests in flight and usage.
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as http from 'node:http'
import { getCompileCacheDir } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { AccessRenewal } from '../../../protocol/access-renewals.schema.ts'
import type { Certificates } from '../../public-proxy/certificate-gate.ts'
import type { PublicAddresses } from '../../public-proxy/host-probes.ts'
import type { RouterEndpoint } from '../../public-proxy/public-proxy.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { endGroup, isAlive, type ProcessIdentity } from '../../system/processes.ts'
import type { CountedRequests } from './request-counts.ts'
import type { RequestLoad } from './request-loads.ts'
import type { RequestLines } from './request-log.ts'
import { type Route, type Target, targetKey } from './router.ts'
import type { SplitCounts } from './split-counts.ts'

/** `host`: where the router listens besides loopback. `public_addresses`: of a machine with a public proxy. */
export type RouterSettings = {
  host?: string | undefined
  trusted_proxies?: string[] | undefined
  public_addresses?: PublicAddresses | undefined
}
/** A router with another setup than the agent's is replaced. `code` tells its version. */
type RouterSetup = RouterSettings & { code: string }
export type RouterState = {
  token: string
  attempt?: string | undefined
  setup?: RouterSetup | undefined
  port?: number | undefined
  control?: number
  identity?: ProcessIdentity | undefined
}

const ROUTER_MAIN = fileURLToPath(new URL('./router-main.ts', import.meta.url))
const ROUTER_CODE = [
  './router-main.ts',
  './router.ts',
  './router-headers.ts',
  './trace-context.ts',
  './request-log.ts',
  './request-sample.ts',
  '../../../protocol/router-trace.ts',
  './router-responses.ts',
  './answer-times.ts',
  './forwarding.ts',
  './prior-knowledge.ts',
  './copy-sessions.ts',
  './session-request.ts',
  './copy-connections.ts',
  './kept-request.ts',
  './streamed-request.ts',
  './route-access.ts',
  './split.ts',
  './split-counts.ts',
  './sticky.ts',
  './access-page.ts',
  './access-renewals.ts',
  '../../../protocol/access-rules.ts',
  '../../../protocol/client-address.ts',
  '../../system/problem-response.ts',
  '../../system/connection-headers.ts',
  './request-counts.ts',
  './held-requests.ts',
  './waiting-requests.ts',
  './outliers.ts',
  './request-loads.ts',
  '../../site/serve-site.ts',
  '../../site/site-answer.ts',
  '../../site/site-manifest.ts',
  '../../site/site-paths.ts',
  '../../site/site-rules.ts',
  '../../public-proxy/certificate-gate.ts',
  '../../public-proxy/host-probes.ts',
  '../../../protocol/latency-histogram.ts',
]
/** Applications reach the router too. None of them can guess the path. */
export const certificatePath = (token: string): string =>
  `/.well-known/slipway/certificates/${createHash('sha256').update(`certificates ${token}`).digest('hex')}`
/** Generous, because a router that fails to start exits early. */
const START_TIMEOUT_MS = 60_000
/** The time for a router to exit after it has closed its connection. */
const EXIT_TIMEOUT_MS = 500

export class RouterClient {
  readonly #file: string
  readonly #firstPort: number
  readonly #setup: RouterSetup
  readonly #onExit: () => void
  readonly #onWake: (deployment: string) => void
  readonly #renewAccess: (renewal: AccessRenewal) => Promise<boolean | null>
  readonly #onRequests: (lines: RequestLines[]) => void
  #state: RouterState = { token: '' }
  /** The router before, until it has answered its requests. */
  #replaced: RouterState | undefined
  #lastApply: Promise<unknown> = Promise.resolve()
  /** A request that the router never answers. It ends with the router, also with one that an earlier agent started. */
  #life: http.ClientRequest | undefined

  /**
   * `first` is the port to try first if the router never ran. After `onExit`, `apply` starts another router. `onWake`
   * gets the deployments that a request has to wake, `renewAccess` the grants of pages that stay open, `onRequests` the
   * lines of requests.
   */
  constructor(
    file: string,
    first: number,
    settings: RouterSettings = {},
    onExit = () => {},
    onWake = (_: string) => {},
    renewAccess: (renewal: AccessRenewal) => Promise<boolean | null> = async () => null,
    onRequests = (_: RequestLines[]) => {},
  ) {
    this.#file = file
    this.#firstPort = first
    const { host, trusted_proxies, public_addresses } = settings
    this.#setup = { host, trusted_proxies, public_addresses, code: hashRouterCode() }
    this.#onExit = onExit
    this.#onWake = onWake
    this.#renewAccess = renewAccess
    this.#onRequests = onRequests
  }

  get port(): number {
    return this.#state.port!
  }

  get endpoint(): RouterEndpoint {
    const address = `http://127.0.0.1:${this.port}`
    return { port: this.port, certificateQuestion: `${address}${certificatePath(this.#state.token)}` }
  }

  async open(): Promise<void> {
    const previous = readJson<RouterState>(this.#file)
    if (previous?.identity && isAlive(previous.identity)) {
      this.#state = previous
      if (JSON.stringify(previous.setup) === JSON.stringify(this.#setup)) return this.#watch()
      // The port is free when it answers.
      this.#replaced = previous
      await this.#request('DELETE').catch(() => endGroup(previous.identity!.pid, 0))
    }
    await this.#start(previous)
    this.#watch()
  }

  async #start(previous: RouterState | undefined): Promise<void> {
    const token = previous?.token ?? randomBytes(24).toString('base64url')
    const attempt = randomBytes(6).toString('hex')
    writeJson(this.#file, { token, attempt, setup: this.#setup, port: previous?.port } satisfies RouterState)
    const child = spawn(
      process.execPath,
      [ROUTER_MAIN, this.#file, String(previous?.port ?? this.#firstPort), attempt],
      {
        stdio: 'ignore',
        detached: true,
        // Nothing of the agent's own environment, which holds its key. The cache halves the time of a start.
        env: { NODE_COMPILE_CACHE: getCompileCacheDir() ?? join(dirname(this.#file), 'compile-cache') },
      },
    )
    child.unref()
    const deadline = Date.now() + START_TIMEOUT_MS
    for (;;) {
      const state = readJson<RouterState>(this.#file)
      if (state?.control) {
        this.#state = state
        return
      }
      if (child.exitCode !== null || Date.now() > deadline)
        throw new Error('The router process does not start. Check --host and --port.')
      await delay(10)
    }
  }

  /** Sends one at a time, so the newest routes win. Returns the ports of routes that another program has. */
  apply(routes: () => Route[]): Promise<number[]> {
    const applied = this.#lastApply
      .catch(() => {})
      .then(async () => {
        if (this.#state.identity && !isAlive(this.#state.identity)) await this.open()
        return (await this.#request('PUT', JSON.stringify(routes()))) as number[]
      })
    this.#lastApply = applied
    return applied
  }

  async inFlight(targets: Target[]): Promise<number> {
    const all = [await this.#request('GET'), await this.#requestReplaced()] as Record<string, number>[]
    const count = (target: Target) => all.reduce((sum, counts) => sum + (counts[targetKey(target)] ?? 0), 0)
    return targets.reduce((sum, target) => sum + count(target), 0)
  }

  async #requestReplaced(): Promise<unknown> {
    if (!this.#replaced?.identity || !isAlive(this.#replaced.identity)) return {}
    // It ends while it is asked.
    return this.#request('GET', undefined, '', this.#replaced).catch(() => ({}))
  }

  /** When each deployment last had a request, since this router started. */
  async lastRequests(): Promise<Record<string, number>> {
    return (await this.#request('GET', undefined, 'asked')) as Record<string, number>
  }

  /** The load of each deployment, as totals since this router started. */
  async loads(): Promise<Record<string, RequestLoad>> {
    return (await this.#request('GET', undefined, 'loads')) as Record<string, RequestLoad>
  }

  /** Reads hosts whose last order of a certificate has ended. */
  async certificates(): Promise<Certificates> {
    return (await this.#request('GET', undefined, 'certificates')) as Certificates
  }

  /** Totals since this router started. */
  async requestCounts(): Promise<CountedRequests> {
    return (await this.#request('GET', undefined, 'counts')) as CountedRequests
  }

  /** Totals since this router started, of a deployment whose traffic is split. */
  async splitCounts(deployment: string): Promise<SplitCounts> {
    return (await this.#request('GET', undefined, `?split=${deployment}`)) as SplitCounts
  }

  /** Leaves the router to the next agent. */
  release(): void {
    const life = this.#life
    this.#life = undefined
    life?.destroy()
  }

  async close(): Promise<void> {
    // A pending apply may be starting another router.
    await this.#lastApply.catch(() => {})
    this.release()
    const { identity } = this.#state
    if (identity && isAlive(identity)) await endGroup(identity.pid, 0)
    // The next router reuses the port.
    const { token, port } = this.#state
    writeJson(this.#file, { token, port })
  }

  #watch(): void {
    this.release()
    const { token, control, identity } = this.#state
    const headers = { Authorization: `Bearer ${token}` }
    const life = http.get({ host: '127.0.0.1', port: control, path: '/life', headers, agent: false }, answer => {
      const lines = createInterface({ input: answer })
      lines.on('line', line => {
        if (line.startsWith('[')) this.#onRequests(JSON.parse(line) as RequestLines[])
        else if (line.startsWith('{')) void this.#renew(JSON.parse(line) as AccessRenewal).catch(() => {})
        else this.#onWake(line)
      })
      // It ends with the router.
      lines.on('error', () => {})
    })
    this.#life = life
    life.on('error', () => {})
    life.once('close', async () => {
      for (const deadline = Date.now() + EXIT_TIMEOUT_MS; isAlive(identity!) && Date.now() < deadline; ) await delay(5)
      if (this.#life !== life) return
      if (isAlive(identity!)) await endGroup(identity!.pid, 0)
      this.#onExit()
    })
  }

  /** Without an answer the router asks again. */
  async #renew(renewal: AccessRenewal): Promise<void> {
    const isRenewed = await this.#renewAccess(renewal)
    if (isRenewed !== null) await this.#request('POST', JSON.stringify({ renewal: renewal.renewal, isRenewed }))
  }

  async #request(method: string, body?: string, path = '', { control, token } = this.#state): Promise<unknown> {
    const answer = await fetch(`http://127.0.0.1:${control}/${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}` },
      ...(body !== undefined && { body }),
    })
    if (!answer.ok) throw new Error(`The router answers ${answer.status}.`)
    return answer.json()
  }
}

function hashRouterCode(): string {
  const hash = createHash('sha256')
  for (const file of ROUTER_CODE) hash.update(readFileSync(new URL(file, import.meta.url)))
  return hash.digest('hex')
}
