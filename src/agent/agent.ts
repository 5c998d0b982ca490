// The agent: takes down what is wanted, brings each deployment to it step by step, and tells what became of it.
import { setTimeout as delay } from 'node:timers/promises'
import type { Network } from '../kernel/address-kind.ts'
import { type Changes, LONGEST_POLL } from '../sync/poll.schema.ts'
import type { Report, ReportResult } from '../sync/report.schema.ts'
import { Builds } from './builds/builds.ts'
import { type Control, LEAVING_MS, patience, Refused, troubleOf } from './control.ts'
import { Credentials } from './credentials.ts'
import type { Engine, Events, Level, Ref } from './engines/engine.ts'
import { makeKeys } from './envelope.ts'
import { Lanes } from './lanes.ts'
import { clock, Lease } from './lease.ts'
import { LogShipper } from './log-shipper.ts'
import { plan } from './plan.ts'
import { Redaction } from './redaction.ts'
import { ReportSender } from './reports.ts'
import { type Known, RETRY_MS, refresh, type Steps, take } from './steps.ts'
import { Troubles } from './troubles.ts'
import type { Users } from './users.ts'
import { digestOf, type Found, factsOf, find, outcomeOf, reportOf, settledBy, wantedOf } from './work.ts'

/** What is wanted of a deployment, what it is called (also while it goes), and what the control plane was told last. */
type Entry = Known & { name: string | null; told?: string; databaseTold?: boolean; isUnhealthy?: boolean }
type Options = {
  agent_id: string
  version: string
  home: string
  /** Where the folders of builds are, if not in `home`. */
  apps?: string | undefined
  /** As whom install and build commands run; otherwise as the agent's own user. */
  users?: Users | undefined
  engine: Engine
  control: Control
  templates?: string
  /** Where repositories may be, though it is not public. */
  networks?: Network[]
  /** What no line may hold, whichever deployment it is about. */
  hidden?: string[]
  /** What an operator may want to read. */
  say: (line: string) => void
  wait?: number
  /** Milliseconds until a credential is asked for again; after which what goes on failing is given up. */
  retry?: number
  lasting?: number
}

const RESYNC_MS = 6 * 3600_000
const FLUSH_MS = 250
/** With its end a revision leaves the flight, which is another generation. */
const ENDS = new Set<Report['state']>(['deployed', 'failed'])
const FATAL = new Set([401, 403, 404])

export class Agent {
  readonly #options: Options
  readonly #keys = makeKeys()
  readonly #known = new Map<string, Entry>()
  readonly #lease = new Lease()
  readonly #lanes: Lanes
  readonly #reports: ReportSender
  readonly #ending = new AbortController()
  readonly #builds: Builds
  readonly #troubles: Troubles
  readonly #logs: LogShipper
  readonly #credentials: Credentials
  readonly #redaction: Redaction
  readonly #log = (kind: 'build' | 'deploy') => (of: Ref, message: string, level: Level) =>
    this.#logs.add(of, kind, message, level)
  #opened: Promise<void> = Promise.resolve()
  #listener = ''
  #cursor: number | null = null
  /** Named by a resync that is not whole yet. */
  #named: Set<string> | null = null
  #resyncAt = 0

