// The replicas of one revision: keeps their number, probes them, restarts them with backoff, and derives the phase.

import type { Incident, IncidentKind, ReportedHealth } from '../../../protocol/report.schema.ts'
import { type Condition, type CopyUsage, describeDeadline, type LogLevel, type RevisionHealth } from '../../engine.ts'
import { describeError } from '../../redaction/error-messages.ts'
import { appendLastLines } from '../../system/last-lines.ts'
import { levelOf } from '../../system/line-level.ts'
import type { Process } from '../../system/processes.ts'
import type { Limits } from './limits.ts'
import { describeMissingStore } from './missing-store.ts'
import type { Target } from './router.ts'

/** `target`: null for a process that does not listen. */
export type Health = { ok: true; target: Target | null } | Unhealthy
/** `about`: nothing listens on its port; it listens on another one, which waiting does not change. */
export type Unhealthy = { ok: false; reason: string; about?: 'no_listener' | 'other_port' }

/** CPU time since its start, and memory now. Null: not visible. After its end, the last that was seen. */
export type ReplicaUsage = { cpu_ms: number | null; memory_bytes: number | null }

/** A line that an application wrote; `isError`: to its standard error. */
export type OutputLine = { text: string; level: LogLevel; isError: boolean }

export interface Replica {
  readonly lastLines: string[]
  /** A verb phrase such as "exited with code 1"; undefined while it runs. */
  readonly endReason: string | undefined
  /** The kernel or the engine killed it for its memory. */
  readonly isOutOfMemory?: boolean
  /** The pool killed it and has already logged why. */
  hasKillReason: boolean
  /** Called once, after it ended by itself or was killed. */
  onExit: () => void
  /** Undefined for an engine that enforces memory limits itself. */
  pids?(list: () => Process[]): number[]
  usage(list: () => Process[]): Promise<ReplicaUsage>
  probe(path: string | null, timeout: number): Promise<Health>
  /** For a replica whose exit is not reported by an event. */
  checkExit?(): void
  /** The whole lines since the last call; with `final`, an unfinished line too. */
  readLines(final?: boolean): OutputLine[]
  /** The beginning of the next line of a stream. Undefined for an engine that sees whole lines only. */
  unfinishedLine?(isError: boolean): string
  kill(): void
  /** Asks it to end, and kills it after the grace period. */
  end(grace: number): Promise<void>
  /** Removes what a replica that has ended leaves behind. */
  forget(): void
  /** Leaves it running for the next agent. */
  release(): void
}

export type ReplicaTemplate = {
  launch: () => Replica | Promise<Replica>
  health_path: string | null
  /** The time from the start to the first healthy probe, with restarts. Absent: that of the limits. */
  ready_ms?: number | undefined
  copies: number
  memory_mb: number
  /** It does not listen: it is healthy once it has run this long. */
  settle_ms?: number | undefined
  /** Checks one that does not listen. Absent: it is healthy while it runs. */
  check?: (replica: Replica) => Promise<Health>
}
/** Stored as JSON for the next agent. */
export type HealthPolicy = Pick<ReplicaTemplate, 'health_path' | 'ready_ms' | 'copies' | 'settle_ms'>
type ReplicaSlot = {
  replica: Replica | undefined
  /** When it was added; null for a copy of an earlier agent. */
  addedAt: number | null
  launching: Promise<void> | undefined
  launchedAt: number
  isHealthy: boolean
  /** Undefined unless the replica is healthy and listens. */
  target: Target | undefined
  failures: number
  crashes: number
  restartAt: number
  healthySince: number
  probedAt: number
  launches: number
  /** The CPU time of its former replicas. */
  pastCpuMs: number
  memory: { now: number; most: number } | undefined
  probing: boolean
  unfinished: { output: UnfinishedLine; errors: UnfinishedLine }
}
/** The logged part of the unfinished line of a stream, and the time since when there was no more of it to log. */
type UnfinishedLine = { shown: string; at: number }
type PoolEvents = {
  changed: () => void
  log: (message: string, level: LogLevel, shownLength?: number) => void
  settledLength: (text: string) => number
}

/** The interval at which the lines in the reason of a slow start are read. Each change is a report. */
const START_REASON_MS = 5_000

const MIB = 1024 * 1024

/** With what the log says of the reason, and its last lines. */
function explainByLog(sentence: string, lines: string[]): string {
  const hint = describeMissingStore(lines)
  return appendLastLines(hint ? `${sentence} ${hint}` : sentence, lines)
}

/** Its place, which stays when it is started again. */
const copyName = (place: number): string => String(place + 1)

