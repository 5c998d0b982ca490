// The load of the copies of a process over the last minute, and the number of copies that it asks for.
import { decideCopies, keepSamples, type Sample, type ScaleRule } from '../../../protocol/scaling.ts'
import type { Process } from '../../system/processes.ts'
import type { Limits } from './limits.ts'
import { askQueueDepth } from './queue-depth.ts'
import type { Replica } from './replica.ts'
import type { ReplicaPool } from './replica-pool.ts'
import type { RequestLoad } from './request-loads.ts'
import type { Target } from './router.ts'

/** `path`: where `web` tells the depth of the queue. `amounts`: of one copy. */
export type Moving = { rule: ScaleRule & { path: string }; amounts: { cpu: number; memory_mb: number } }
/** The most copies of a process that there is room for now, beside those of the others. */
export type Room = () => number
type Sources = {
  pool: ReplicaPool
  room: Room
  /** The copies of `web`. */
  web: Target[]
  /** The requests to them. Undefined: none since the router started. */
  load?: RequestLoad | undefined
  list: () => Process[]
  limits: Pick<Limits, 'scale' | 'probe_timeout_ms'>
  now: number
  log: (message: string, level?: 'WARNING') => void
}

const MIB = 1024 * 1024

export class LoadWindow {
  #samples: Sample[]
  #changedAt: number
  #before: { at: number; busy_ms: number; requests: number } | undefined
  #used: { at: number; cpu_ms: number; copies: Replica[] } | undefined
  /** The reason why the queue could not be asked the last time. */
  #problem: string | null = null

  /** The load of the revision before is that of this one. */
  constructor(now: number, earlier?: LoadWindow) {
    this.#samples = earlier ? earlier.#samples : []
    this.#changedAt = now
  }

  /** Totals before now say nothing. */
  interrupt(): void {
    this.#before = undefined
    this.#used = undefined
  }

  /** Moves the copies by what they carry now. */
  async follow({ rule, amounts }: Moving, sources: Sources): Promise<void> {
    const { pool, room, now, limits, log } = sources
    const load = await this.#measure(rule, amounts, sources)
    if (load !== undefined) this.#samples = keepSamples([...this.#samples, { at: now, load }], now, limits.scale)
    const copies = pool.copies.wanted
    // Asked now: others may have grown meanwhile. Copies that are there stay.
    const most = Math.min(rule.most, Math.max(rule.least, copies, room()))
    const present = { copies, changedAt: this.#changedAt, samples: this.#samples, now }
    const decided = decideCopies({ ...rule, most }, present, limits.scale)
    // It may have fallen asleep meanwhile.
    if (decided.copies === copies || pool.rest !== null) return
    this.#changedAt = now
    const message = `${countCopies(decided.copies)} instead of ${copies}: ${decided.reason}.`
    pool.recordIncident('scaled', message)
    log(message)
    pool.scale(decided.copies)
  }

  #measure({ metric, path }: Moving['rule'], amounts: Moving['amounts'], sources: Sources) {
    if (metric === 'queue') return this.#measureQueue(path, sources)
    if (metric === 'concurrency' || metric === 'requests') return this.#measureRequests(metric, sources)
    return this.#measureUsage(metric, amounts, sources)
  }

  async #measureQueue(path: string, { pool, web, limits, log }: Sources): Promise<number | undefined> {
    const answer = await askQueueDepth(web, path, limits.probe_timeout_ms)
    const problem = 'problem' in answer ? answer.problem : null
    if (problem !== null && problem !== this.#problem) log(`The number of copies stays: ${problem}.`, 'WARNING')
    this.#problem = problem
    pool.queueDepth = 'depth' in answer ? answer.depth : undefined
    return pool.queueDepth
  }

  #measureRequests(metric: 'concurrency' | 'requests', { load, now }: Sources): number | undefined {
    const before = this.#before
    const { busy_ms = 0, requests = 0 } = load ?? {}
    this.#before = { at: now, busy_ms, requests }
    // The totals of a router begin anew with it.
    if (!before || now <= before.at || requests < before.requests || busy_ms < before.busy_ms) return undefined
    const ms = now - before.at
    return metric === 'concurrency' ? (busy_ms - before.busy_ms) / ms : (1000 * (requests - before.requests)) / ms
  }

  async #measureUsage(
    metric: 'cpu' | 'memory',
    { cpu, memory_mb }: Moving['amounts'],
    { pool, list, now }: Sources,
  ): Promise<number | undefined> {
    const used = await pool.load(list)
    if (!used) return undefined
    if (metric === 'memory') return (100 * used.memory_bytes) / (memory_mb * MIB)
    const before = this.#used
    this.#used = { at: now, ...used }
    const isSame =
      before?.copies.length === used.copies.length && used.copies.every(copy => before.copies.includes(copy))
    if (!isSame || now <= before.at) return undefined
    return (100 * Math.max(0, used.cpu_ms - before.cpu_ms)) / (now - before.at) / cpu
  }
}

const countCopies = (count: number): string =>
  count === 0 ? 'No copies' : `${count} ${count === 1 ? 'copy' : 'copies'}`
