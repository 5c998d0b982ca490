// The agent: holds the lease of its listener, polls for changes, and leaves each deployment to the reconciler.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Network } from '../protocol/address-kind.ts'
import type { JobWork } from '../protocol/jobs.schema.ts'
import type { ListenerPolicy } from '../protocol/listener-policy.ts'
import { MAX_POLL_SECONDS } from '../protocol/poll.schema.ts'
import type { BucketStore } from './archive/bucket-store.ts'
import { Builds } from './builds/builds.ts'
import { RepositoryLooks } from './builds/repository-looks.ts'
import { describeTemplates, listTemplates } from './builds/source-tree.ts'
import { hasSsh } from './builds/ssh-session.ts'
import { AccessRenewer } from './control-plane/access-renewer.ts'
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
import { MetricsReporter } from './control-plane/metrics-reporter.ts'
import { ModelTokens } from './control-plane/model-tokens.ts'
import type { ReceivedChanges, UnreadableWork } from './control-plane/received-changes.ts'
import { ReportSender } from './control-plane/report-sender.ts'
import { Drains } from './drains/drains.ts'
import type { Engine, LogLevel, LogSource } from './engine.ts'
import { JobRunner } from './jobs/job-runner.ts'
import type { AgentState } from './metrics-server.ts'
import { Reconciler } from './reconcile/reconciler.ts'
import { openApplicationKey, openSecrets, openTracing, type SecretAccess } from './reconcile/work.ts'
import { Redaction } from './redaction/redaction.ts'
import { SnapshotFolder } from './snapshots/snapshot-folder.ts'
import { Snapshots } from './snapshots/snapshots.ts'
import { type FormatEvent, formatEvent, type LogEvent } from './system/log-event.ts'
import { DEFAULT_PATH } from './system/search-path.ts'
import type { Users } from './system/users.ts'
import { Tunnels } from './tunnels.ts'

type Options = {
  agent_id: string
  version: string
  home: string
  /** The folder of builds, if it is not in `home`. */
  apps?: string | undefined
  /** The users that install and build commands run as. Undefined: the agent's own user. */
  users?: Users | undefined
  engine: Engine
  /** Keeps backups and snapshots, if they are not to be in `home`. */
  archive?: BucketStore | undefined
  control: ControlPlaneClient
  templates?: string
  /** The control plane as applications reach it, if that is not its public URL. Null: they do not. */
  control_plane_url?: string | null | undefined
  networks?: Network[]
  /** Secrets of the agent itself, which are masked in the lines of every deployment. */
  hidden_values?: string[]
  logToOperator: (line: string) => void
  /** Default: text. */
  formatEvent?: FormatEvent
  wait?: number
  /** The applications are served in public, so a custom host is proved first. */
  verified_hosts_only?: boolean
  /** Milliseconds that are measured for a point of metrics. */
  metrics_ms?: number
  /** Milliseconds after which the tokens of applications are renewed. */
  model_tokens_ms?: number
  /** Milliseconds before a failed build or request for a credential is repeated. */
  retry?: number
  /** The room on disk for lines that drains have not sent yet. */
  drain_bytes?: number | undefined
  /** Milliseconds after which a revision that keeps failing is given up. */
  give_up_ms?: number
}

const RESYNC_INTERVAL_MS = 6 * 3600_000
const FLUSH_INTERVAL_MS = 250
/** A rollout that fails is sent back within a second. */
const JUDGE_INTERVAL_MS = 500
const FATAL_STATUSES = new Set([401, 403, 404])
const STANDBY_REASON =
  'Another agent serves this listener. This one takes over when that agent stops or its lease expires.'
const LEASE_LOST_REASON =
  'Another agent took over this listener. Applications keep running; this agent waits in standby.'
const RESTORED_REASON =
  'The control plane was restored from a backup and does not know it. `slipway restore --finish` has it removed.'
const UNNAMED_REASON =
  'The control plane does not name it, but sent a change without an id that this agent can read. Update the agent.'

