// The copies of one revision: kept at their number, probed, started again with growing pauses, and judged.
import { describeError } from '../../redaction/error-messages.ts'
import { appendLastLines } from '../../redaction/last-lines.ts'
import type { Process } from '../../system/processes.ts'
import type { LogLevel, RevisionHealth } from '../engine.ts'
import type { Limits } from './limits.ts'
import type { Target } from './router.ts'

export type Health = { ok: true; target: Target } | { ok: false; reason: string }

/** One running copy of an application, whatever it is made of. */
export interface Replica {
  /** What it wrote last. */
  readonly lastLines: string[]
  /** How it ended, to be read after "it"; undefined for as long as it has not. */
  readonly endReason: string | undefined
  /** Why it was killed is known already. */
  hasKillReason: boolean
  /** Called once, when it has ended by itself or was killed. */
  onExit: () => void
  /** Its processes, where they are of this machine. */
  pids?(all: Process[]): number[]
  probe(path: string | null, timeout: number): Promise<Health>
  /** Finds out whether it has ended, if nothing else tells. */
  checkExit?(): void
  /** Whole lines that were written since the last time. */
  readLines(final?: boolean): string[]
  kill(): void
  /** Asks it to end, and makes it when it has not after a while. */
  end(grace: number): Promise<void>
  /** Removes what is left of one that has ended. */
  forget(): void
  /** Lets it run on, for the next agent. */
  release(): void
}

export type ReplicaTemplate = {
  launch: () => Replica | Promise<Replica>
  health_path: string | null
  copies: number
  /** What each may use, where nobody else sees to it. */
  memory_mb: number
}
/** By which its health is judged. */
export type HealthPolicy = Pick<ReplicaTemplate, 'health_path' | 'copies'>
type ReplicaSlot = {
  copy: Replica | undefined
  launching: Promise<void> | undefined
  target: Target | undefined
  failures: number
  crashes: number
  restartAt: number
  healthySince: number
  probedAt: number
  probing: boolean
}
type PoolEvents = { changed: () => void; log: (message: string, level: LogLevel) => void }

const emptySlot = (copy?: Replica): ReplicaSlot => ({
  ...{ copy, launching: undefined, target: undefined, failures: 0, crashes: 0, restartAt: 0 },
  ...{ healthySince: 0, probedAt: 0, probing: false },
})

export class ReplicaPool {
  readonly #limits: Limits
  readonly #events: PoolEvents
  #slots: ReplicaSlot[] = []
  #template: ReplicaTemplate | undefined
  #healthPolicy: HealthPolicy | undefined
  #startedAt = Date.now()
  #wasHealthy = false
  #wasFailing = false
  #isSlowLogged = false
  #problem: string | null = null
  #stopping = false
  #slowTickAt = 0

  constructor(limits: Limits, told: PoolEvents) {
    this.#limits = limits
    this.#events = told
  }

