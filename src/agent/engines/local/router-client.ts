// The agent's client of the router process: finds or starts it, sends routes, reads requests in flight and usage.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readJson, writeJson } from '../../system/files.ts'
import { endGroup, isAlive, type ProcessIdentity } from '../../system/processes.ts'
import { type Route, type Target, targetKey } from './router.ts'

type RouterState = { token: string; port?: number; control?: number; identity?: ProcessIdentity }

const ROUTER_MAIN = fileURLToPath(new URL('./router-main.ts', import.meta.url))
/** Generous, because a router that fails to start exits early. */
const START_TIMEOUT_MS = 60_000

export class RouterClient {
  readonly #file: string
  readonly #firstPort: number
  #state: RouterState = { token: '' }
  #lastApply: Promise<unknown> = Promise.resolve()

  /** `first` is the port to try first if the router never ran. */
  constructor(file: string, first: number) {
    this.#file = file
    this.#firstPort = first
  }

  get port(): number {
    return this.#state.port!
  }

  async open(): Promise<void> {
    const previous = readJson<RouterState>(this.#file)
    if (previous?.identity && isAlive(previous.identity)) {
      this.#state = previous
      return
    }
    const token = previous?.token ?? randomBytes(24).toString('base64url')
    const attempt = randomBytes(6).toString('hex')
    writeJson(this.#file, { token, attempt, port: previous?.port })
    const child = spawn(
      process.execPath,
      [ROUTER_MAIN, this.#file, String(previous?.port ?? this.#firstPort), attempt],
      {
        stdio: 'ignore',
        detached: true,
        // The agent's environment holds its key.
        env: {},
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
      if (child.exitCode !== null || Date.now() > deadline) throw new Error('The router process does not start.')
      await delay(10)
    }
  }

  /** Serial, so that the newest routes win. */
  apply(routes: () => Route[]): Promise<void> {
    const applied = this.#lastApply
      .catch(() => {})
      .then(async () => {
        if (this.#state.identity && !isAlive(this.#state.identity)) await this.open()
        await this.#request('PUT', JSON.stringify(routes()))
      })
    this.#lastApply = applied
    return applied
  }

  async inFlight(targets: Target[]): Promise<number> {
    const counts = (await this.#request('GET')) as Record<string, number>
    return targets.reduce((sum, target) => sum + (counts[targetKey(target)] ?? 0), 0)
  }

  /** When each deployment last had a request, since this router started. */
  async lastRequests(): Promise<Record<string, number>> {
    return (await this.#request('GET', undefined, 'asked')) as Record<string, number>
  }

  async close(): Promise<void> {
    // A pending apply may be starting another router.
    await this.#lastApply.catch(() => {})
    const { identity } = this.#state
    if (identity && isAlive(identity)) await endGroup(identity.pid, 0)
    // The next router reuses the port.
    const { token, port } = this.#state
    writeJson(this.#file, { token, port })
  }

  async #request(method: string, body?: string, path = ''): Promise<unknown> {
    const answer = await fetch(`http://127.0.0.1:${this.#state.control}/${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.#state.token}` },
      ...(body !== undefined && { body }),
    })
    if (!answer.ok) throw new Error(`The router answers ${answer.status}.`)
    return answer.json()
  }
}