export class Agent {
  readonly #options: Options
  readonly #keys = makeAgentKeys()
  readonly #lease = new Lease()
  readonly #shutdown = new AbortController()
  readonly #redaction: Redaction
  readonly #logShipper: LogShipper
  readonly #credentials: Credentials
  readonly #modelTokens: ModelTokens
  readonly #accessRenewer: AccessRenewer
  readonly #builds: Builds
  readonly #reports: ReportSender
  readonly #metrics: MetricsReporter
  readonly #reconciler: Reconciler
  readonly #snapshots: Snapshots
  readonly #jobs: JobRunner
  readonly #tunnels: Tunnels
  readonly #looks: RepositoryLooks
  readonly #drains: Drains
  #opened: Promise<void> = Promise.resolve()
  #listener = ''
  #cursor: number | null = null
  /** The deployments that a resync has named so far; null when none is in progress. */
  #resyncedIds: Set<string> | null = null
  /** Jobs of the pages before the last one. */
  readonly #receivedJobs: JobWork[] = []
  /** False if the control plane does not tell jobs, or this agent cannot read one: then none is forgotten. */
  #areAllJobsRead = true
  /** Since the last resync there was a change without readable ids, which may be of any deployment. */
  #hasUnnamedChange = false
  #resyncAt = 0
  #pollFailures = 0
  #knowsFeatures = true
  /** When it took the lease. Otherwise it counts as an agent that runs no jobs, and gets none. */
  #hasToldFeatures = true

