// The copies of one revision: kept at their number, probed, started again with growing pauses, and judged.
import { faultOf } from '../../faults.ts'
import { withLast } from '../../last-lines.ts'
import type { Process } from '../../processes.ts'
import type { Level, Running } from '../engine.ts'
import type { Limits } from './limits.ts'
import type { Target } from './router.ts'

export type Health = { ok: true; target: Target } | { ok: false; reason: string }

/** One running copy of an application, whatever it is made of. */
export interface Copy {
  /** What it wrote last. */
  readonly last: string[]
  /** How it ended, to be read after "it"; undefined for as long as it has not. */
  readonly ending: string | undefined
  /** Why it was killed is known already. */
  blamed: boolean
  /** Called once, when it has ended by itself or was killed. */
  onExit: () => void
  /** Its processes, where they are of this machine. */
  pids?(all: Process[]): number[]
  probe(path: string | null, timeout: number): Promise<Health>
  /** Finds out whether it has ended, if nothing else tells. */
  look?(): void
  /** Whole lines that were written since the last time. */
  lines(final?: boolean): string[]
  kill(): void
  /** Asks it to end, and makes it when it has not after a while. */
  end(grace: number): Promise<void>
  /** Removes what is left of one that has ended. */
  forget(): void
  /** Lets it run on, for the next agent. */
  release(): void
}

export type Recipe = {
  launch: () => Copy | Promise<Copy>
  health_path: string | null
  copies: number
  /** What each may use, where nobody else sees to it. */
  memory_mb: number
}
/** By which its health is judged. */
export type Known = Pick<Recipe, 'health_path' | 'copies'>
type Slot = {
  copy: Copy | undefined
  launching: Promise<void> | undefined
  target: Target | undefined
  failures: number
  crashes: number
  restartAt: number
  healthySince: number
  probedAt: number
  probing: boolean
}
type Told = { changed: () => void; log: (message: string, level: Level) => void }

const emptySlot = (copy?: Copy): Slot => ({
  ...{ copy, launching: undefined, target: undefined, failures: 0, crashes: 0, restartAt: 0 },
  ...{ healthySince: 0, probedAt: 0, probing: false },
})

export class Pool {
  readonly #limits: Limits
  readonly #told: Told
  #slots: Slot[] = []
  #recipe: Recipe | undefined
  #known: Known | undefined
  #startedAt = Date.now()
  #wasHealthy = false
  #failing = false
  #slowTold = false
  #trouble: string | null = null
  #stopping = false
  #tickAt = 0

  constructor(limits: Limits, told: Told) {
    this.#limits = limits
    this.#told = told
  }

