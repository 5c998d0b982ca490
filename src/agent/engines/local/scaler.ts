// Keeps the copies of the revisions that serve at the number that their load asks for, and puts to sleep those that
// get no requests. `decideCopies` decides the number; this asks for it, and decides the sleep.
import type { LogLevel, RevisionRef } from '../../engine.ts'
import { listProcesses, type Process } from '../../system/processes.ts'
import type { Limits } from './limits.ts'
import { LoadWindow, type Moving, type Room } from './load-window.ts'
import type { ReplicaPool } from './replica-pool.ts'
import type { RequestLoad } from './request-loads.ts'
import type { StoredRest } from './rest-records.ts'
import type { Target } from './router.ts'
import type { RouterClient } from './router-client.ts'
import { askToSleep } from './sleep-check.ts'

/** The way in which the copies of a revision move. `amounts`: of one copy. */
export type Scaling = {
  rule: Moving['rule'] | null
  /** Null: it does not sleep. `path`: it is asked there whether it may. Null: it is not asked. */
  sleep: { idle_ms: number; frozen_ms: number; path: string | null } | null
  amounts: Moving['amounts']
}
const NO_AMOUNTS = { cpu: 1, memory_mb: 1 }
/** Copies that may not sleep any more. */
export const AWAKE: Scaling = { rule: null, sleep: null, amounts: NO_AMOUNTS }
/** Copies that an earlier agent put to sleep, until it is known how they move: only what it has stored wakes them. */
export const AS_IT_IS: Scaling = {
  rule: null,
  sleep: { idle_ms: 1e12, frozen_ms: 1e12, path: null },
  amounts: NO_AMOUNTS,
}

/** `others`: the processes that sleep and wake with `pool`, by their types. */
export type Scaled = {
  ref: RevisionRef
  pool: ReplicaPool
  room: Room
  others: Map<string, ReplicaPool>
  scaling: Scaling
}
type Host = {
  limits: Limits
  router: Pick<RouterClient, 'loads' | 'inFlight'>
  /** The revisions that get requests and whose copies may move. */
  list(): Scaled[]
  find(deployment_id: string): Scaled | undefined
  /** Returns once the router follows the present state of the pools. */
  applyRoutes(): Promise<void>
  /** Kept for the next agent. */
  readRest(ref: RevisionRef): StoredRest | null
  recordRest(ref: RevisionRef, rest: StoredRest | null): void
  log(ref: RevisionRef, message: string, level?: LogLevel): void
}

type Seen = {
  revision_id: string
  window: LoadWindow
  /** It is not idle before. */
  awakeSince: number
  frozenSince: number
  /** The time at which it has to be awake again. Null: only a request wakes it. */
  wakeAt: number | null
  /** It is not asked again before whether it may sleep. */
  askAt: number
  /** The reason why it could not be asked the last time. */
  problem: string | null
}

export class Scaler {
  readonly #host: Host
  readonly #seen = new Map<string, Seen>()
  /** One change of a deployment at a time. */
  readonly #turns = new Map<string, Promise<unknown>>()
  /** Counts the people who work beside a copy of each. */
  readonly #used = new Map<string, number>()
  #isReading = false

  constructor(host: Host) {
    this.#host = host
  }

