// Revisions that get no more requests: when the ones that they have are answered, or have had their time.
import * as fs from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { RevisionRef } from '../../engine.ts'
import { writeJson } from '../../system/files.ts'
import type { Target } from './router.ts'
import type { RouterClient } from './router-client.ts'

const POLL_MS = 50
/** So many failed looks in a row: the router is gone, and its requests with it. */
const MAX_FAILURES = 20

type Host = {
  router: Pick<RouterClient, 'inFlight'>
  /** The time of targets that have none of their own. */
  drain_ms: number
  fileOf: (ref: RevisionRef) => string
  changed: (deployment_id: string) => void
}

export class Draining {
  readonly #host: Host
  readonly #drained = new Set<string>()

  constructor(host: Host) {
    this.#host = host
  }

  /** Recorded for the next agent. */
  record(ref: RevisionRef): void {
    writeJson(this.#host.fileOf(ref), {})
  }

  isRecorded(ref: RevisionRef): boolean {
    return fs.existsSync(this.#host.fileOf(ref))
  }

  phaseOf(ref: RevisionRef): 'drained' | 'draining' | undefined {
    if (this.#drained.has(ref.revision_id)) return 'drained'
    return this.isRecorded(ref) ? 'draining' : undefined
  }

  async await({ deployment_id, revision_id }: RevisionRef, targets: Target[]): Promise<void> {
    await this.untilAnswered(targets)
    this.#drained.add(revision_id)
    this.#host.changed(deployment_id)
  }

  async untilAnswered(targets: Target[]): Promise<void> {
    const { router, drain_ms } = this.#host
    const times = targets.map(target => ('site' in target ? undefined : target.drain_ms) ?? drain_ms)
    const deadline = Date.now() + Math.max(0, ...times)
    for (let failures = 0; Date.now() < deadline && failures < MAX_FAILURES; await delay(POLL_MS)) {
      const inFlight = await router.inFlight(targets).catch(() => null)
      if (inFlight === 0) return
      failures = inFlight === null ? failures + 1 : 0
    }
  }

  forget(revision_id: string): void {
    this.#drained.delete(revision_id)
  }
}
