// The replicas of one revision: keeps their number, probes them, restarts them with backoff, and derives the phase.

import type { Incident, IncidentKind, ReportedHealth } from '../../../protocol/report.schema.ts'
import { type Condition, type CopyUsage, describeDeadline, type RevisionHealth } from '../../engine.ts'
import { describeError } from '../../redaction/error-messages.ts'
import { appendLastLines } from '../../system/last-lines.ts'
import type { Process } from '../../system/processes.ts'
import type { Limits } from './limits.ts'
import { describeMissingStore } from './missing-store.ts'
import { type OutputEvents, OutputLog } from './output-log.ts'
import type { Health, Replica } from './replica.ts'
import { emptySlot, type ReplicaSlot } from './replica-slot.ts'
import type { Target } from './router.ts'
import type { Serving } from './serving.ts'

export type ReplicaTemplate = {
  launch: () => Replica | Promise<Replica>
  health_path: string | null
  /** The time from the start to the first healthy probe, with restarts. Absent: that of the limits. */
  ready_ms?: number | undefined
  /** The least, without which a revision is not complete. */
  copies: number
  /** The most that `scale` may ask for. Absent: there are always `copies`. */
  most?: number | undefined
  /** It may sleep. */
  sleeps?: boolean | undefined
  memory_mb: number
  /** In which way the router sends it requests. */
  serving?: Serving | undefined
  /** It does not listen: it is healthy once it has run this long. */
  settle_ms?: number | undefined
  /** Checks one that does not listen. Absent: it is healthy while it runs. */
  check?: (replica: Replica) => Promise<Health>
}
/** `held`: it takes no requests; `frozen`: it also stands still, with its memory; `stopped`: there are no copies. */
export type Rest = 'held' | 'frozen' | 'stopped'
/** Stored as JSON for the next agent. */
export type HealthPolicy = Pick<ReplicaTemplate, 'health_path' | 'ready_ms' | 'copies' | 'settle_ms' | 'serving'>
type PoolEvents = OutputEvents & {
  changed: () => void
  /** Resolves when no request that was sent to these is in flight. Absent: none is. */
  drained?: (targets: Target[]) => Promise<void>
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

export class ReplicaPool {
  /** Tasks that wait, as `web` answered the last time it was asked. */
  queueDepth: number | undefined
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
  /** Null: the least of the template. */
  #wanted: number | null = null
  /** Copies that get no more requests and end. */
  readonly #leaving = new Map<ReplicaSlot, Promise<void>>()
  #rest: Rest | null = null
  /** When it began to start again, until a copy is healthy. */
  #wakingSince: number | null = null
  #slowTickAt = 0
  #exitedLines: string[] = []
  readonly #incidents = new Map<IncidentKind, Incident>()
  #lastHealth: ReportedHealth['state'] | undefined

  constructor(limits: Limits, events: PoolEvents) {
    this.#limits = limits
    this.#events = events
  }

  /**
   * Takes over the replicas of an earlier agent. Without a health policy they are not probed before `start`. `rest`: it
   * slept.
   */
  async adopt(replicas: Replica[], policy: HealthPolicy | undefined, rest: Rest | null = null): Promise<void> {
    this.#healthPolicy = policy
    this.#slots = replicas.map(replica => {
      const slot = emptySlot(replica)
      replica.onExit = () => this.#handleExit(slot)
      return slot
    })
    if (rest) {
      this.#wasHealthy = true
      this.#rest = rest
      if (rest === 'frozen') await Promise.allSettled(replicas.map(replica => replica.freeze?.()))
      else this.#leave(this.#slots.splice(0))
      return
    }
    // The first observation needs their health.
    await Promise.all(this.#slots.map(slot => this.#probe(slot)))
  }

  /** Idempotent. Also called for adopted replicas. */
  start(template: ReplicaTemplate): void {
    const wasElastic = this.isElastic
    this.#template = template
    this.#healthPolicy = template
    if (this.#rest === null) this.#fit()
    this.tick()
    if (this.isElastic !== wasElastic) this.#events.changed()
  }

  /** The number is kept between the least and the most of the template. */
  scale(copies: number): void {
    this.#wanted = copies
    if (this.#rest === null) this.#fit()
    this.tick()
    this.#events.changed()
  }

  get copies(): { wanted: number; running: number } {
    return this.#isAsleep ? { wanted: 0, running: 0 } : { wanted: this.#slots.length, running: this.#healthyCount }
  }

  /** Its number of copies moves by itself. */
  get isElastic(): boolean {
    const template = this.#template
    return template ? template.sleeps === true || (template.most ?? 0) > template.copies : this.#rest !== null
  }

  #fit(): void {
    if (!this.#template) return
    const { copies: least, most = least } = this.#template
    const wanted = Math.min(most, Math.max(least, this.#wanted ?? this.#slots.length))
    // A later template begins with the copies that are there.
    this.#wanted = wanted
    while (this.#slots.length < wanted) this.#slots.push(emptySlot())
    this.#leave(this.#slots.splice(wanted))
  }

  /** They end once the requests that they have are answered. */
  #leave(slots: ReplicaSlot[]): void {
    const targets = slots.flatMap(({ target }) => (target ? { ...target, ...this.#healthPolicy?.serving } : []))
    const drained = targets.length > 0 ? this.#events.drained?.(targets) : undefined
    for (const slot of slots) {
      const ended = Promise.resolve(drained)
        .catch(() => {})
        .then(() => this.#stopSlot(slot))
        .finally(() => this.#leaving.delete(slot))
      ended.catch(() => {})
      this.#leaving.set(slot, ended)
    }
  }

  /** False for copies of an earlier agent until `start`. */
  get isStarted(): boolean {
    return this.#template !== undefined
  }

  get rest(): Rest | null {
    return this.#rest
  }

  /** A revision that is only held may be awake again in a moment. */
  get #isAsleep(): boolean {
    return this.#rest === 'frozen' || this.#rest === 'stopped'
  }

  /** Requests wait until a copy serves. */
  get holds(): boolean {
    return this.#rest !== null || this.#isWaking
  }

  get #isWaking(): boolean {
    return this.#wakingSince !== null && Date.now() - this.#wakingSince <= this.#readyMs
  }

  /** Takes no requests from now on. Returns what may still have some. */
  hold(): Target[] {
    const targets = this.targets()
    this.#rest = 'held'
    return targets
  }

  /** Only what is held may freeze. False: one of its copies cannot. */
  async freeze(): Promise<boolean> {
    const replicas = this.#slots.map(({ replica }) => replica)
    if (replicas.some(replica => !replica?.freeze)) return false
    try {
      await Promise.all(replicas.map(replica => replica!.freeze!()))
    } catch {
      // Some machines have nothing that stops a container in place.
      await Promise.allSettled(replicas.map(replica => replica!.thaw!()))
      return false
    }
    this.#rest = 'frozen'
    this.#events.changed()
    return true
  }

  /** Ends all copies of what is held or frozen. */
  stopCopies(): void {
    this.#rest = 'stopped'
    this.#wanted = null
    const slots = this.#slots.splice(0)
    for (const slot of slots) slot.target = undefined
    this.#leave(slots)
    this.#events.changed()
  }

  async wake(): Promise<void> {
    const rest = this.#rest
    if (rest === null || this.#stopping) return
    await Promise.all(this.#slots.map(({ replica }) => replica?.thaw?.()))
    // One copy may use a disk at a time.
    await Promise.all(this.#leaving.values())
    if (this.#stopping) return
    this.#rest = null
    if (this.#healthyCount === 0) this.#wakingSince = Date.now()
    this.#fit()
    this.#events.changed()
    this.#tickUntilAwake()
  }

  #tickUntilAwake(): void {
    if (this.#stopping || !this.#isWaking) return
    this.tick()
    setTimeout(() => this.#tickUntilAwake(), this.#limits.waking_probe_ms)
  }

  tick(): void {
    if (this.#stopping) return
    const now = Date.now()
    for (const { replica, output } of this.#leaving.keys())
      output.read(replica, this.#events, now, this.#limits.unfinished_line_ms)
    for (const slot of this.#slots) {
      slot.output.read(slot.replica, this.#events, now, this.#limits.unfinished_line_ms)
      if (slot.replica) {
        if (now - this.#slowTickAt > 500) slot.replica.checkExit?.()
        if (this.#rest === null && !slot.probing && now - slot.probedAt >= this.#probePause(slot))
          void this.#probe(slot)
      } else if (this.#rest === null && this.#template && !slot.launching && now >= slot.restartAt)
        slot.launching = this.#launch(slot, this.#template)
    }
    if (now - this.#slowTickAt > 500) this.#slowTickAt = now
    if (this.#rest !== null) return
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

  #probePause({ healthySince }: ReplicaSlot): number {
    const { probe_ms, starting_probe_ms, waking_probe_ms } = this.#limits
    return healthySince ? probe_ms : this.#isWaking ? waking_probe_ms : starting_probe_ms
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
    if (this.#template?.copies === 0 || this.holds) return 'healthy'
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
    if (this.#isAsleep || this.#isWaking) return 'sleeping'
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
    if (state === 'healthy' || state === 'sleeping') return null
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
    if (this.#rest !== null) return []
    const serving = this.#healthPolicy?.serving
    return this.#slots.flatMap(({ target }, i) => (target ? { ...target, copy: copyName(i), ...serving } : []))
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
    return [...this.#slots, ...this.#leaving.keys()].flatMap(slot => slot.replica ?? [])
  }

  /** The CPU time and memory of all copies together. Undefined: not all are visible. */
  async load(list: () => Process[]): Promise<{ cpu_ms: number; memory_bytes: number; copies: Replica[] } | undefined> {
    let [cpu_ms, memory_bytes] = [0, 0]
    const copies: Replica[] = []
    for (const { replica, memory } of this.#slots) {
      const usage = await replica?.usage(list).catch(() => undefined)
      const bytes = usage?.memory_bytes ?? memory?.now
      if (!replica || usage?.cpu_ms == null || bytes === undefined) return undefined
      copies.push(replica)
      cpu_ms += usage.cpu_ms
      memory_bytes += bytes
    }
    return { cpu_ms, memory_bytes, copies }
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
    await Promise.all([...this.#slots, ...this.#leaving.keys()].map(slot => this.#stopSlot(slot)))
    this.#slots = []
    this.#leaving.clear()
  }

  release(): void {
    this.#stopping = true
    for (const replica of this.replicas()) replica.release()
  }

  #isComplete(): boolean {
    return this.#healthPolicy !== undefined && this.#healthyCount >= this.#healthPolicy.copies
  }

  async #launch(slot: ReplicaSlot, template: ReplicaTemplate): Promise<void> {
    const launched = await Promise.resolve(template.launch()).catch((error: Error) => error)
    slot.launching = undefined
    if (launched instanceof Error) return this.#recordCrash(slot, `could not be started: ${describeError(launched)}`)
    slot.launches++
    const fresh: Partial<ReplicaSlot> = { replica: launched, failures: 0, probedAt: 0, output: new OutputLog() }
    Object.assign(slot, { ...fresh, launchedAt: Date.now() })
    // `#stopSlot` waits for the launch and then ends the replica.
    if (this.#stopping || !this.#slots.includes(slot)) return
    launched.onExit = () => this.#handleExit(slot)
    if (launched.endReason) this.#handleExit(slot)
  }

  #handleExit(slot: ReplicaSlot): void {
    const { replica } = slot
    if (!replica || this.#stopping) return
    slot.output.log(replica.readLines(true), this.#events)
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
    if (this.#leaving.has(slot)) {
      slot.replica = undefined
      return
    }
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
    if (slot.crashes >= this.#limits.crashes) this.#wakingSince = null
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
    // It stands still, and cannot answer.
    if (this.#rest !== null) return
    if (health.ok) {
      slot.failures = 0
      if (slot.isHealthy) return
      slot.isHealthy = true
      slot.target = health.target ?? undefined
      slot.healthySince = Date.now()
      this.#wakingSince = null
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
    await replica.thaw?.()
    await replica.end(this.#limits.stop_ms)
    slot.output.log(replica.readLines(true), this.#events)
    replica.forget()
  }

  #lastLogLines(): string[] {
    const lines = this.#slots.flatMap(({ replica }) => replica?.lastLines ?? [])
    return lines.length ? lines : this.#exitedLines
  }
}