const noUnfinishedLines = () => ({ output: { shown: '', at: 0 }, errors: { shown: '', at: 0 } })

const emptySlot = (replica?: Replica): ReplicaSlot => ({
  replica,
  addedAt: replica ? null : Date.now(),
  launching: undefined,
  launchedAt: 0,
  isHealthy: false,
  target: undefined,
  failures: 0,
  crashes: 0,
  restartAt: 0,
  healthySince: 0,
  probedAt: 0,
  launches: replica ? 1 : 0,
  pastCpuMs: 0,
  memory: undefined,
  probing: false,
  unfinished: noUnfinishedLines(),
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
  /** Since when a replica listens on another port than its own. */
  #wrongPortSince: number | null = null
  /** The reason why a slow start is not healthy yet. */
  #startReason: { text: string; facts: string; at: number } | null = null
  #stopping = false
  #slowTickAt = 0
  #exitedLines: string[] = []
  readonly #incidents = new Map<IncidentKind, Incident>()
  #lastHealth: ReportedHealth['state'] | undefined

  constructor(limits: Limits, events: PoolEvents) {
    this.#limits = limits
    this.#events = events
  }

  /** Takes over the replicas of an earlier agent. Without a health policy they are not probed before `start`. */
  async adopt(replicas: Replica[], policy: HealthPolicy | undefined): Promise<void> {
    this.#healthPolicy = policy
    this.#slots = replicas.map(replica => {
      const slot = emptySlot(replica)
      replica.onExit = () => this.#handleExit(slot)
      return slot
    })
    // The first observation needs their health.
    await Promise.all(this.#slots.map(slot => this.#probe(slot)))
  }

  /** Idempotent. Also called for adopted replicas. */
  start(template: ReplicaTemplate): void {
    this.#template = template
    this.#healthPolicy = template
    while (this.#slots.length < template.copies) this.#slots.push(emptySlot())
    for (const surplus of this.#slots.splice(template.copies)) void this.#stopSlot(surplus)
    this.tick()
  }

  tick(): void {
    if (this.#stopping) return
    const now = Date.now()
    for (const slot of this.#slots) {
      if (slot.replica) this.#logLines(slot, slot.replica.readLines())
      for (const isError of [false, true]) this.#logUnfinishedLine(slot, isError, now)
      if (slot.replica) {
        if (now - this.#slowTickAt > 500) slot.replica.checkExit?.()
        const pause = slot.healthySince ? this.#limits.probe_ms : this.#limits.starting_probe_ms
        if (!slot.probing && now - slot.probedAt >= pause) void this.#probe(slot)
      } else if (this.#template && !slot.launching && now >= slot.restartAt)
        slot.launching = this.#launch(slot, this.#template)
    }
    if (now - this.#slowTickAt > 500) this.#slowTickAt = now
    this.#logSlowStart(now - this.#startedAt)
    // A passed deadline is a change too.
    const isFailing = this.phase() === 'failing'
    const isNewReason = this.#updateStartReason(now)
    // So is a copy that has been calm for long enough after a crash loop.
    const health = this.#healthState()
    const isNewHealth = this.#wasHealthy && health !== this.#lastHealth
    if (isNewReason || isNewHealth || (isFailing && !this.#wasFailing)) this.#events.changed()
    this.#wasFailing = isFailing
    this.#lastHealth = health
  }

  #logLines({ unfinished }: ReplicaSlot, lines: OutputLine[]): void {
    for (const { text, level, isError } of lines) {
      const stream = isError ? unfinished.errors : unfinished.output
      // The rest of an unfinished line is lost if the application writes too much.
      const shownLength = text.startsWith(stream.shown) ? stream.shown.length : 0
      stream.shown = ''
      if (shownLength === 0 || text.length > shownLength) this.#events.log(text, level, shownLength)
    }
  }

  #logUnfinishedLine({ replica, unfinished }: ReplicaSlot, isError: boolean, now: number): void {
    const stream = isError ? unfinished.errors : unfinished.output
    const line = replica?.unfinishedLine?.(isError) ?? ''
    if (line.length <= stream.shown.length) stream.at = now
    if (now - stream.at < this.#limits.unfinished_line_ms) return
    stream.at = now
    const settled = line.slice(0, this.#events.settledLength(line)).replace(/\r$/, '')
    if (settled.length <= stream.shown.length) return
    this.#events.log(settled, levelOf(settled, isError), stream.shown.length)
    stream.shown = settled
  }

  /** Waiting does not change the problem. A program may open another port a moment before its own. */
  get #isProblemLasting(): boolean {
    return this.#wrongPortSince !== null && Date.now() - this.#wrongPortSince >= this.#limits.wrong_port_ms
  }

  get #readyMs(): number {
    return this.#healthPolicy?.ready_ms ?? this.#limits.ready_ms
  }

  #logSlowStart(ms: number): void {
    const isTime = ms >= this.#limits.slow_ms || this.#isProblemLasting
    if (this.#isSlowLogged || !isTime || !this.#problem || this.phase() !== 'starting') return
    this.#isSlowLogged = true
    const deadline = `The revision fails if it is not healthy within ${Math.round(this.#readyMs / 1000)} s.`
    this.#events.log(`Not healthy yet: ${this.#problem}. ${deadline}`, 'WARNING')
  }

  #updateStartReason(now: number): boolean {
    const crashes = Math.max(0, ...this.#slots.map(slot => slot.crashes))
    const isSlow = now - this.#startedAt >= this.#limits.slow_ms || crashes > 0 || this.#isProblemLasting
    if (!isSlow || !this.#problem || this.phase() !== 'starting') return false
    const facts = `${crashes} ${this.#problem}`
    const previous = this.#startReason
    if (previous?.facts === facts && now - previous.at < START_REASON_MS) return false
    const restarts = crashes > 1 ? ` It ended ${crashes} times.` : ''
    const deadline = describeDeadline(this.#startedAt + this.#readyMs)
    const text = explainByLog(`Not healthy yet: ${this.#problem}.${restarts} ${deadline}`, this.#lastLogLines())
    this.#startReason = { text, facts, at: now }
    return text !== previous?.text
  }

  phase(): RevisionHealth['phase'] {
    if (this.#template?.copies === 0) return 'healthy'
    if (this.#healthyCount > 0 && (this.#wasHealthy || this.#isComplete())) return 'healthy'
    if (this.#wasHealthy) return 'unhealthy'
    const isLooping = this.#slots.some(slot => slot.crashes >= this.#limits.crashes)
    const isLate = Date.now() - this.#startedAt > this.#readyMs
    return isLooping || isLate ? 'failing' : 'starting'
  }

  reason(): string | null {
    const phase = this.phase()
    if (phase === 'healthy') return null
    if (phase === 'starting') return this.#startReason?.text ?? null
    const looping = this.#slots.find(slot => slot.crashes >= this.#limits.crashes)
    const seconds = Math.round(this.#readyMs / 1000)
    const advice = this.#isProblemLasting ? '' : ' If it needs longer to start, raise `health_timeout_seconds`.'
    const problem = this.#problem ?? 'it is starting'
    const reason = looping
      ? `Crash loop: it ended ${looping.crashes} times in a row; the last time ${problem}.`
      : phase === 'failing'
        ? `It was not healthy within ${seconds} s: ${problem}.${advice}`
        : this.#problem && `It is unhealthy: ${problem}.`
    if (!reason) return null
    const lines = this.#lastLogLines()
    return lines.length ? explainByLog(reason, lines) : `${reason} Its log is empty.`
  }

  /** A copy is in a crash loop until it has been healthy for a while. */
  #isLooping({ crashes, healthySince }: ReplicaSlot): boolean {
    const isCalm = healthySince > 0 && Date.now() - healthySince > this.#limits.calm_ms
    return crashes >= this.#limits.crashes && !isCalm
  }

  /** A new copy is no fault until its deadline, unless it ends. */
  #isStarting({ addedAt, crashes, healthySince }: ReplicaSlot): boolean {
    return addedAt !== null && crashes === 0 && healthySince === 0 && Date.now() - addedAt <= this.#readyMs
  }

  #healthState(): ReportedHealth['state'] {
    const all = this.#slots.length
    const looping = this.#slots.filter(slot => this.#isLooping(slot)).length
    const up = this.#healthyCount
    const isListening = this.#healthPolicy?.settle_ms === undefined
    const missing = this.#slots.filter(slot => !slot.isHealthy && !this.#isStarting(slot)).length
    if (all === 0) return 'healthy'
    if (looping > 0 && (looping === all || up === 0)) return 'crash_looping'
    // Requests fail while nothing listens yet.
    if (up === 0 && (isListening || missing > 0)) return 'unhealthy'
    return missing > 0 || looping > 0 ? 'degraded' : 'healthy'
  }

  condition(): Condition {
    const state = this.#healthState()
    return { health: { state, reason: this.#describeHealth(state) }, incidents: [...this.#incidents.values()] }
  }

  #describeHealth(state: ReportedHealth['state']): string | null {
    if (state === 'healthy') return null
    const [up, all] = [this.#healthyCount, this.#slots.length]
    const looping = this.#slots.find(slot => this.#isLooping(slot))
    const copies = state === 'degraded' ? `${up} of ${all} copies answer. ` : ''
    const problem = this.#problem ?? 'it is starting'
    const sentence = looping
      ? `Crash loop: it ended ${looping.crashes} times in a row; the last time ${problem}.`
      : `It is not healthy: ${problem}.`
    return explainByLog(copies + sentence, state === 'degraded' ? this.#exitedLines : this.#lastLogLines())
  }

  /** Counts something that happened to a copy, for the journal of the deployment. */
  recordIncident(kind: IncidentKind, message: string): void {
    const count = (this.#incidents.get(kind)?.count ?? 0) + 1
    this.#incidents.set(kind, { kind, count, last_at: new Date().toISOString(), message })
  }

  get #healthyCount(): number {
    return this.#slots.filter(({ isHealthy }) => isHealthy).length
  }

  targets(): Target[] {
    return this.#slots.flatMap(({ target }, i) => (target ? { ...target, copy: copyName(i) } : []))
  }

  /** The usage of each copy, with that of its former replicas. */
  usage(list: () => Process[]): Promise<Omit<CopyUsage, 'requests' | 'process'>[]> {
    return Promise.all(
      this.#slots.map(async (slot, i) => {
        const { replica, memory, pastCpuMs } = slot
        const usage = await replica?.usage(list).catch(() => undefined)
        const cpuMs = replica ? usage?.cpu_ms : 0
        if (memory) slot.memory = { now: memory.now, most: memory.now }
        return {
          copy: copyName(i),
          running: replica !== undefined && replica.endReason === undefined,
          restarts: Math.max(0, slot.launches - 1),
          cpu_ms: cpuMs == null ? null : pastCpuMs + cpuMs,
          memory_bytes: usage?.memory_bytes ?? memory?.most ?? null,
        }
      }),
    )
  }

  replicas(): Replica[] {
    return this.#slots.flatMap(slot => slot.replica ?? [])
  }

  /** The copy with this number or, without one, the first that runs, if possible one that serves. */
  replicaOf(copy: number | null | undefined): Replica | undefined {
    const running = this.#slots.filter(({ replica }) => replica !== undefined && replica.endReason === undefined)
    if (copy != null) return running.find(slot => this.#slots.indexOf(slot) === copy - 1)?.replica
    return (running.find(({ target }) => target !== undefined) ?? running[0])?.replica
  }

  /** Kills each replica that uses more memory than its limit. `used` is in megabytes. */
  enforceMemory(used: Map<Replica, number>): void {
    for (const slot of this.#slots) {
      const { replica } = slot
      const megabytes = (replica && used.get(replica)) ?? 0
      const bytes = Math.round(megabytes * MIB)
      slot.memory = { now: bytes, most: Math.max(bytes, slot.memory?.most ?? 0) }
      if (!this.#template || megabytes <= this.#template.memory_mb) continue
      const limit = this.#template.memory_mb
      const reason = `it used ${Math.round(megabytes)} MB of memory, more than its memory_limit_mb of ${limit}`
      this.killForReason(replica!, reason, 'out_of_memory')
    }
  }

  killAllForReason(reason: string, replicas = this.replicas(), kind?: IncidentKind): void {
    for (const replica of replicas) this.killForReason(replica, reason, kind)
  }

  /** Logs the reason once: a limit may be measured again before the replica has ended. */
  killForReason(replica: Replica, reason: string, kind?: IncidentKind): void {
    if (!this.replicas().includes(replica)) return
    if (replica.hasKillReason) return void replica.kill()
    this.#problem = reason
    replica.hasKillReason = true
    if (kind) this.recordIncident(kind, `Killed: ${reason}.`)
    this.#events.log(`Killed: ${reason}.`, 'ERROR')
    // Route no more requests to it while it ends.
    for (const slot of this.#slots)
      if (slot.replica === replica) Object.assign(slot, { isHealthy: false, target: undefined })
    replica.kill()
    this.#events.changed()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all(this.#slots.map(slot => this.#stopSlot(slot)))
    this.#slots = []
  }

  release(): void {
    this.#stopping = true
    for (const { replica } of this.#slots) replica?.release()
  }

  #isComplete(): boolean {
    return this.#healthPolicy !== undefined && this.#healthyCount >= this.#healthPolicy.copies
  }

  async #launch(slot: ReplicaSlot, template: ReplicaTemplate): Promise<void> {
    const launched = await Promise.resolve(template.launch()).catch((error: Error) => error)
    slot.launching = undefined
    if (launched instanceof Error) return this.#recordCrash(slot, `could not be started: ${describeError(launched)}`)
    slot.launches++
    const fresh: Partial<ReplicaSlot> = { replica: launched, failures: 0, probedAt: 0, unfinished: noUnfinishedLines() }
    Object.assign(slot, { ...fresh, launchedAt: Date.now() })
    // `#stopSlot` waits for the launch and then ends the replica.
    if (this.#stopping || !this.#slots.includes(slot)) return
    launched.onExit = () => this.#handleExit(slot)
    if (launched.endReason) this.#handleExit(slot)
  }

  #handleExit(slot: ReplicaSlot): void {
    const { replica } = slot
    if (!replica || this.#stopping) return
    this.#logLines(slot, replica.readLines(true))
    this.#exitedLines = [...replica.lastLines]
    void replica
      .usage(() => [])
      .then(
        ({ cpu_ms }) => {
          slot.pastCpuMs += cpu_ms ?? 0
        },
        () => {},
      )
    replica.forget()
    if (replica.isOutOfMemory) this.recordIncident('out_of_memory', `It ${replica.endReason}.`)
    this.#recordCrash(slot, replica.hasKillReason ? undefined : replica.endReason)
  }

  /** Without a reason, the pool killed the replica and has logged why. */
  #recordCrash(slot: ReplicaSlot, endReason: string | undefined): void {
    if (this.#stopping) return
    const now = Date.now()
    const wasCalm = slot.healthySince > 0 && now - slot.healthySince > this.#limits.calm_ms
    slot.crashes = wasCalm ? 1 : slot.crashes + 1
    const pause = Math.min(this.#limits.backoff_ms * 2 ** (slot.crashes - 1), this.#limits.longest_backoff_ms)
    if (endReason) {
      this.#problem = `it ${endReason}`
      this.#wrongPortSince = null
      this.#events.log(`Ended: it ${endReason}; restarting in ${pause / 1000} s.`, 'ERROR')
    }
    this.recordIncident('restarted', `It is started again: ${this.#problem ?? 'it ended'}.`)
    slot.replica = undefined
    slot.isHealthy = false
    slot.target = undefined
    slot.healthySince = 0
    slot.restartAt = now + pause
    this.#events.changed()
  }

  async #probe(slot: ReplicaSlot): Promise<void> {
    const { replica } = slot
    if (!replica || !this.#healthPolicy) return
    slot.probing = true
    const health = await this.#check(slot, replica, this.#healthPolicy)
    slot.probing = false
    slot.probedAt = Date.now()
    if (slot.replica !== replica || this.#stopping || replica.hasKillReason) return
    if (health.ok) {
      slot.failures = 0
      if (slot.isHealthy) return
      slot.isHealthy = true
      slot.target = health.target ?? undefined
      slot.healthySince = Date.now()
      if (this.#isComplete()) this.#wasHealthy = true
      this.#events.changed()
      return
    }
    // A failed probe during the start is reported only if the start fails. A crash explains more.
    if (!slot.healthySince) {
      if (replica.endReason || slot.crashes > 0) return
      this.#problem = health.reason
      this.#wrongPortSince = health.about === 'other_port' ? (this.#wrongPortSince ?? Date.now()) : null
      return
    }
    slot.failures++
    if (slot.failures >= this.#limits.patience)
      this.killForReason(replica, `its health check failed ${slot.failures} times in a row: ${health.reason}`)
  }

  async #check(slot: ReplicaSlot, replica: Replica, { health_path, settle_ms }: HealthPolicy): Promise<Health> {
    if (settle_ms === undefined) return replica.probe(health_path, this.#limits.probe_timeout_ms)
    if (replica.endReason) return { ok: false, reason: replica.endReason }
    if (Date.now() - slot.launchedAt < settle_ms) return { ok: false, reason: 'it has only just started' }
    return this.#template?.check?.(replica) ?? { ok: true, target: null }
  }

  async #stopSlot(slot: ReplicaSlot): Promise<void> {
    await slot.launching
    const { replica } = slot
    if (!replica) return
    await replica.end(this.#limits.stop_ms)
    this.#logLines(slot, replica.readLines(true))
    replica.forget()
  }

  #lastLogLines(): string[] {
    const lines = this.#slots.flatMap(({ replica }) => replica?.lastLines ?? [])
    return lines.length ? lines : this.#exitedLines
  }
}