  /** A request waits for it, or a person. */
  wake(deployment_id: string, reason = 'a request came'): Promise<void> {
    return this.#inTurn(deployment_id, async () => {
      const scaled = this.#host.find(deployment_id)
      if (scaled?.pool.rest) await this.#wake(scaled, reason)
    })
  }

  async tick(now = Date.now()): Promise<void> {
    const all = this.#host.list()
    const ids = new Set(all.map(({ ref }) => ref.deployment_id))
    for (const id of this.#seen.keys()) if (!ids.has(id)) this.#seen.delete(id)
    if (all.length === 0 || this.#isReading) return
    this.#isReading = true
    const loads = await this.#host.router.loads().finally(() => {
      this.#isReading = false
    })
    let processes: Process[] | undefined
    const list = () => (processes ??= listProcesses())
    // One that takes long to end or to wake holds up no other.
    const free = all.filter(({ ref }) => !this.#turns.has(ref.deployment_id))
    await Promise.all(
      free.map(scaled => {
        const { deployment_id } = scaled.ref
        return this.#inTurn(deployment_id, () => this.#look(scaled, loads[deployment_id], list, now))
      }),
    )
  }

  /** It does not sleep until the returned function is called. */
  use(deployment_id: string): () => void {
    const change = (by: number) => {
      const count = (this.#used.get(deployment_id) ?? 0) + by
      if (count > 0) this.#used.set(deployment_id, count)
      else this.#used.delete(deployment_id)
    }
    change(1)
    let isOver = false
    return () => {
      if (!isOver) change(-1)
      isOver = true
    }
  }

  /** Meanwhile it neither sleeps nor wakes: its processes stand still for another reason, such as a copy of a disk. */
  whileStill<T>(deployment_id: string, work: () => Promise<T>): Promise<T> {
    return this.#inTurn(deployment_id, work)
  }

  #inTurn<T>(deployment_id: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(deployment_id) ?? Promise.resolve()).catch(() => {}).then(work)
    this.#turns.set(deployment_id, turn)
    const forget = () => this.#turns.get(deployment_id) === turn && this.#turns.delete(deployment_id)
    turn.then(forget, forget)
    return turn
  }

  async #look(scaled: Scaled, load: RequestLoad | undefined, list: () => Process[], now: number): Promise<void> {
    const { pool, room, scaling } = scaled
    const seen = this.#seenOf(scaled, now)
    if (pool.rest) {
      // The line of the router that says so may have been lost with a connection.
      if (load?.held) return this.#wake(scaled, 'a request came')
      if (!scaling.sleep) return this.#wake(scaled, 'it may not sleep any more')
      if (seen.wakeAt !== null && now >= seen.wakeAt - this.#host.limits.wake_ahead_ms)
        return this.#wake(scaled, `it asked to be awake at ${new Date(seen.wakeAt).toISOString()}`)
      const isOver = now - seen.frozenSince >= scaling.sleep.frozen_ms
      if (pool.rest === 'frozen' && isOver) this.#stop(scaled, seen)
      return
    }
    if (pool.holds || pool.phase() !== 'healthy') return seen.window.interrupt()
    if (this.#used.has(scaled.ref.deployment_id)) seen.awakeSince = now
    if (this.#isIdle(scaled, seen, load, now) && (await this.#sleep(scaled, seen, now))) return
    const { rule, amounts } = scaling
    if (!rule) return
    const log = (message: string, level?: LogLevel) => this.#host.log(scaled.ref, message, level)
    const web = rule.metric === 'queue' ? pool.targets() : []
    const { limits } = this.#host
    await seen.window.follow({ rule, amounts }, { pool, room, web, load, list, limits, now, log })
  }

  #seenOf({ ref }: Scaled, now: number): Seen {
    const { deployment_id, revision_id } = ref
    const known = this.#seen.get(deployment_id)
    if (known?.revision_id === revision_id) return known
    const wakeAt = this.#host.readRest(ref)?.wake_at ?? null
    const fresh: Seen = {
      revision_id,
      window: new LoadWindow(now, known?.window),
      awakeSince: now,
      frozenSince: now,
      wakeAt,
      askAt: 0,
      problem: null,
    }
    this.#seen.set(deployment_id, fresh)
    return fresh
  }

  #isIdle({ scaling: { sleep } }: Scaled, { awakeSince }: Seen, load: RequestLoad | undefined, now: number): boolean {
    if (!sleep || (load && (load.in_flight > 0 || load.held))) return false
    return now - Math.max(awakeSince, load?.last_at ?? 0) >= sleep.idle_ms
  }

  /**
   * While requests are held, it is certain that none is sent to what stops, and an answer that it may sleep stays true.
   * It is asked before that too, so that one with work to do holds up no requests. False: it stays awake.
   */
  async #sleep(scaled: Scaled, seen: Seen, now: number): Promise<boolean> {
    const { pool, others, scaling } = scaled
    const { frozen_ms } = scaling.sleep!
    if (!(await this.#maySleep(scaled, seen, pool.targets()))) return false
    const targets = pool.hold()
    try {
      await this.#host.applyRoutes()
      const isFree = (await this.#host.router.inFlight(targets)) === 0
      if (!isFree || !(await this.#maySleep(scaled, seen, targets))) {
        await this.#resume(scaled)
        return false
      }
    } catch {
      await this.#resume(scaled)
      return false
    }
    seen.frozenSince = now
    for (const other of others.values()) other.hold()
    const isFrozen = frozen_ms > 0 && (await freezeAll([...others.values(), pool]))
    this.#record(scaled, `Sleeps${isFrozen ? ', frozen' : ''}: ${describeSleep(scaling, seen)}.`)
    if (isFrozen) this.#recordRest(scaled, seen, 'frozen')
    else this.#stop(scaled, seen)
    return true
  }

  /** An application that works also without requests says whether it has something to do, and when it will have. */
  async #maySleep({ ref, scaling }: Scaled, seen: Seen, targets: Target[]): Promise<boolean> {
    const path = scaling.sleep?.path ?? null
    seen.wakeAt = null
    if (path === null) return true
    if (Date.now() < seen.askAt) return false
    const { limits, log } = this.#host
    const answer = await askToSleep(targets, path, limits.probe_timeout_ms)
    const problem = answer.may_sleep ? null : answer.problem
    if (problem !== null && problem !== seen.problem) log(ref, `Does not sleep: ${problem}.`, 'WARNING')
    seen.problem = problem
    if (answer.may_sleep && (answer.wake_at === null || answer.wake_at - Date.now() >= limits.least_sleep_ms)) {
      seen.wakeAt = answer.wake_at
      return true
    }
    seen.askAt = Date.now() + limits.sleep_ask_ms
    return false
  }

  #recordRest({ ref, others }: Scaled, { wakeAt }: Seen, rest: 'frozen' | 'stopped'): void {
    this.#host.recordRest(ref, { rest, wake_at: wakeAt, types: [...others.keys()] })
  }

  #stop(scaled: Scaled, seen: Seen): void {
    this.#recordRest(scaled, seen, 'stopped')
    for (const pool of [scaled.pool, ...scaled.others.values()]) pool.stopCopies()
  }

  /** A request was faster, or work. */
  async #resume({ pool }: Scaled): Promise<void> {
    await pool.wake()
    await this.#host.applyRoutes()
  }

  async #wake(scaled: Scaled, reason: string): Promise<void> {
    const { ref, pool, others } = scaled
    await Promise.all([pool, ...others.values()].map(one => one.wake()))
    this.#host.recordRest(ref, null)
    const seen = this.#seenOf(scaled, Date.now())
    Object.assign(seen, { awakeSince: Date.now(), wakeAt: null })
    seen.window.interrupt()
    this.#record(scaled, `Wakes: ${reason}.`)
    await this.#host.applyRoutes()
  }

  #record({ ref, pool }: Scaled, message: string): void {
    pool.recordIncident('scaled', message)
    this.#host.log(ref, message)
  }
}

function describeSleep({ sleep }: Scaling, { wakeAt }: Seen): string {
  const until = wakeAt === null ? '' : `, and it asked to be awake at ${new Date(wakeAt).toISOString()}`
  return `no request came for ${Math.round(sleep!.idle_ms / 1000)} s${until}`
}

/** False: one of them cannot be frozen. */
async function freezeAll(pools: ReplicaPool[]): Promise<boolean> {
  for (const pool of pools) if (!(await pool.freeze())) return false
  return true
}
