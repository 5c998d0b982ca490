// Keeps the copies of processes beside `web` at the number that their load asks for, while their revision serves.
import type { LogLevel, RevisionRef } from '../../engine.ts'
import { listProcesses, type Process } from '../../system/processes.ts'
import type { Limits } from './limits.ts'
import { LoadWindow, type Moving } from './load-window.ts'
import type { ReplicaPool } from './replica-pool.ts'
import type { Target } from './router.ts'

export type MovingProcess = Moving & { ref: RevisionRef; type: string; pool: ReplicaPool; web: Target[] }
type Host = {
  limits: Limits
  list(): MovingProcess[]
  /** Its processes do not fall asleep meanwhile. */
  whileStill(deployment_id: string, work: () => Promise<void>): Promise<void>
  log(of: MovingProcess, message: string, level?: LogLevel): void
}
type Seen = { revision_id: string; window: LoadWindow; isBusy: boolean }

export class ProcessScaler {
  readonly #host: Host
  readonly #seen = new Map<string, Seen>()

  constructor(host: Host) {
    this.#host = host
  }

  async tick(now = Date.now()): Promise<void> {
    const all = this.#host.list()
    const keys = new Set(all.map(keyOf))
    for (const key of this.#seen.keys()) if (!keys.has(key)) this.#seen.delete(key)
    let processes: Process[] | undefined
    const list = () => (processes ??= listProcesses())
    await Promise.all(all.map(process => this.#look(process, list, now)))
  }

  async #look(process: MovingProcess, list: () => Process[], now: number): Promise<void> {
    const { ref, pool, web } = process
    const seen = this.#seenOf(process, now)
    // One whose deployment takes long to fall asleep holds up no other.
    if (seen.isBusy) return
    if (pool.rest !== null) return seen.window.interrupt()
    seen.isBusy = true
    const { limits, whileStill, log } = this.#host
    const follow = () =>
      seen.window.follow(process, { pool, web, list, limits, now, log: (...line) => log(process, ...line) })
    await whileStill(ref.deployment_id, follow).finally(() => {
      seen.isBusy = false
    })
  }

  #seenOf(process: MovingProcess, now: number): Seen {
    const { revision_id } = process.ref
    const known = this.#seen.get(keyOf(process))
    if (known?.revision_id === revision_id) return known
    const seen = { revision_id, window: new LoadWindow(now, known?.window), isBusy: false }
    this.#seen.set(keyOf(process), seen)
    return seen
  }
}

const keyOf = ({ ref, type }: MovingProcess) => `${ref.deployment_id}/${type}`
