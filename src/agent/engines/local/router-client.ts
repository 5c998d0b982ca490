// The agent's side of the router: finds the one that runs, or starts it; hands it routes; asks it who is still being answered.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readJson, writeJson } from '../../system/files.ts'
import { endGroup, isAlive, type ProcessIdentity } from '../../system/processes.ts'
import { type Route, type Target, targetKey } from './router.ts'

type RouterState = { token: string; port?: number; control?: number; identity?: ProcessIdentity }

const ROUTER_MAIN = fileURLToPath(new URL('./router-main.ts', import.meta.url))
/** It tells of its end itself; a machine may be busy. */
const START_TIMEOUT_MS = 60_000

export class RouterClient {
  readonly #file: string
  readonly #firstPort: number
  #state: RouterState = { token: '' }
  #lastApply: Promise<unknown> = Promise.resolve()

  /** The first port to try, when there was none before. */
  constructor(file: string, first: number) {
    this.#file = file
    this.#firstPort = first
  }

  get port(): number {
    return this.#state.port!
  }

  async open(): Promise<void> {
    const kept = readJson<RouterState>(this.#file)
    if (kept?.identity && isAlive(kept.identity)) {
      this.#state = kept
      return
    }
    const token = kept?.token ?? randomBytes(24).toString('base64url')
    const attempt = randomBytes(6).toString('hex')
    writeJson(this.#file, { token, attempt, port: kept?.port })
    const child = spawn(process.execPath, [ROUTER_MAIN, this.#file, String(kept?.port ?? this.#firstPort), attempt], {
      stdio: 'ignore',
      detached: true,
      // The agent's environment holds its key.
      env: {},
    })
    child.unref()
    const deadline = Date.now() + START_TIMEOUT_MS
    for (;;) {
      const said = readJson<RouterState>(this.#file)
      if (said?.control) {
        this.#state = said
        return
      }
      if (child.exitCode !== null || Date.now() > deadline) throw new Error('The router does not start.')
      await delay(10)
    }
  }

  /** One after the other, so that the last word stands. */
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

  /** How many requests these are answering. */
  async inFlight(targets: Target[]): Promise<number> {
    const counts = (await this.#request('GET')) as Record<string, number>
    return targets.reduce((sum, target) => sum + (counts[targetKey(target)] ?? 0), 0)
  }

  /** When each deployment was last asked, as far as this router has seen it. */
  async lastRequests(): Promise<Record<string, number>> {
    return (await this.#request('GET', undefined, 'asked')) as Record<string, number>
  }

  async close(): Promise<void> {
    // What is still being told may be starting another one.
    await this.#lastApply.catch(() => {})
    const { identity } = this.#state
    if (identity && isAlive(identity)) await endGroup(identity.pid, 0)
    // The next one takes its port.
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