  constructor(options: Options) {
    this.#options = options
    const { agent_id, control, engine, home, apps = home, retry } = options
    const { signal } = this.#shutdown
    const currentLease = () => (this.#lease.isActive() ? { agent_id, fence: this.#lease.fence! } : undefined)
    const actingLease = () => (this.#canAct() ? currentLease() : undefined)

    this.#redaction = new Redaction([home, apps], options.hidden_values)
    this.#drains = new Drains({
      folder: join(home, 'drains'),
      max_bytes: options.drain_bytes,
      networks: options.networks ?? [],
      keys: this.#keys,
      control,
      currentLease,
      logEvent: this.#logEvent,
      pause_ms: retry,
    })
    this.#logShipper = new LogShipper({
      control,
      currentLease,
      drains: this.#drains,
      areSecretsKnown: ref => this.#redaction.areSecretsKnown(ref, this.#isResyncComplete()),
      redact: ({ deployment_id }, text, from, isOfJob) =>
        isOfJob
          ? this.#redaction.withoutSecrets(deployment_id, text, from)
          : this.#redaction.text(deployment_id, text, from),
    })
    const listenerLease = () => {
      const lease = actingLease()
      return lease && { ...lease, listener: this.#listener }
    }
    this.#credentials = new Credentials({
      control,
      keys: this.#keys,
      currentLease: listenerLease,
      signal,
      retry_ms: retry,
      hide: this.#redaction.hide,
    })
    this.#looks = new RepositoryLooks({
      control,
      keys: this.#keys,
      currentLease: listenerLease,
      networks: options.networks ?? [],
      signal,
      logEvent: this.#logEvent,
    })
    this.#accessRenewer = new AccessRenewer({ control, currentLease: actingLease, signal })
    this.#modelTokens = new ModelTokens({
      control,
      engine,
      keys: this.#keys,
      currentLease: listenerLease,
      signal,
      hide: this.#redaction.hideToken,
      logEvent: this.#logEvent,
      renew_ms: options.model_tokens_ms,
    })
    this.#builds = new Builds({
      ...options,
      home: apps,
      retry_ms: retry,
      log: this.#revisionLog('build'),
      onChange: id => this.#reconciler.enqueue(id),
      onLinkExpired: () => {
        this.#resyncAt = Math.min(this.#resyncAt, performance.now())
      },
    })
    this.#reports = new ReportSender({
      control,
      currentLease: actingLease,
      signal,
      onSending: report => this.#reconciler.markUnreported(report.deployment_id),
      onResult: (report, result) => this.#reconciler.handleReportResult(report, result),
      onRejected: (report, error) => this.#reconciler.handleRejectedReport(report, error),
      onFenced: () => this.#loseLease(),
    })
    this.#metrics = new MetricsReporter({
      engine,
      control,
      currentLease,
      signal,
      logEvent: this.#logEvent,
      period_ms: options.metrics_ms,
      onPoints: points => this.#drains.addPoints(points),
    })
    this.#snapshots = new Snapshots({
      engine,
      folder: engine.snapshotHolder ?? new SnapshotFolder(join(home, 'snapshots'), options.archive?.below('snapshots')),
      control,
      currentLease: actingLease,
      logEvent: this.#logEvent,
    })
    this.#tunnels = new Tunnels({
      engine,
      openSocket: control.openTunnel,
      currentLease: actingLease,
      openSnapshot: (deployment_id, id) => this.#snapshots.openDownload(deployment_id, id),
    })
    this.#reconciler = new Reconciler({
      ...options,
      engine,
      builds: this.#builds,
      reports: this.#reports,
      redaction: this.#redaction,
      secretAccess: () => this.#secretAccess(),
      canAct: () => this.#canAct() && this.#isResyncComplete(),
      log: this.#revisionLog('deploy'),
      logEvent: this.#logEvent,
      isInUse: ref => this.#jobs.isInUse(ref),
      cancelJobs: id => this.#jobs.cancelOf(id),
      snapshots: this.#snapshots,
    })
    this.#jobs = new JobRunner({
      engine,
      control,
      currentLease: actingLease,
      findServing: id => this.#reconciler.findServing(id),
      findSpec: id => this.#reconciler.findSpec(id),
      perform: ({ job_id: id, is_scheduled, ...work }, log, signal) =>
        this.#snapshots.perform(
          { ...work, id, reason: is_scheduled ? 'schedule' : 'manual' },
          other => this.#reconciler.findSpec(other),
          log,
          signal,
        ),
      log: (of, message, level) => this.#logShipper.add(of, 'deploy', message, level),
      flushLogs: () => this.#flushLogs(),
      redact: (id, text) => this.#redaction.text(id, text),
      onEnd: id => this.#reconciler.enqueue(id),
      onFenced: () => this.#loseLease(),
      logEvent: this.#logEvent,
      folder: engine.name === 'kubernetes' ? null : join(home, 'jobs'),
    })
  }

  /** Returns after `close()`. Throws when the control plane refuses the key. */
  async run(): Promise<void> {
    this.#opened = this.#open()
    await this.#opened
    const flushing = setInterval(() => {
      void this.#reports.flush()
      void this.#logShipper.flush()
      void this.#drains.flush()
      void this.#jobs.flush()
      void this.#snapshots.flush()
    }, FLUSH_INTERVAL_MS)
    const judging = setInterval(() => void this.#reconciler.judgeRollouts(), JUDGE_INTERVAL_MS)
    this.#metrics.start()
    try {
      for (let failures = 0; !this.#shutdown.signal.aborted; )
        failures = await this.#poll().then(
          () => 0,
          error => this.#backOff(error, failures + 1),
        )
    } finally {
      clearInterval(flushing)
      clearInterval(judging)
    }
  }

  async #open(): Promise<void> {
    await this.#options.engine.open({
      changed: id => this.#reconciler.enqueue(id),
      log: this.#revisionLog('deploy'),
      requests: (ref, lines) => {
        for (const { message, level, timestamp, attributes } of lines)
          this.#logShipper.add(ref, 'request', message, level, { timestamp, attributes })
      },
      settledLength: (ref, text) =>
        this.#redaction.areSecretsKnown(ref, this.#isResyncComplete())
          ? this.#redaction.settledLength(ref.deployment_id, text)
          : 0,
      hide: this.#redaction.hide,
      registryCredential: (ref, image) => this.#credentials.registry(ref, image),
      renewAccess: renewal => this.#accessRenewer.renew(renewal),
      modelToken: id => this.#modelTokens.of(id),
    })
    await this.#builds.open()
    await this.#snapshots.open()
  }

  async #poll(): Promise<void> {
    const {
      agent_id,
      version,
      engine,
      control,
      templates,
      control_plane_url,
      verified_hosts_only,
      wait = 25,
    } = this.#options
    const sentAt = uptimeMs()
    if (performance.now() > this.#resyncAt) this.#cursor = null
    const isResyncing = this.#cursor === null || this.#resyncedIds !== null
    if (this.#lease.fence === null) this.#hasToldFeatures = this.#knowsFeatures
    const answer = await control.poll(
      {
        agent_id,
        version,
        ...(this.#lease.fence === null && {
          templates: listTemplates(templates),
          template_descriptions: describeTemplates(templates),
          policy: this.#knowsFeatures ? await withOwnFeatures(engine) : withoutFeatures(engine.policy),
        }),
        public_key: this.#keys.public_key,
        fence: this.#lease.fence,
        cursor: this.#cursor,
        digest: this.#cursor === null || this.#hasUnnamedChange ? null : this.#reconciler.digest(),
        ...(control_plane_url !== undefined && { control_plane_url }),
        ...(verified_hosts_only && { verified_hosts_only }),
        ...(this.#knowsFeatures && { drains: this.#drains.digest ?? 'unknown' }),
        wait: isResyncing ? 0 : Math.min(wait, MAX_POLL_SECONDS),
      },
      this.#shutdown.signal,
    )
    const { fence } = answer.lease
    const isNewLease = this.#lease.fence !== fence
    if (isNewLease) this.#logEvent('lease acquired', { listener: answer.listener_id, lease: fence })
    this.#lease.renew(fence, sentAt)
    if (isNewLease) void this.#metrics.begin()
    this.#listener = answer.listener_id
    this.#options.archive?.setListener(answer.listener_id)
    this.#modelTokens.setUrl(answer.models_url)
    if (answer.grants) await this.#options.engine.trustGrants?.(answer.grants)
    this.#tunnels.open(answer.tunnels ?? [])
    this.#looks.take(answer.looks)
    await this.#drains.take(answer.drains, answer.listener_id)
    await this.#applyChanges(answer)
  }

  async #applyChanges(answer: ReceivedChanges): Promise<void> {
    const { changes, jobs, areAllJobsRead, unreadable, resync, more, cursor, keep_unknown = false } = answer
    if (resync) {
      this.#resyncedIds = new Set()
      this.#receivedJobs.length = 0
      this.#areAllJobsRead = this.#hasToldFeatures
      this.#resyncAt = performance.now() + RESYNC_INTERVAL_MS
      this.#hasUnnamedChange = false
    }
    for (const work of unreadable) this.#holdUnreadable(work)
    if (!this.#resyncedIds || !more) {
      const reason = keep_unknown ? RESTORED_REASON : this.#hasUnnamedChange ? UNNAMED_REASON : null
      // The next resync removes the unknown deployments that were kept.
      if (this.#reconciler.keepUnknown(reason)) this.#resyncAt = Math.min(this.#resyncAt, performance.now())
    }
    for (const work of changes) {
      this.#reconciler.applyWork(work)
      const access = this.#secretAccess()
      this.#redaction.learnSecrets(work, revision => ({
        secrets: openSecrets(work, revision, access),
        tracing: openTracing(work, revision, access),
        application_key: openApplicationKey(work, revision, access),
      }))
      this.#resyncedIds?.add(work.deployment_id)
      const { deployment_id, tenant_id, name } = work
      if (tenant_id && name) this.#drains.describe(deployment_id, { tenant_id, name })
    }
    for (const { deployment_id } of changes.filter(({ wanted }) => wanted === 'absent')) {
      this.#modelTokens.forget(deployment_id)
      this.#drains.forget(deployment_id)
    }
    const isResyncing = this.#resyncedIds !== null
    this.#receivedJobs.push(...jobs)
    this.#areAllJobsRead &&= areAllJobsRead
    if (this.#resyncedIds && !more) {
      await this.#completeResync(this.#resyncedIds)
      this.#modelTokens.renewAll()
    } else if (!this.#resyncedIds)
      this.#modelTokens.renew(changes.filter(({ wanted }) => wanted === 'present').map(work => work.deployment_id))
    const isComplete = isResyncing && !keep_unknown && this.#areAllJobsRead
    if (!more) this.#jobs.apply(this.#receivedJobs.splice(0), isComplete)
    this.#cursor = cursor
    for (const { deployment_id } of [...changes, ...unreadable.flatMap(({ ids }) => ids ?? [])])
      this.#reconciler.enqueue(deployment_id)
  }

  /** Its generation counts as known, so the control plane sends it again when it changes, or with a resync. */
  #holdUnreadable({ ids, faults }: UnreadableWork): void {
    if (ids) {
      this.#reconciler.holdUnreadable(ids, faults)
      this.#resyncedIds?.add(ids.deployment_id)
    } else {
      this.#hasUnnamedChange = true
      this.#logEvent('work not readable', { error: faults })
    }
  }

  /** Everything on this machine that the resync did not name is removed, unless unknown deployments are kept. */
  async #completeResync(namedIds: Set<string>): Promise<void> {
    // If this throws, the cursor does not move and the control plane sends the same page again.
    const engineIds = await this.#options.engine.deployments()
    this.#resyncedIds = null
    this.#reconciler.forgetAllBut(namedIds)
    this.#reconciler.watchRestored()
    const localIds = new Set([...engineIds, ...this.#builds.deployments(), ...namedIds])
    for (const id of localIds) this.#reconciler.enqueue(id)
  }

  /** Waits before the next poll, and returns the number of failures in a row. Throws if no retry can succeed. */
  async #backOff(error: unknown, failures: number): Promise<number> {
    if (this.#shutdown.signal.aborted) return 0
    this.#pollFailures++
    const { status, code } = error instanceof RequestRefused ? error : {}
    if (status && FATAL_STATUSES.has(status)) throw error
    if (status === 409) this.#loseLease()
    if (status === 422) {
      this.#cursor = null
      // A control plane of an earlier release refuses what it does not know.
      this.#knowsFeatures = !this.#knowsFeatures
    }
    if (code === 'lease_held') {
      if (failures === 1) this.#logEvent('standby', { reason: STANDBY_REASON })
    } else if (code !== 'fence_stale' && failures === 2) {
      // Ignores a single failure: a control plane refuses for a moment while it is updated.
      this.#logEvent('poll failed', { error: describeConnectionError(error as Error) })
    }
    await delay(backoffSeconds(error, failures) * 1000, undefined, { signal: this.#shutdown.signal }).catch(() => {})
    return failures
  }

  /** Replicas go on running, but nothing is started, changed or reported. */
  #loseLease(): void {
    if (this.#lease.fence !== null)
      this.#logEvent('lease lost', { lease: this.#lease.fence, reason: LEASE_LOST_REASON })
    this.#lease.lose()
    this.#jobs.release()
    void this.#tunnels.closeAll()
    this.#cursor = null
    this.#resyncedIds = null
    this.#reports.clear()
    this.#reconciler.leave()
  }

  /** With `stop`, applications end too; without it they keep serving and the next agent takes them over. */
  async close({ stop }: { stop: boolean }): Promise<void> {
    this.#shutdown.abort()
    await this.#tunnels.closeAll()
    // The engine cannot stop what it has not taken over yet.
    await this.#opened.catch(() => {})
    this.#jobs.release()
    await this.#builds.close()
    await this.#reconciler.close()
    await this.#options.engine.close({ stop })
    await this.#flushLogs()
    await this.#drains.close()
    // Nothing is started or reported any more, so another agent can take over before the lease expires.
    const { control, agent_id } = this.#options
    const { fence } = this.#lease
    if (fence !== null) await control.release({ agent_id, fence }).catch(() => {})
    this.#lease.lose()
  }

  /** A flush that is in progress may have passed the newest lines. */
  async #flushLogs(): Promise<void> {
    const flushed = this.#logShipper.flush().then(() => this.#logShipper.flush())
    await Promise.race([flushed, delay(SHUTDOWN_TIMEOUT_MS, undefined, { ref: false })])
  }

  /** The values for the operator's tools. */
  state(): AgentState {
    const { version, engine } = this.#options
    return {
      version,
      engine: engine.name,
      hasLease: this.#lease.isActive(),
      pollFailures: this.#pollFailures,
      waiting: { reports: this.#reports.waiting, metrics: this.#metrics.waitingRequests },
      totals: this.#metrics.totals,
      now: this.#metrics.usageNow,
      databases: engine.databaseTotals?.(),
    }
  }

  #canAct(): boolean {
    return this.#lease.isActive() && !this.#shutdown.signal.aborted
  }

  #isResyncComplete(): boolean {
    return this.#resyncAt !== 0 && !this.#resyncedIds
  }

  #secretAccess(): SecretAccess {
    return {
      keys: this.#keys,
      listener: this.#listener,
      credential: (ref, signal) => this.#credentials.repository(ref, signal),
      modelsUrl: this.#modelTokens.url,
    }
  }

  #revisionLog(kind: 'build' | 'deploy') {
    return (ref: LogSource, message: string, level: LogLevel, shownLength?: number) =>
      this.#logShipper.add(ref, kind, message, level, { shownLength })
  }

  readonly #logEvent: LogEvent = (event, fields) => {
    const { logToOperator, formatEvent: format = formatEvent } = this.#options
    logToOperator(format(event, fields))
  }
}

/** Jobs and sources are the same with every engine. */
const withOwnFeatures = async ({ policy, takeSnapshot }: Engine): Promise<ListenerPolicy> => ({
  ...policy,
  ...(policy.features &&
    !(await hasSsh(DEFAULT_PATH)) && { features: policy.features.filter(one => one !== 'git_ssh') }),
  jobs: true,
  job_processes: true,
  ...(takeSnapshot && { tunnels: [...(policy.tunnels ?? []), 'snapshots'] }),
})

const withoutFeatures = ({ privileged, service_accounts, max_copies }: ListenerPolicy): ListenerPolicy => ({
  privileged,
  service_accounts,
  max_copies,
})