  constructor(options: Options) {
    this.#options = options
    const { home, apps = home } = options
    this.#redaction = new Redaction([home, apps], options.hidden)
    const changed = (id: string) => this.#lanes.touch(id)
    const stale = () => {
      this.#resyncAt = Math.min(this.#resyncAt, performance.now())
    }
    this.#builds = new Builds({
      ...options,
      home: apps,
      again_ms: options.retry,
      changed,
      stale,
      log: this.#log('build'),
    })
    this.#troubles = new Troubles({ ...options, builds: this.#builds, log: this.#log('deploy') })
    this.#lanes = new Lanes(
      id => this.#bring(id),
      (id, error) => this.#stumbled(id, error as Error),
    )
    const { control, agent_id } = options
    const held = () => (this.#lease.holds() ? { agent_id, fence: this.#lease.fence! } : undefined)
    const who = () => (this.#acting() ? held() : undefined)
    this.#logs = new LogShipper({
      ...{ control, who: held, knows: of => this.#redaction.knows(of, this.#isWhole()) },
      redacted: ({ deployment_id }, text) => this.#redaction.text(deployment_id, text),
    })
    this.#reports = new ReportSender({
      ...{ control, who, signal: this.#ending.signal, fenced: () => this.#loseLease() },
      sending: ({ deployment_id }) => void delete this.#known.get(deployment_id)?.told,
      told: (report, result) => this.#told(report, result),
      unreadable: (report, error) => this.#unreadable(report, error),
    })
    const asks = () => {
      const lease = who()
      return lease && { ...lease, listener: this.#listener }
    }
    this.#credentials = new Credentials({
      ...{ control, keys: this.#keys, who: asks, signal: this.#ending.signal, retry_ms: options.retry },
      hide: this.#redaction.hide,
    })
  }

  /** Until it is closed, or the control plane refuses it for good. */
  async run(): Promise<void> {
    const opening = async () => {
      const registry: Events['registry'] = (of, image) => this.#credentials.registry(of, image)
      const { hide } = this.#redaction
      await this.#options.engine.open({
        changed: id => this.#lanes.touch(id),
        log: this.#log('deploy'),
        hide,
        registry,
      })
      await this.#builds.open()
    }
    this.#opened = opening()
    await this.#opened
    const flushing = setInterval(() => {
      void this.#reports.flush()
      void this.#logs.flush()
    }, FLUSH_MS)
    try {
      for (let trouble = 0; !this.#ending.signal.aborted; )
        trouble = await this.#poll().then(
          () => 0,
          error => this.#pause(error, trouble + 1),
        )
    } finally {
      clearInterval(flushing)
    }
  }

  async close(how: { stop: boolean }): Promise<void> {
    this.#ending.abort()
    // What was not taken over yet could not be ended either.
    await this.#opened.catch(() => {})
    await this.#builds.close()
    await this.#lanes.close()
    await this.#options.engine.close(how)
    // Nobody reads these lines again. A flush that is under way may have passed the newest.
    const flushed = this.#logs.flush().then(() => this.#logs.flush())
    await Promise.race([flushed, delay(LEAVING_MS, undefined, { ref: false })])
    const { control, agent_id } = this.#options
    // Nothing is begun or reported from here on, so another one may. Untold, it waits until the lease runs out.
    const { fence } = this.#lease
    if (fence !== null) await control.release({ agent_id, fence }).catch(() => {})
    this.#lease.lose()
  }

  // ---- what is wanted

  async #poll(): Promise<void> {
    const { agent_id, version, control, wait = 25 } = this.#options
    const begun = clock()
    if (performance.now() > this.#resyncAt) this.#cursor = null
    const answer = await control.poll(
      {
        ...{ agent_id, version, public_key: this.#keys.public_key, fence: this.#lease.fence, cursor: this.#cursor },
        digest: this.#cursor === null ? null : digestOf(this.#known),
        wait: this.#cursor === null || this.#named ? 0 : Math.min(wait, LONGEST_POLL),
      },
      this.#ending.signal,
    )
    const { fence } = answer.lease
    if (this.#lease.fence !== fence) this.#options.say(`lease acquired listener=${answer.listener_id} lease=${fence}`)
    this.#lease.take(fence, begun)
    this.#listener = answer.listener_id
    await this.#apply(answer)
  }

  async #apply({ changes, resync, more, cursor }: Changes): Promise<void> {
    if (resync) {
      this.#named = new Set()
      this.#resyncAt = performance.now() + RESYNC_MS
    }
    for (const work of changes) {
      const { deployment_id, generation } = work
      const before = this.#known.get(deployment_id)
      const { name = null, databaseTold = false, isUnhealthy = false } = before ?? {}
      const { given = new Map(), lost = new Map() } = before ?? {}
      this.#known.set(deployment_id, {
        work,
        name: work.name ?? name,
        generation,
        given,
        lost,
        databaseTold,
        isUnhealthy,
      })
      this.#redaction.learn(work, { keys: this.#keys, listener: this.#listener })
      this.#named?.add(deployment_id)
    }
    if (this.#named && !more) {
      // Where the engine cannot tell, nothing of this answer was applied yet, and it comes again.
      const engines = await this.#options.engine.deployments()
      const named = this.#named
      this.#named = null
      for (const id of this.#known.keys()) if (!named.has(id)) this.#forget(id)
      // Whatever of ours is here and was not named is not wanted any more.
      const here = [...engines, ...this.#builds.deployments(), ...named]
      for (const id of new Set(here)) this.#lanes.touch(id)
    }
    this.#cursor = cursor
    for (const { deployment_id } of changes) this.#lanes.touch(deployment_id)
  }

  /** How long after a failure it is tried again; forever, unless it is of no use. */
  async #pause(error: unknown, trouble: number): Promise<number> {
    if (this.#ending.signal.aborted) return 0
    const { say } = this.#options
    if (error instanceof Refused) {
      if (FATAL.has(error.status)) throw error
      if (error.status === 409) this.#loseLease()
      if (error.status === 422) this.#cursor = null
    }
    if (trouble === 1) say(`The control plane: ${troubleOf(error as Error)}`)
    await delay(patience(error, trouble) * 1000, undefined, { signal: this.#ending.signal }).catch(() => {})
    return trouble
  }

  /** Another agent acts now: what runs goes on, and nothing is begun, changed or reported. */
  #loseLease(): void {
    this.#lease.lose()
    this.#cursor = null
    this.#named = null
    this.#reports.clear()
    for (const known of this.#known.values()) delete known.told
  }

  /** Everything that is wanted was told. */
  #isWhole(): boolean {
    return this.#resyncAt !== 0 && !this.#named
  }

  #acting(): boolean {
    return this.#lease.holds() && !this.#ending.signal.aborted
  }

  // ---- bringing a deployment there: one lane each, so that nothing of it happens twice at once

  async #bring(id: string): Promise<void> {
    for (let before = ''; ; ) {
      // A resync that is not whole yet has not said what is not wanted.
      if (!this.#acting() || !this.#isWhole()) {
        this.#troubles.over(id)
        return this.#lanes.later(id, RETRY_MS)
      }
      const known = this.#known.get(id)
      const steps = this.#stepsOf(id)
      const found = await find(id, this.#builds, await this.#options.engine.observe(id))
      if (known) {
        await refresh(steps, known, found).finally(() => this.#redaction.settle(id))
        this.#tell(known, found)
      }
      const actions = plan(wantedOf(known?.work), found.observed)
      for (const action of actions) {
        if (!this.#acting()) return this.#lanes.later(id, RETRY_MS)
        await take(steps, action, known, found)
      }
      if (actions.length === 0) return this.#troubles.over(id)
      // What was done changed nothing: it is not done without end.
      if (JSON.stringify(actions) === before) return this.#lanes.later(id, RETRY_MS)
      before = JSON.stringify(actions)
    }
  }

  #stumbled(id: string, error: Error): void {
    this.#options.say(`${this.#name(id)}: ${this.#redaction.text(id, error.message)}`)
    const known = this.#known.get(id)
    const { again, failure } = this.#troubles.meet(id, known?.work, error)
    if (known && failure)
      this.#reports.add(this.#redaction.report({ deployment_id: id, generation: known.generation, ...failure }))
    this.#lanes.later(id, again)
  }

  #stepsOf(id: string): Steps {
    return {
      ...{ id, engine: this.#options.engine, builds: this.#builds, log: this.#log('deploy') },
      opening: {
        ...{ keys: this.#keys, listener: this.#listener },
        credential: (of, signal) => this.#credentials.repository(of, signal),
      },
      say: line => this.#options.say(`${this.#name(id)}: ${line}`),
      later: ms => this.#lanes.later(id, ms),
    }
  }

  #name(id: string): string {
    return this.#known.get(id)?.name ?? id
  }

  #forget(id: string): void {
    this.#known.delete(id)
    this.#redaction.forget(id)
  }

  // ---- what became of it

  #tell(known: Entry, found: Found): void {
    const made = reportOf(known.work, known.generation, found, known.databaseTold)
    const report = made && this.#redaction.report(made)
    if (!report || factsOf(report) === known.told) this.#reports.drop(known.work.deployment_id)
    else this.#reports.add(report)
  }

  #unreadable(report: Report, { message }: Refused): void {
    const id = report.deployment_id
    this.#options.say(`${this.#name(id)}: the report ${report.state} cannot be read: ${message}`)
    const known = this.#known.get(id)
    if (known) known.told = factsOf(report)
  }

  #told(report: Report, { outcome, generation, code }: ReportResult): void {
    const id = report.deployment_id
    const known = this.#known.get(id)
    if (!known || known.generation !== report.generation) return
    known.told = factsOf(report)
    if (outcome === 'refused') this.#options.say(`${this.#name(id)}: the report ${report.state} was refused (${code})`)
    if (report.state === 'database_ready' && outcome !== 'stale') {
      known.databaseTold = true
      this.#lanes.touch(id)
    }
    if (outcome !== 'accepted') return
    const said = outcomeOf(known.work, report, { wasUnhealthy: known.isUnhealthy })
    known.isUnhealthy = report.state === 'serving' && report.healthy === false
    if (said) this.#options.say(`${this.#name(id)}: ${said}`)
    if (generation === null) return void this.#forget(id)
    // More than the report itself brought about is somebody else's change, which only a poll tells.
    if (generation <= report.generation + Number(ENDS.has(report.state))) known.generation = generation
    const { work } = known
    known.work = settledBy(report, work)
    if (known.work !== work) this.#lanes.touch(id)
  }
}