  /** Takes over what an earlier agent left running; where nothing is known of it, its health is not asked before it is started again. */
  async adopt(copies: Copy[], known: Known | undefined): Promise<void> {
    this.#known = known
    this.#slots = copies.map(copy => {
      const slot = emptySlot(copy)
      copy.onExit = () => this.#exited(slot)
      return slot
    })
    // Whether they are well is known before anything is decided; what else is asked of their health comes later.
    await Promise.all(this.#slots.map(slot => this.#probe(slot)))
  }

  /** Also for what was adopted, and for what is already as wanted. */
  start(recipe: Recipe): void {
    this.#recipe = recipe
    this.#known = recipe
    while (this.#slots.length < recipe.copies) this.#slots.push(emptySlot())
    for (const surplus of this.#slots.splice(recipe.copies)) void this.#drop(surplus)
    this.tick()
  }

  /** Cheap, and often: everything that time brings. */
  tick(): void {
    if (this.#stopping) return
    const now = Date.now()
    for (const slot of this.#slots) {
      for (const line of slot.copy?.lines() ?? []) this.#told.log(line, 'INFO')
      if (slot.copy) {
        if (now - this.#tickAt > 500) slot.copy.look?.()
        const pause = slot.healthySince ? this.#limits.probe_ms : this.#limits.starting_probe_ms
        if (!slot.probing && now - slot.probedAt >= pause) void this.#probe(slot)
      } else if (this.#recipe && !slot.launching && now >= slot.restartAt)
        slot.launching = this.#launch(slot, this.#recipe)
    }
    if (now - this.#tickAt > 500) this.#tickAt = now
    this.#noteSlow(now - this.#startedAt)
    // Time alone may have made it a failure, which is news once.
    const failing = this.phase() === 'failing'
    if (failing && !this.#failing) this.#told.changed()
    this.#failing = failing
  }

  #noteSlow(ms: number): void {
    if (this.#slowTold || ms < this.#limits.slow_ms || !this.#trouble || this.phase() !== 'starting') return
    this.#slowTold = true
    const patience = `it is given up when it is not after ${Math.round(this.#limits.ready_ms / 1000)} s`
    this.#told.log(`Not healthy yet: ${this.#trouble}; ${patience}.`, 'WARNING')
  }

  phase(): Running['phase'] {
    if (this.targets().length > 0 && (this.#wasHealthy || this.#complete())) return 'healthy'
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
    const trouble = this.#trouble ?? 'it is starting'
    const said = looping
      ? `Crash loop: it ended ${looping.crashes} times in a row; the last time ${trouble}.`
      : phase === 'failing'
        ? `It was not healthy within ${seconds} s: ${trouble}.`
        : this.#trouble && `It is not well: ${trouble}.`
    if (!said) return null
    const lines = this.#lastLines()
    return lines.length ? withLast(said, lines) : `${said} It wrote nothing.`
  }

  targets(): Target[] {
    return this.#slots.flatMap(slot => slot.target ?? [])
  }

  copies(): Copy[] {
    return this.#slots.flatMap(slot => slot.copy ?? [])
  }

  /** Holds each copy to its memory. */
  weigh(used: Map<Copy, number>): void {
    for (const { copy } of this.#slots) {
      const megabytes = (copy && used.get(copy)) ?? 0
      if (!this.#recipe || megabytes <= this.#recipe.memory_mb) continue
      const limit = this.#recipe.memory_mb
      this.blame(copy!, `it used ${Math.round(megabytes)} MB of memory, more than its memory_limit_mb of ${limit}`)
    }
  }

  blameAll(reason: string, copies = this.copies()): void {
    for (const copy of copies) this.blame(copy, reason)
  }

  /** Told once: it may take its time to end, and whoever measured it may come late. */
  blame(copy: Copy, reason: string): void {
    if (!this.copies().includes(copy)) return
    if (copy.blamed) return void copy.kill()
    this.#trouble = reason
    copy.blamed = true
    this.#told.log(`Killed: ${reason}.`, 'ERROR')
    // However long its end takes, it gets no more requests.
    for (const slot of this.#slots) if (slot.copy === copy) slot.target = undefined
    copy.kill()
    this.#told.changed()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all(this.#slots.map(slot => this.#drop(slot)))
    this.#slots = []
  }

  /** Lets go: they run on. */
  release(): void {
    this.#stopping = true
    for (const { copy } of this.#slots) copy?.release()
  }

  #complete(): boolean {
    return this.#known !== undefined && this.targets().length >= this.#known.copies
  }

  async #launch(slot: Slot, recipe: Recipe): Promise<void> {
    const launched = await Promise.resolve(recipe.launch()).catch((error: Error) => error)
    slot.launching = undefined
    if (launched instanceof Error) return this.#crashed(slot, `could not be started: ${faultOf(launched)}`)
    Object.assign(slot, { copy: launched, failures: 0, probedAt: 0 })
    // Whoever stops it waits for this moment.
    if (this.#stopping || !this.#slots.includes(slot)) return
    launched.onExit = () => this.#exited(slot)
    if (launched.ending) this.#exited(slot)
  }

  #exited(slot: Slot): void {
    const { copy } = slot
    if (!copy || this.#stopping) return
    for (const line of copy.lines(true)) this.#told.log(line, 'INFO')
    this.#last = [...copy.last]
    copy.forget()
    this.#crashed(slot, copy.blamed ? undefined : copy.ending)
  }
  #last: string[] = []

  #crashed(slot: Slot, how: string | undefined): void {
    if (this.#stopping) return
    const now = Date.now()
    const calm = slot.healthySince > 0 && now - slot.healthySince > this.#limits.calm_ms
    slot.crashes = calm ? 1 : slot.crashes + 1
    const pause = Math.min(this.#limits.backoff_ms * 2 ** (slot.crashes - 1), this.#limits.longest_backoff_ms)
    if (how) {
      this.#trouble = `it ${how}`
      this.#told.log(`Ended: it ${how}; started again in ${pause / 1000} s.`, 'ERROR')
    }
    Object.assign(slot, { copy: undefined, target: undefined, healthySince: 0, restartAt: now + pause })
    this.#told.changed()
  }

  async #probe(slot: Slot): Promise<void> {
    const { copy } = slot
    if (!copy || !this.#known) return
    slot.probing = true
    const health = await copy.probe(this.#known.health_path, this.#limits.probe_timeout_ms)
    slot.probing = false
    slot.probedAt = Date.now()
    if (slot.copy !== copy || this.#stopping || copy.blamed) return
    if (health.ok) {
      slot.failures = 0
      if (slot.target) return
      slot.target = health.target
      slot.healthySince = Date.now()
      if (this.#complete()) this.#wasHealthy = true
      this.#told.changed()
      return
    }
    // While it starts, why it is not well yet is only of interest when it never gets well.
    if (!slot.healthySince) {
      if (!copy.ending && !(slot.crashes > 0)) this.#trouble = health.reason
      return
    }
    slot.failures++
    if (slot.failures >= this.#limits.patience)
      this.blame(copy, `its health check failed ${slot.failures} times in a row: ${health.reason}`)
  }

  async #drop(slot: Slot): Promise<void> {
    await slot.launching
    const { copy } = slot
    if (!copy) return
    await copy.end(this.#limits.stop_ms)
    for (const line of copy.lines(true)) this.#told.log(line, 'INFO')
    copy.forget()
  }

  #lastLines(): string[] {
    const lines = this.#slots.flatMap(({ copy }) => copy?.last ?? [])
    return lines.length ? lines : this.#last
  }
}
