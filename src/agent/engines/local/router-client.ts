// The agent's side of the router: finds the one that runs, or starts it; hands it routes; asks it who is still being answered.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readJson, writeJson } from '../../files.ts'
import { endGroup, type Identity, isAlive } from '../../processes.ts'
import { nameOf, type Route, type Target } from './router.ts'

type Kept = { token: string; port?: number; control?: number; identity?: Identity }

const MAIN = fileURLToPath(new URL('./router-main.ts', import.meta.url))
/** It tells of its end itself; a machine may be busy. */
const START_WITHIN = 60_000

export class RouterClient {
  readonly #file: string
  readonly #first: number
  #kept: Kept = { token: '' }
  #applied: Promise<unknown> = Promise.resolve()

  /** The first port to try, when there was none before. */
  constructor(file: string, first: number) {
    this.#file = file
    this.#first = first
  }

  get port(): number {
    return this.#kept.port!
  }

  async open(): Promise<void> {
    const kept = readJson<Kept>(this.#file)
    if (kept?.identity && isAlive(kept.identity)) {
      this.#kept = kept
      return
    }
    const token = kept?.token ?? randomBytes(24).toString('base64url')
    const attempt = randomBytes(6).toString('hex')
    writeJson(this.#file, { token, attempt, port: kept?.port })
    const child = spawn(process.execPath, [MAIN, this.#file, String(kept?.port ?? this.#first), attempt], {
      stdio: 'ignore',
      detached: true,
      // The agent's environment holds its key.
      env: {},
    })
    child.unref()
    const deadline = Date.now() + START_WITHIN
    for (;;) {
      const said = readJson<Kept>(this.#file)
      if (said?.control) {
        this.#kept = said
        return
      }
      if (child.exitCode !== null || Date.now() > deadline) throw new Error('The router does not start.')
      await delay(10)
    }
  }

  /** One after the other, so that the last word stands. */
  apply(routes: () => Route[]): Promise<void> {
    const applied = this.#applied
      .catch(() => {})
      .then(async () => {
        if (this.#kept.identity && !isAlive(this.#kept.identity)) await this.open()
        await this.#ask('PUT', JSON.stringify(routes()))
      })
    this.#applied = applied
    return applied
  }

  /** How many requests these are answering. */
  async inFlight(targets: Target[]): Promise<number> {
    const counts = (await this.#ask('GET')) as Record<string, number>
    return targets.reduce((sum, target) => sum + (counts[nameOf(target)] ?? 0), 0)
  }

  /** When each deployment was last asked, as far as this router has seen it. */
  async asked(): Promise<Record<string, number>> {
    return (await this.#ask('GET', undefined, 'asked')) as Record<string, number>
  }

  async close(): Promise<void> {
    // What is still being told may be starting another one.
    await this.#applied.catch(() => {})
    const { identity } = this.#kept
    if (identity && isAlive(identity)) await endGroup(identity.pid, 0)
    // The next one takes its port.
    const { token, port } = this.#kept
    writeJson(this.#file, { token, port })
  }

  async #ask(method: string, body?: string, path = ''): Promise<unknown> {
    const answer = await fetch(`http://127.0.0.1:${this.#kept.control}/${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.#kept.token}` },
      ...(body !== undefined && { body }),
    })
    if (!answer.ok) throw new Error(`The router answers ${answer.status}.`)
    return answer.json()
  }
}
