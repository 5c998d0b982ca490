// Requests to a revision whose copies all have as many as they may: they wait in turn, within bounds of number and
// time. Each revision has a queue of its own: where the traffic is split, one that is stuck holds up no other.
import type * as http from 'node:http'

export type WaitLimits = { waiting: number; waiting_in_all: number; wait_ms: number }
export const WAIT_LIMITS: WaitLimits = {
  /** The most of one revision. */
  waiting: 100,
  waiting_in_all: 1_000,
  wait_ms: 10_000,
}
/** Each revision has so many, also where those of all are taken. */
const OWN_PLACES = 4

/** A request has waited in `queue`, and may take a place at a copy. */
export class Turn {
  queue: string | undefined
  readonly #res: http.ServerResponse
  #gone: AbortSignal | undefined

  constructor(res: http.ServerResponse) {
    this.#res = res
  }

  get gone(): AbortSignal {
    if (this.#gone) return this.#gone
    const controller = new AbortController()
    if (this.#res.destroyed) controller.abort()
    else this.#res.once('close', () => controller.abort())
    this.#gone = controller.signal
    return this.#gone
  }
}

export class WaitingRequests {
  readonly #limits: WaitLimits
  readonly #queues = new Map<string, Set<() => void>>()
  #all = 0

  constructor(limits: WaitLimits) {
    this.#limits = limits
  }

  /** Others wait that came before it. */
  isBehind(turn: Turn, revision: string): boolean {
    return turn.queue !== revision && this.#queues.has(revision)
  }

  /** False if too many wait, it has waited too long, or its client is gone. */
  async wait(revision: string, deadline: number, turn: Turn): Promise<boolean> {
    const { gone } = turn
    const queue = this.#queues.get(revision) ?? new Set()
    const isFull = this.#all >= this.#limits.waiting_in_all && queue.size >= OWN_PLACES
    if (queue.size >= this.#limits.waiting || isFull || gone.aborted) return false
    this.#queues.set(revision, queue)
    this.#all++
    return new Promise(resolve => {
      const leave = (isItsTurn: boolean) => {
        clearTimeout(timer)
        gone.removeEventListener('abort', giveUp)
        queue.delete(go)
        if (queue.size === 0) this.#queues.delete(revision)
        this.#all--
        if (isItsTurn) turn.queue = revision
        resolve(isItsTurn)
      }
      const go = () => leave(true)
      const giveUp = () => leave(false)
      const timer = setTimeout(giveUp, Math.max(0, deadline - Date.now()))
      gone.addEventListener('abort', giveUp)
      queue.add(go)
    })
  }

  /** One that takes no place in its queue leaves it to the next one, which also goes if `hasRoom` is left. */
  endTurn(turn: Turn, taken?: string, hasRoom = false): void {
    const { queue } = turn
    turn.queue = undefined
    if (queue !== undefined && (queue !== taken || hasRoom)) this.next(queue)
  }

  /** A copy can take another request. */
  next(revision: string): void {
    const [first] = this.#queues.get(revision) ?? []
    first?.()
  }

  /** The routes have changed: all look again. */
  look(): void {
    for (const queue of [...this.#queues.values()]) for (const go of [...queue]) go()
  }
}
