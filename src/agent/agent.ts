// The agent: takes down what is wanted, brings each deployment to it step by step, and tells what became of it.
import { setTimeout as delay } from 'node:timers/promises'
import type { Network } from '../protocol/address-kind.ts'
import { type Changes, MAX_POLL_SECONDS } from '../protocol/poll.schema.ts'
import type { Report, ReportResult } from '../protocol/report.schema.ts'
import { Builds } from './builds/builds.ts'
import {
  backoffSeconds,
  type ControlPlaneClient,
  describeConnectionError,
  RequestRefused,
  SHUTDOWN_TIMEOUT_MS,
} from './control-plane/client.ts'
import { Credentials } from './control-plane/credentials.ts'
import { makeAgentKeys } from './control-plane/envelope.ts'
import { Lease, uptimeMs } from './control-plane/lease.ts'
import { LogShipper } from './control-plane/log-shipper.ts'
import { ReportSender } from './control-plane/report-sender.ts'
import type { Engine, EngineEvents, LogLevel, RevisionRef } from './engines/engine.ts'
import { FailurePolicy } from './reconcile/failure-policy.ts'
import { plan } from './reconcile/plan.ts'
import { SerialQueue } from './reconcile/serial-queue.ts'
import { type DeploymentState, RETRY_MS, refreshRevisions, type StepContext, takeStep } from './reconcile/steps.ts'
import {
  composeReport,
  describeOutcome,
  digestGenerations,
  type Observation,
  observeDeployment,
  serializeReportFacts,
  wantedOf,
  workAfterReport,
} from './reconcile/work.ts'
import { Redaction } from './redaction/redaction.ts'
import type { Users } from './system/users.ts'

/** What is wanted of a deployment, what it is called (also while it goes), and what the control plane was told last. */
type TrackedDeployment = DeploymentState & {
  name: string | null
  lastReported?: string
  isDatabaseReported?: boolean
  isUnhealthy?: boolean
}
type Options = {
  agent_id: string
  version: string
  home: string
  /** Where the folders of builds are, if not in `home`. */
  apps?: string | undefined
  /** As whom install and build commands run; otherwise as the agent's own user. */
  users?: Users | undefined
  engine: Engine
  control: ControlPlaneClient
  templates?: string
  /** Where repositories may be, though it is not public. */
  networks?: Network[]
  /** What no line may hold, whichever deployment it is about. */
  hidden_values?: string[]
  /** What an operator may want to read. */
  logToOperator: (line: string) => void
  wait?: number
  /** Milliseconds until a credential is asked for again; after which what goes on failing is given up. */
  retry?: number
  give_up_ms?: number
}

const RESYNC_INTERVAL_MS = 6 * 3600_000
const FLUSH_INTERVAL_MS = 250
/** With its end a revision leaves the flight, which is another generation. */
const FINAL_STATES = new Set<Report['state']>(['deployed', 'failed'])
const FATAL_STATUSES = new Set([401, 403, 404])

export class Agent {
  readonly #options: Options
  readonly #keys = makeAgentKeys()
  readonly #deployments = new Map<string, TrackedDeployment>()
  readonly #lease = new Lease()
  readonly #queue: SerialQueue
  readonly #reportSender: ReportSender
  readonly #shutdown = new AbortController()
  readonly #builds: Builds
  readonly #failurePolicy: FailurePolicy
  readonly #logs: LogShipper
  readonly #credentials: Credentials
  readonly #redaction: Redaction
  readonly #log = (kind: 'build' | 'deploy') => (of: RevisionRef, message: string, level: LogLevel) =>
    this.#logs.add(of, kind, message, level)
  #opened: Promise<void> = Promise.resolve()
  #listener = ''
  #cursor: number | null = null
  /** Named by a resync that is not whole yet. */
  #resyncedIds: Set<string> | null = null
  #resyncAt = 0

