// Keeps the copies of processes beside `web` at the number that their load asks for, while their revision serves.
import type { LogLevel, RevisionRef } from '../../engine.ts'
import { listProcesses, type Process } from '../../system/processes.ts'
import type { Limits } from './limits.ts'
import { LoadWindow, type Moving, type Room } from './load-window.ts'
import type { ReplicaPool } from './replica-pool.ts'
import type { Target } from './router.ts'

export type MovingProcess = Moving & { ref: RevisionRef; type: string; pool: ReplicaPool; room: Room; web: Target[] }
type Host = {
  limits: Limits
  /** The deployments that may have some. */
  list(): string[]
  find(deployment_id: string): MovingProcess[]
  /** Its processes do not fall asleep meanwhile. */
  whileStill(deployment_id: string, work: () => Promise<void>): Promise<void>
  log(of: MovingProcess, message: string, level?: LogLevel): void
}
type Windows = Map<string, { revision_id: string; window: LoadWindow }>

export class ProcessScaler {
  readonly #host: Host
  /** By deployment, and by the type of a process. */
  readonly #windows = new Map<string, Windows>()
  /** The deployments that are being looked at. */
  readonly #busy = new Set<string>()

  constructor(host: Host) {
    this.#host = host
  }

  async tick(now = Date.now()): Promise<void> {
    const ids = this.#host.list()
    for (const id of this.#windows.keys()) if (!ids.includes(id)) this.#windows.delete(id)
    let processes: Process[] | undefined
    const list = () => (processes ??= listProcesses())
    await Promise.all(ids.map(id => this.#look(id, list, now)))
  }

  /** All of its processes take one turn: one for each would leave none to `web` while queues are told late. */
  async #look(id: string, list: () => Process[], now: number): Promise<void> {
    // One whose deployment takes long to fall asleep holds up no other.
    if (this.#busy.has(id)) return
    this.#busy.add(id)
    const { find, whileStill } = this.#host
    const follow = async () => {
      const processes = find(id)
      const windows: Windows = new Map(processes.map(process => [process.type, this.#windowOf(id, process, now)]))
      this.#windows.set(id, windows)
      await Promise.all(processes.map(process => this.#follow(process, windows.get(process.type)!.window, list, now)))
    }
    await whileStill(id, follow).finally(() => this.#busy.delete(id))
  }

  async #follow(process: MovingProcess, window: LoadWindow, list: () => Process[], now: number): Promise<void> {
    const { pool, room, web } = process
    if (pool.rest !== null) return window.interrupt()
    const { limits, log } = this.#host
    await window.follow(process, { pool, room, web, list, limits, now, log: (...line) => log(process, ...line) })
  }

  #windowOf(id: string, { ref: { revision_id }, type }: MovingProcess, now: number) {
    const known = this.#windows.get(id)?.get(type)
    if (known?.revision_id === revision_id) return known
    return { revision_id, window: new LoadWindow(now, known?.window) }
  }
}