  /** Takes over what an earlier agent left running; where nothing is known of it, its health is not asked before it is started again. */
  async adopt(replicas: Replica[], known: HealthPolicy | undefined): Promise<void> {
    this.#healthPolicy = known
    this.#slots = replicas.map(copy => {
      const slot = emptySlot(copy)
      copy.onExit = () => this.#handleExit(slot)
      return slot
    })
    // Whether they are well is known before anything is decided; what else is asked of their health comes later.
    await Promise.all(this.#slots.map(slot => this.#probe(slot)))
  }

  /** Also for what was adopted, and for what is already as wanted. */
  start(recipe: ReplicaTemplate): void {
    this.#template = recipe
    this.#healthPolicy = recipe
    while (this.#slots.length < recipe.copies) this.#slots.push(emptySlot())
    for (const surplus of this.#slots.splice(recipe.copies)) void this.#stopSlot(surplus)
    this.tick()
  }

  /** Cheap, and often: everything that time brings. */
  tick(): void {
    if (this.#stopping) return
    const now = Date.now()
    for (const slot of this.#slots) {
      for (const line of slot.copy?.readLines() ?? []) this.#events.log(line, 'INFO')
      if (slot.copy) {
        if (now - this.#slowTickAt > 500) slot.copy.checkExit?.()
        const pause = slot.healthySince ? this.#limits.probe_ms : this.#limits.starting_probe_ms
        if (!slot.probing && now - slot.probedAt >= pause) void this.#probe(slot)
      } else if (this.#template && !slot.launching && now >= slot.restartAt)
        slot.launching = this.#launch(slot, this.#template)
    }
    if (now - this.#slowTickAt > 500) this.#slowTickAt = now
    this.#logSlowStart(now - this.#startedAt)
    // Time alone may have made it a failure, which is news once.
    const failing = this.phase() === 'failing'
    if (failing && !this.#wasFailing) this.#events.changed()
    this.#wasFailing = failing
  }

  #logSlowStart(ms: number): void {
    if (this.#isSlowLogged || ms < this.#limits.slow_ms || !this.#problem || this.phase() !== 'starting') return
    this.#isSlowLogged = true
    const patience = `it is given up when it is not after ${Math.round(this.#limits.ready_ms / 1000)} s`
    this.#events.log(`Not healthy yet: ${this.#problem}; ${patience}.`, 'WARNING')
  }

  phase(): RevisionHealth['phase'] {
    if (this.targets().length > 0 && (this.#wasHealthy || this.#isComplete())) return 'healthy'
    if (this.#wasHealthy) return 'unhealthy'
    const looping = this.#slots.some(slot => slot.crashes >= this.#limits.crashes)
    const late = Date.now() - this.#startedAt > this.#limits.ready_ms
    return looping || late ? 'failing' : 'starting'
  }

  reason(): string | null {
    const phase = this.phase()
    if (phase === 'healthy') return null
    const looping = this.#slots.find(slot => slot.crashes >= this.#limits.crashes)
    const seconds = Math.round(this.#limits.ready_ms / 1000)
    const trouble = this.#problem ?? 'it is starting'
    const said = looping
      ? `Crash loop: it ended ${looping.crashes} times in a row; the last time ${trouble}.`
      : phase === 'failing'
        ? `It was not healthy within ${seconds} s: ${trouble}.`
        : this.#problem && `It is not well: ${trouble}.`
    if (!said) return null
    const lines = this.#lastLogLines()
    return lines.length ? appendLastLines(said, lines) : `${said} It wrote nothing.`
  }

  targets(): Target[] {
    return this.#slots.flatMap(slot => slot.target ?? [])
  }

  copies(): Replica[] {
    return this.#slots.flatMap(slot => slot.copy ?? [])
  }

  /** Holds each copy to its memory. */
  enforceMemory(used: Map<Replica, number>): void {
    for (const { copy } of this.#slots) {
      const megabytes = (copy && used.get(copy)) ?? 0
      if (!this.#template || megabytes <= this.#template.memory_mb) continue
      const limit = this.#template.memory_mb
      this.killForReason(
        copy!,
        `it used ${Math.round(megabytes)} MB of memory, more than its memory_limit_mb of ${limit}`,
      )
    }
  }

  killAllForReason(reason: string, copies = this.copies()): void {
    for (const copy of copies) this.killForReason(copy, reason)
  }

  /** Told once: it may take its time to end, and whoever measured it may come late. */
  killForReason(copy: Replica, reason: string): void {
    if (!this.copies().includes(copy)) return
    if (copy.hasKillReason) return void copy.kill()
    this.#problem = reason
    copy.hasKillReason = true
    this.#events.log(`Killed: ${reason}.`, 'ERROR')
    // However long its end takes, it gets no more requests.
    for (const slot of this.#slots) if (slot.copy === copy) slot.target = undefined
    copy.kill()
    this.#events.changed()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all(this.#slots.map(slot => this.#stopSlot(slot)))
    this.#slots = []
  }

  /** Lets go: they run on. */
  release(): void {
    this.#stopping = true
    for (const { copy } of this.#slots) copy?.release()
  }

  #isComplete(): boolean {
    return this.#healthPolicy !== undefined && this.targets().length >= this.#healthPolicy.copies
  }

  async #launch(slot: ReplicaSlot, recipe: ReplicaTemplate): Promise<void> {
    const launched = await Promise.resolve(recipe.launch()).catch((error: Error) => error)
    slot.launching = undefined
    if (launched instanceof Error) return this.#recordCrash(slot, `could not be started: ${describeError(launched)}`)
    Object.assign(slot, { copy: launched, failures: 0, probedAt: 0 })
    // Whoever stops it waits for this moment.
    if (this.#stopping || !this.#slots.includes(slot)) return
    launched.onExit = () => this.#handleExit(slot)
    if (launched.endReason) this.#handleExit(slot)
  }

  #handleExit(slot: ReplicaSlot): void {
    const { copy } = slot
    if (!copy || this.#stopping) return
    for (const line of copy.readLines(true)) this.#events.log(line, 'INFO')
    this.#exitedLines = [...copy.lastLines]
    copy.forget()
    this.#recordCrash(slot, copy.hasKillReason ? undefined : copy.endReason)
  }
  #exitedLines: string[] = []

  #recordCrash(slot: ReplicaSlot, how: string | undefined): void {
    if (this.#stopping) return
    const now = Date.now()
    const calm = slot.healthySince > 0 && now - slot.healthySince > this.#limits.calm_ms
    slot.crashes = calm ? 1 : slot.crashes + 1
    const pause = Math.min(this.#limits.backoff_ms * 2 ** (slot.crashes - 1), this.#limits.longest_backoff_ms)
    if (how) {
      this.#problem = `it ${how}`
      this.#events.log(`Ended: it ${how}; started again in ${pause / 1000} s.`, 'ERROR')
    }
    Object.assign(slot, { copy: undefined, target: undefined, healthySince: 0, restartAt: now + pause })
    this.#events.changed()
  }

  async #probe(slot: ReplicaSlot): Promise<void> {
    const { copy } = slot
    if (!copy || !this.#healthPolicy) return
    slot.probing = true
    const health = await copy.probe(this.#healthPolicy.health_path, this.#limits.probe_timeout_ms)
    slot.probing = false
    slot.probedAt = Date.now()
    if (slot.copy !== copy || this.#stopping || copy.hasKillReason) return
    if (health.ok) {
      slot.failures = 0
      if (slot.target) return
      slot.target = health.target
      slot.healthySince = Date.now()
      if (this.#isComplete()) this.#wasHealthy = true
      this.#events.changed()
      return
    }
    // While it starts, why it is not well yet is only of interest when it never gets well.
    if (!slot.healthySince) {
      if (!copy.endReason && !(slot.crashes > 0)) this.#problem = health.reason
      return
    }
    slot.failures++
    if (slot.failures >= this.#limits.patience)
      this.killForReason(copy, `its health check failed ${slot.failures} times in a row: ${health.reason}`)
  }

  async #stopSlot(slot: ReplicaSlot): Promise<void> {
    await slot.launching
    const { copy } = slot
    if (!copy) return
    await copy.end(this.#limits.stop_ms)
    for (const line of copy.readLines(true)) this.#events.log(line, 'INFO')
    copy.forget()
  }

  #lastLogLines(): string[] {
    const lines = this.#slots.flatMap(({ copy }) => copy?.lastLines ?? [])
    return lines.length ? lines : this.#exitedLines
  }
}