  constructor(options: Options) {
    this.#options = options
    const { home, apps = home } = options
    this.#redaction = new Redaction([home, apps], options.hidden_values)
    const changed = (id: string) => this.#queue.enqueue(id)
    const stale = () => {
      this.#resyncAt = Math.min(this.#resyncAt, performance.now())
    }
    this.#builds = new Builds({
      ...options,
      home: apps,
      retry_ms: options.retry,
      onChange: changed,
      onLinkExpired: stale,
      log: this.#log('build'),
    })
    this.#failurePolicy = new FailurePolicy({ ...options, builds: this.#builds, log: this.#log('deploy') })
    this.#queue = new SerialQueue(
      id => this.#reconcile(id),
      (id, error) => this.#handleFailure(id, error as Error),
    )
    const { control, agent_id } = options
    const held = () => (this.#lease.isActive() ? { agent_id, fence: this.#lease.fence! } : undefined)
    const who = () => (this.#canAct() ? held() : undefined)
    this.#logs = new LogShipper({
      ...{
        control,
        currentLease: held,
        areSecretsKnown: of => this.#redaction.areSecretsKnown(of, this.#isResyncComplete()),
      },
      redact: ({ deployment_id }, text) => this.#redaction.text(deployment_id, text),
    })
    this.#reportSender = new ReportSender({
      ...{ control, currentLease: who, signal: this.#shutdown.signal, onFenced: () => this.#loseLease() },
      onSending: ({ deployment_id }) => void delete this.#deployments.get(deployment_id)?.lastReported,
      onResult: (report, result) => this.#handleReportResult(report, result),
      onUnreadable: (report, error) => this.#handleUnreadableReport(report, error),
    })
    const asks = () => {
      const lease = who()
      return lease && { ...lease, listener: this.#listener }
    }
    this.#credentials = new Credentials({
      ...{ control, keys: this.#keys, currentLease: asks, signal: this.#shutdown.signal, retry_ms: options.retry },
      hide: this.#redaction.hide,
    })
  }

  /** Until it is closed, or the control plane refuses it for good. */
  async run(): Promise<void> {
    const opening = async () => {
      const registry: EngineEvents['registryCredential'] = (of, image) => this.#credentials.registry(of, image)
      const { hide } = this.#redaction
      await this.#options.engine.open({
        changed: id => this.#queue.enqueue(id),
        log: this.#log('deploy'),
        hide,
        registryCredential: registry,
      })
      await this.#builds.open()
    }
    this.#opened = opening()
    await this.#opened
    const flushing = setInterval(() => {
      void this.#reportSender.flush()
      void this.#logs.flush()
    }, FLUSH_INTERVAL_MS)
    try {
      for (let trouble = 0; !this.#shutdown.signal.aborted; )
        trouble = await this.#poll().then(
          () => 0,
          error => this.#backOff(error, trouble + 1),
        )
    } finally {
      clearInterval(flushing)
    }
  }

  async close(how: { stop: boolean }): Promise<void> {
    this.#shutdown.abort()
    // What was not taken over yet could not be ended either.
    await this.#opened.catch(() => {})
    await this.#builds.close()
    await this.#queue.close()
    await this.#options.engine.close(how)
    // Nobody reads these lines again. A flush that is under way may have passed the newest.
    const flushed = this.#logs.flush().then(() => this.#logs.flush())
    await Promise.race([flushed, delay(SHUTDOWN_TIMEOUT_MS, undefined, { ref: false })])
    const { control, agent_id } = this.#options
    // Nothing is begun or reported from here on, so another one may. Untold, it waits until the lease runs out.
    const { fence } = this.#lease
    if (fence !== null) await control.release({ agent_id, fence }).catch(() => {})
    this.#lease.lose()
  }

  // ---- what is wanted

  async #poll(): Promise<void> {
    const { agent_id, version, control, wait = 25 } = this.#options
    const begun = uptimeMs()
    if (performance.now() > this.#resyncAt) this.#cursor = null
    const answer = await control.poll(
      {
        ...{ agent_id, version, public_key: this.#keys.public_key, fence: this.#lease.fence, cursor: this.#cursor },
        digest: this.#cursor === null ? null : digestGenerations(this.#deployments),
        wait: this.#cursor === null || this.#resyncedIds ? 0 : Math.min(wait, MAX_POLL_SECONDS),
      },
      this.#shutdown.signal,
    )
    const { fence } = answer.lease
    if (this.#lease.fence !== fence)
      this.#options.logToOperator(`lease acquired listener=${answer.listener_id} lease=${fence}`)
    this.#lease.renew(fence, begun)
    this.#listener = answer.listener_id
    await this.#applyChanges(answer)
  }

  async #applyChanges({ changes, resync, more, cursor }: Changes): Promise<void> {
    if (resync) {
      this.#resyncedIds = new Set()
      this.#resyncAt = performance.now() + RESYNC_INTERVAL_MS
    }
    for (const work of changes) {
      const { deployment_id, generation } = work
      const before = this.#deployments.get(deployment_id)
      const { name = null, isDatabaseReported: databaseTold = false, isUnhealthy = false } = before ?? {}
      const { startedGenerations: given = new Map(), brokenSince: lost = new Map() } = before ?? {}
      this.#deployments.set(deployment_id, {
        work,
        name: work.name ?? name,
        generation,
        startedGenerations: given,
        brokenSince: lost,
        isDatabaseReported: databaseTold,
        isUnhealthy,
      })
      this.#redaction.learnSecrets(work, { keys: this.#keys, listener: this.#listener })
      this.#resyncedIds?.add(deployment_id)
    }
    if (this.#resyncedIds && !more) {
      // Where the engine cannot tell, nothing of this answer was applied yet, and it comes again.
      const engines = await this.#options.engine.deployments()
      const named = this.#resyncedIds
      this.#resyncedIds = null
      for (const id of this.#deployments.keys()) if (!named.has(id)) this.#forget(id)
      // Whatever of ours is here and was not named is not wanted any more.
      const here = [...engines, ...this.#builds.deployments(), ...named]
      for (const id of new Set(here)) this.#queue.enqueue(id)
    }
    this.#cursor = cursor
    for (const { deployment_id } of changes) this.#queue.enqueue(deployment_id)
  }

  /** How long after a failure it is tried again; forever, unless it is of no use. */
  async #backOff(error: unknown, trouble: number): Promise<number> {
    if (this.#shutdown.signal.aborted) return 0
    const { logToOperator: say } = this.#options
    if (error instanceof RequestRefused) {
      if (FATAL_STATUSES.has(error.status)) throw error
      if (error.status === 409) this.#loseLease()
      if (error.status === 422) this.#cursor = null
    }
    if (trouble === 1) say(`The control plane: ${describeConnectionError(error as Error)}`)
    await delay(backoffSeconds(error, trouble) * 1000, undefined, { signal: this.#shutdown.signal }).catch(() => {})
    return trouble
  }

  /** Another agent acts now: what runs goes on, and nothing is begun, changed or reported. */
  #loseLease(): void {
    this.#lease.lose()
    this.#cursor = null
    this.#resyncedIds = null
    this.#reportSender.clear()
    for (const known of this.#deployments.values()) delete known.lastReported
  }

  /** Everything that is wanted was told. */
  #isResyncComplete(): boolean {
    return this.#resyncAt !== 0 && !this.#resyncedIds
  }

  #canAct(): boolean {
    return this.#lease.isActive() && !this.#shutdown.signal.aborted
  }

  // ---- bringing a deployment there: one lane each, so that nothing of it happens twice at once

  async #reconcile(id: string): Promise<void> {
    for (let before = ''; ; ) {
      // A resync that is not whole yet has not said what is not wanted.
      if (!this.#canAct() || !this.#isResyncComplete()) {
        this.#failurePolicy.clear(id)
        return this.#queue.enqueueAfter(id, RETRY_MS)
      }
      const known = this.#deployments.get(id)
      const steps = this.#stepContext(id)
      const found = await observeDeployment(id, this.#builds, await this.#options.engine.observe(id))
      if (known) {
        await refreshRevisions(steps, known, found).finally(() => this.#redaction.confirmEngineSecrets(id))
        this.#queueReport(known, found)
      }
      const actions = plan(wantedOf(known?.work), found.observed)
      for (const action of actions) {
        if (!this.#canAct()) return this.#queue.enqueueAfter(id, RETRY_MS)
        await takeStep(steps, action, known, found)
      }
      if (actions.length === 0) return this.#failurePolicy.clear(id)
      // What was done changed nothing: it is not done without end.
      if (JSON.stringify(actions) === before) return this.#queue.enqueueAfter(id, RETRY_MS)
      before = JSON.stringify(actions)
    }
  }

  #handleFailure(id: string, error: Error): void {
    this.#options.logToOperator(`${this.#displayName(id)}: ${this.#redaction.text(id, error.message)}`)
    const known = this.#deployments.get(id)
    const { retryMs: again, failure } = this.#failurePolicy.handleFailure(id, known?.work, error)
    if (known && failure)
      this.#reportSender.add(
        this.#redaction.redactReport({ deployment_id: id, generation: known.generation, ...failure }),
      )
    this.#queue.enqueueAfter(id, again)
  }

  #stepContext(id: string): StepContext {
    return {
      ...{ id, engine: this.#options.engine, builds: this.#builds, log: this.#log('deploy') },
      secretAccess: {
        ...{ keys: this.#keys, listener: this.#listener },
        credential: (of, signal) => this.#credentials.repository(of, signal),
      },
      logToOperator: line => this.#options.logToOperator(`${this.#displayName(id)}: ${line}`),
      enqueueAfter: ms => this.#queue.enqueueAfter(id, ms),
    }
  }

  #displayName(id: string): string {
    return this.#deployments.get(id)?.name ?? id
  }

  #forget(id: string): void {
    this.#deployments.delete(id)
    this.#redaction.forget(id)
  }

  // ---- what became of it

  #queueReport(known: TrackedDeployment, found: Observation): void {
    const made = composeReport(known.work, known.generation, found, known.isDatabaseReported)
    const report = made && this.#redaction.redactReport(made)
    if (!report || serializeReportFacts(report) === known.lastReported)
      this.#reportSender.drop(known.work.deployment_id)
    else this.#reportSender.add(report)
  }

  #handleUnreadableReport(report: Report, { message }: RequestRefused): void {
    const id = report.deployment_id
    this.#options.logToOperator(`${this.#displayName(id)}: the report ${report.state} cannot be read: ${message}`)
    const known = this.#deployments.get(id)
    if (known) known.lastReported = serializeReportFacts(report)
  }

  #handleReportResult(report: Report, { outcome, generation, code }: ReportResult): void {
    const id = report.deployment_id
    const known = this.#deployments.get(id)
    if (!known || known.generation !== report.generation) return
    known.lastReported = serializeReportFacts(report)
    if (outcome === 'refused')
      this.#options.logToOperator(`${this.#displayName(id)}: the report ${report.state} was refused (${code})`)
    if (report.state === 'database_ready' && outcome !== 'stale') {
      known.isDatabaseReported = true
      this.#queue.enqueue(id)
    }
    if (outcome !== 'accepted') return
    const said = describeOutcome(known.work, report, { wasUnhealthy: known.isUnhealthy })
    known.isUnhealthy = report.state === 'serving' && report.healthy === false
    if (said) this.#options.logToOperator(`${this.#displayName(id)}: ${said}`)
    if (generation === null) return void this.#forget(id)
    // More than the report itself brought about is somebody else's change, which only a poll tells.
    if (generation <= report.generation + Number(FINAL_STATES.has(report.state))) known.generation = generation
    const { work } = known
    known.work = workAfterReport(report, work)
    if (known.work !== work) this.#queue.enqueue(id)
  }
}
