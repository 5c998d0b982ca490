// Terminals and forwarded ports beside a copy: each wakes its deployment, and keeps it awake until its end.
import type { Duplex } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { ForwardTarget, Terminal } from '../../engine.ts'
import type { Scaler } from './scaler.ts'

const AWAKEN_MS = 30_000

export class BesideCopies {
  readonly #scaler: Pick<Scaler, 'use' | 'wake'>
  readonly #isHeld: (deployment_id: string) => boolean

  constructor(scaler: Pick<Scaler, 'use' | 'wake'>, isHeld: (deployment_id: string) => boolean) {
    this.#scaler = scaler
    this.#isHeld = isHeld
  }

  terminal(deployment_id: string, open: () => Promise<Terminal>): Promise<Terminal> {
    return this.#begin(deployment_id, async end => {
      const terminal = await open()
      return { ...terminal, close: () => terminal.close().finally(end) }
    })
  }

  /** `find` throws where there is nothing to connect to. Copies may sleep and end while the port is open. */
  async forward<T>(
    deployment_id: string,
    find: () => T,
    connect: (found: T) => Promise<Duplex>,
  ): Promise<ForwardTarget> {
    await this.#begin(deployment_id, async end => {
      find()
      end()
    })
    return {
      connect: () => this.#begin(deployment_id, async end => (await connect(find())).once('close', end)),
    }
  }

  async #begin<T>(deployment_id: string, begin: (end: () => void) => Promise<T>): Promise<T> {
    const end = this.#scaler.use(deployment_id)
    try {
      await this.#scaler.wake(deployment_id, 'a terminal or a port was opened')
      const deadline = Date.now() + AWAKEN_MS
      while (this.#isHeld(deployment_id) && Date.now() < deadline) await delay(20)
      return await begin(end)
    } catch (error) {
      end()
      throw error
    }
  }
}
