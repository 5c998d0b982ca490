// The interface between the agent and the engines that run applications: processes, containers or a cluster.

import type { Duplex, Readable, Writable } from 'node:stream'
import type { BuildPlan, PlannedSchedule, ProcessType, Site } from '../build-plan/build-plan.ts'
import type { AccessRenewal } from '../protocol/access-renewals.schema.ts'
import type { BuildPlan as StoredPlan } from '../protocol/build-plan.schema.ts'
import type { RegistryCredential } from '../protocol/credentials.schema.ts'
import type { SourceDisk } from '../protocol/disks.ts'
import type { ListenerPolicy } from '../protocol/listener-policy.ts'
import type { LogBatch, levels } from '../protocol/logs.schema.ts'
import type { Source } from '../protocol/parts.schema.ts'
import type { GrantIssuer, WorkProtection } from '../protocol/protection.schema.ts'
import type { Incident, ReportedHealth, ReportedHost } from '../protocol/report.schema.ts'
import type { RequestLogs } from '../protocol/request-logs.schema.ts'
import type { AppProtocol, CompleteResourceSpec, Part } from '../protocol/resources.schema.ts'
import type { FailingRequest } from '../protocol/rollout.schema.ts'
import type { SideCounts } from '../protocol/rollout-step.ts'
import type { HeldSnapshot } from '../protocol/snapshots.schema.ts'
import type { WorkTraffic } from '../protocol/traffic.schema.ts'
import type { Exit, Ready } from '../protocol/tunnel-frames.ts'
import type { NewForward, NewTerminal, Size } from '../protocol/tunnels.schema.ts'
import type { Tracing } from '../protocol/work.schema.ts'

export type RevisionRef = { deployment_id: string; revision_id: string }
/** `process`: the type of the copy that wrote a line. Absent: it is of the agent, about the whole. */
export type LogSource = RevisionRef & { process?: string | undefined }

/** With a revision: only while that one serves. */
export type HostLabel = { label: string; revision_id: string | null }

/** A revision to run, with everything it needs. Its secrets are in plain text. */
export type RevisionSpec = RevisionRef & {
  /** The deployment's name: a DNS label, unique within its workspace only. */
  name: string
  tenant_id: string
  number: number
  source: Source
  /** Null for sources that are built here. */
  image_uri: string | null
  namespace: string | null
  custom_url: string | null
  /** Null: everyone may see it. Absent: its control plane is of an earlier release. */
  protection?: WorkProtection | null
  /** The requests that become lines of the log. Absent or null: none. */
  request_logs?: RequestLogs | null
  /** The first labels of its hosts, its own first. Absent or empty: the engine chooses one. */
  host_labels?: HostLabel[]
  /** The revision starts once `observe` reports its database as ready. The engine sets `DATABASE_URI` for it. */
  needs_database: boolean
  /** Its database began as a copy of another one: nothing but a user has snapshots of it taken. */
  has_copied_database?: boolean
  resources: CompleteResourceSpec
  /** The parts to run besides the application. `resources` has all amounts of each. */
  parts: Part[]
  secrets: Record<string, string>
  secret_references: { name: string; secret_name: string; secret_key: string }[]
  /** Null if the application does not trace itself. */
  tracing: Tracing | null
  /** The key by which clients call it, if it serves graphs. Absent: its control plane is of an earlier release. */
  application_key?: string | null
  /** Null if the application gets no token for models. */
  models_url: string | null
}

export type Commit = { sha: string; message: string | null; author: string | null }

/** The files of an application and the settings of its runtime configuration. */
export type SourceTree = {
  folder: string
  commit: Commit | null
  /** The version that the source gives itself. */
  version: string | null
  /** The folder of the application in the source. Absent or empty: the source itself. */
  root?: string
  /** Null: the source has no runtime configuration file. */
  configuration_path: string | null
  start_command: string | null
  health_path: string | null
  sleep_path?: string | null
  protocol?: AppProtocol | null
  env: Record<string, string>
  /** The revision's command if it has one, else the configuration's. Null: the default. Empty: none. */
  install_command: string | null
  build_command: string | null
  /** The files to serve, by the configuration, in a folder relative to that of the application. */
  site?: Site | null
  /** Null: the one that is found. Empty: none. */
  release_command?: string | null
  release_timeout_seconds?: number | null
  processes?: ProcessType[]
  schedules?: PlannedSchedule[]
  disks?: SourceDisk[]
}

/** The result of a build. It is stored as JSON, so a restarted agent does not build again. */
export type Artifact = {
  /** A folder, or an image by digest. */
  location: string
  start_command: string | null
  health_path: string | null
  env: Record<string, string>
  commit: Commit | null
  /** Absent in artifacts of earlier agents. */
  version?: string | null
  build_plan?: StoredPlan | undefined
  stamp?: string
  /** The folder in which the start command runs, below `location`. */
  root?: string
  /** Folders of programs, before those of the system. */
  programs?: string[]
  /** Commands that come before each other one in an image that a plan has built. */
  enter?: string
  /** The path at which it is asked whether it may sleep. */
  sleep_path?: string
  /** The protocol at its port. Absent: `http`. */
  protocol?: AppProtocol
  /** Runs once, before the first start. */
  release?: { command: string; timeout_seconds: number }
  /** The variable with the address of a database, which is tried before that. */
  attached_database?: string
  /** The processes of the build beside the one that listens. */
  processes?: ProcessType[]
  /** Nothing listens: its processes run alone. */
  isWithoutWeb?: boolean
  /** The disks to which paths in its folder lead. */
  disks?: Record<string, string>
  /** Files that the router serves, in a folder of the agent's own. There is no start command. */
  site?: Site
}

export type LogLevel = (typeof levels)[number]
export type WriteLog = (message: string, level?: LogLevel) => void
/** The context of a long task. When the signal is aborted, the task ends early with all its process groups. */
export type BuildTask = {
  log: WriteLog
  signal: AbortSignal
  /** A folder that is kept between the builds of a deployment. */
  cache: string
  /** A folder that records the running command, so that the next agent can find and end it. */
  runningFolder: string
  /** Gets the plan by which the source is built. */
  onPlan?: (plan: BuildPlan) => void
}

/** A command that runs once. The next agent finds it by its id, while it runs and after its end. */
export type OneOffRun = {
  id: string
  command: string
  timeout_seconds: number
  /** The process that it stands for, in SLIPWAY_ROLE. By default `run`. The amounts are those of the revision. */
  role?: string
  /** An earlier agent was about to start it. An engine without records of its own never starts it then. */
  wasStarted?: boolean
}
/** `exit_code`: null if it was killed, or if nothing is left that tells. `reason`: a verb phrase; null after code 0. */
export type RunEnd = { exit_code: number | null; reason: string | null }

/** The health of a revision's replicas. `plan.ts` defines the phases. */
export type RevisionHealth = {
  revision_id: string
  phase: 'starting' | 'healthy' | 'unhealthy' | 'failing' | 'draining' | 'drained'
  /** The problem and what to do, with the last lines of the log; null if nothing is wrong. */
  reason: string | null
  /** Absent: the phase says it all. */
  condition?: Condition
}

/** The health of the copies of a revision that serves, and what happened to them since the agent started. */
export type Condition = { health: ReportedHealth; incidents: Incident[] }

/** Part of the reason of a revision that is starting. */
export const describeDeadline = (at: number): string =>
  `It fails at ${new Date(at).toISOString().slice(11, 19)} UTC unless it is healthy by then.`

export type EngineObservation = {
  running: RevisionHealth[]
  /** The revision that receives the requests. */
  routed: string | null
  /** The one beside it, and its share of the requests. Absent: there is none. */
  split?: { revision_id: string; share: number } | undefined
  url: string | null
  /** The same by an address of this machine, without a name. */
  local_url?: string
  /** The host of its custom URL, where a public proxy serves it. */
  custom_host?: ReportedHost
  hasRemains: boolean
  /** Null if it needs no database. Hopeless: it was not ready in time, so revisions waiting for it fail. */
  database: { ready: boolean; reason: string | null; hopeless?: boolean } | null
  /**
   * The time of the last request, or when counting began. Undefined for an engine that does not see requests. Coarse,
   * because each change is reported: it moves with the first request after a pause, then about once an hour.
   */
  last_request_at?: string
}

export type EngineEvents = {
  /** The agent observes the deployment again. */
  changed(deployment_id: string): void
  /**
   * A line written by an application, or by the agent about it. The first `shownLength` characters of the line were
   * logged before, when it was unfinished; they are needed to mask the rest.
   */
  log(of: LogSource, message: string, level: LogLevel, shownLength?: number): void
  /** Lines of requests to a revision, with their times. */
  requests(of: RevisionRef, lines: LogBatch['lines']): void
  /** The length of an unfinished line that can be logged. The rest may be the beginning of a secret. */
  settledLength(of: RevisionRef, text: string): number
  /** Masks these values in all lines and reasons of the deployment. Called before anything of it receives them. */
  hide(deployment_id: string, values: string[]): void
  /**
   * The credential of the installation's own registry: to pull an image of the revision or, without an image, to push
   * what is built for the deployment. Null if the image is in another registry, or the installation has none. Request
   * it each time it is needed: it is valid for ten to sixty minutes. Never log or store it. Throws a PermanentError if
   * it is refused, and a TransientError if the control plane stays unreachable after a few attempts.
   */
  registryCredential(of: RevisionRef, image?: string): Promise<RegistryCredential | null>
  /** The present token by which an application calls models. Undefined: not known yet, or there is none. */
  modelToken(deployment_id: string): string | undefined
  /** True while the person with this grant may see the deployment. Null: not known now. */
  renewAccess(renewal: AccessRenewal): Promise<boolean | null>
}
/** Totals since the router started: answers by status and by the time until they began. */
export type RequestCounts = { statuses: number[]; latencies: number[] }
/** The usage of one copy of a revision. Null or absent: the engine cannot see it. */
export type CopyUsage = {
  /** The type of its process. */
  process: string
  /** Names the copy within its revision, also after a restart. */
  copy: string
  running: boolean
  /** Totals. `cpu_ms` is a total as well, and `cpu_cores` the current rate of an engine without totals. */
  restarts: number
  cpu_ms?: number | null
  cpu_cores?: number | null
  /** The most since the last call. */
  memory_bytes: number | null
  requests: RequestCounts | null
}
export type RevisionUsage = RevisionRef & {
  copies: CopyUsage[]
  /** The total number of requests that no copy accepted. */
  unreached: number | null
  /** Tasks that wait, where the application tells. */
  queue?: number
}

/** Totals by revision: answers, and restarts of copies. */
export type SplitTotals = {
  revisions: Record<string, SideCounts>
  /** The latest that failed, and the slowest, of the revision beside the routed one. */
  failing: FailingRequest[]
  slow: FailingRequest[]
  restarts: Record<string, number>
}

/** All databases of the agent that it can measure, and those whose backup fails. */
export type DatabaseTotals = { count: number; bytes: number; connections: number; failing: number }

/** The amounts of what lasts of a deployment, measured within the last minutes. */
export type StoreUsage = { deployment_id: string; store: string; bytes: number; connections?: number | undefined }

/** For an engine that is not open yet. */
export const NO_EVENTS: EngineEvents = {
  changed: () => {},
  log: () => {},
  requests: () => {},
  settledLength: () => 0,
  hide: () => {},
  registryCredential: async () => null,
  modelToken: () => undefined,
  renewAccess: async () => null,
}

/** A command that runs beside a copy. */
export type Terminal = {
  input: Writable
  output: Readable
  /** Null if it has a terminal, in which both are one. */
  errors: Readable | null
  resize(size: Size): void
  signal(name: string): void
  /** After all output has been read. */
  exit: Promise<Exit>
  /** Ends the command with all that it has started. */
  close(): Promise<void>
}
/** A port of a copy, or a store. */
export type ForwardTarget = Ready & { connect(): Promise<Duplex> }

/** Data that outlive a revision: `database`, `redis` or `disk:NAME`. */
type StoreName = string
/** The files of a snapshot, or a time in the history of the database of a deployment. */
export type RestorePoint = { folder: string } | { deployment_id: string; at: Date }

/** The place of an agent's snapshots. */
export interface SnapshotHolder {
  open(): Promise<void>
  /** Throws while it is not known which there are. */
  list(): HeldSnapshot[]
  read(id: string): HeldSnapshot | undefined
  /** The engine restores from it. */
  fetch(id: string, signal: AbortSignal): Promise<string>
  openTar(id: string, signal: AbortSignal): Promise<Duplex>
  freeBytes(): number
  totalBytes(): number
  add(snapshot: Omit<HeldSnapshot, 'size_bytes'>, write: (to: string) => Promise<void>): Promise<HeldSnapshot>
  remove(id: string): Promise<void>
  /** Moves files to the store beside it, if there is one. Those in use stay for now. */
  moveToStore?(isInUse: (id: string) => boolean): Promise<void>
  /** Knows the snapshots of an agent before, on another machine, and forgets those that it has removed. */
  learn?(): Promise<void>
}

/** Idempotent, and a missing object is no error. First writes a label or a file by which `observe` finds the rest. */
export interface Engine {
  readonly name: string
  /** The limits of deployments. The control plane refuses a change beyond them when it is planned. */
  readonly policy: ListenerPolicy
  /** Returns the reason why it cannot run this revision, as a sentence for the user; null if it can. */
  refusalReason(spec: RevisionSpec): string | null
  /** Takes over what an earlier agent left running. Called once, before anything else. */
  open(events: EngineEvents): Promise<void>
  deployments(): Promise<string[]>
  observe(deployment_id: string): Promise<EngineObservation>
  /** Starts to create its database, without waiting for it. */
  provide(spec: RevisionSpec): Promise<void>
  /** Builds the artifact from files (with their install and build commands), or from an image (tree is null). */
  prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact>
  /**
   * Reuses the artifact of an earlier revision with the same files, commands and secrets. Null if it is gone or was
   * changed: then it is built again, as by an engine without this method.
   */
  reuse?(spec: RevisionSpec, artifact: Artifact, task: BuildTask): Promise<Artifact | null>
  /**
   * Starts its replicas beside what runs, without waiting for them. Also called once after `open` for a revision that
   * was taken over, and after a change of its resources: running replicas are kept.
   */
  start(spec: RevisionSpec, artifact: Artifact): Promise<void>
  /** Once it returns, every new request goes to that revision. Also called when its `custom_url` changes. */
  route(spec: RevisionSpec): Promise<void>
  /** Stops new requests. The phase is `drained` once the last one was answered or has timed out. */
  drain(ref: RevisionRef): Promise<void>
  /** Ends its replicas, by force after a grace period. If it returns early, the phase is `draining` until they end. */
  stop(ref: RevisionRef): Promise<void>
  /**
   * Runs a command with the environment, files, user and limits of a revision, without PORT, and waits for its end.
   * A run of that id that was started before is found, not started again. An aborted signal ends the waiting only.
   */
  runOnce(spec: RevisionSpec, artifact: Artifact, run: OneOffRun, log: WriteLog, signal: AbortSignal): Promise<RunEnd>
  /** Ends a run if it has not ended, and forgets it. Until then it keeps its exit code for the next agent. */
  forgetRun(deployment_id: string, id: string): Promise<void>
  /**
   * Writes the present token where the application reads it, if anything of the deployment exists. `start` does so too.
   * Absent: applications get none.
   */
  renewModelToken?(deployment_id: string): Promise<void>
  /** The usage of each copy until now. Called about once a minute. Absent: the engine measures nothing. */
  readUsage?(): Promise<RevisionUsage[]>
  /** Absent: the engine measures none. */
  storeUsage?(): StoreUsage[]
  /** Measured within the last minute. Absent: the engine measures none. */
  databaseTotals?(): DatabaseTotals
  /** Takes the signer of grants, by which people see protected deployments. Absent: the engine protects none. */
  trustGrants?(issuer: GrantIssuer): Promise<void>
  /** Sets who may see the deployment, if it is stored here: its first start does. Absent: the engine protects none. */
  protect?(deployment_id: string, protection: WorkProtection | null): Promise<void>
  /** Sets which requests become lines, if it is stored here. Absent: the engine sees no requests. */
  logRequests?(deployment_id: string, logs: RequestLogs | null): Promise<void>
  /**
   * Gives a revision a share of the requests, once it is healthy. The rest is of the routed one. Absent: the engine
   * splits none.
   */
  split?(deployment_id: string, split: WorkTraffic | null): Promise<void>
  /** The totals by which a rollout is judged. Absent: the engine sees no requests, and steps go by time alone. */
  readSplit?(deployment_id: string): Promise<SplitTotals>
  /** Runs a command beside a copy. Rejects with a PermanentError for the user. See `policy.tunnels`. */
  openTerminal?(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal>
  /** Reaches ports of copies and stores of this deployment, and nothing else. */
  openForward?(ref: RevisionRef, request: NewForward): Promise<ForwardTarget>
  /** The stores of a deployment that have data. */
  listStores?(deployment_id: string): Promise<StoreName[]>
  /** The place of the snapshots, if that is not a folder of the agent. `folder` is then what `add` of it gives. */
  readonly snapshotHolder?: SnapshotHolder
  /** Writes a copy of a store at one moment, as files, into an empty folder. Rejects as openTerminal does. */
  takeSnapshot?(deployment_id: string, store: StoreName, folder: string, signal: AbortSignal): Promise<void>
  /** Replaces the data of a store. Copies of the deployment stop meanwhile. A crash leaves the old or the new data. */
  restoreSnapshot?(spec: RevisionSpec, store: StoreName, from: RestorePoint, signal: AbortSignal): Promise<void>
  /** Removes a store with its data. No revision that runs uses it. */
  removeStore?(deployment_id: string, store: StoreName): Promise<void>
  /** Removes everything that was created for a deployment: routes, files, database. */
  remove(deployment_id: string): Promise<void>
  /** Without `stop`, what it runs keeps running, and the next agent takes it over. */
  close(how: { stop: boolean }): Promise<void>
}

/** Rejects as soon as the signal is aborted, without ending what it waits for. */
export async function waitUnlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  // It may fail when nobody waits for it any more.
  promise.catch(() => {})
  signal.throwIfAborted()
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  signal.addEventListener('abort', abort)
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', abort))
}

/** A failure that may pass: the same action is retried. */
export class TransientError extends Error {
  override name = 'TransientError'
}

/** The server of the source did not answer, or cannot answer now. The build asks again, for a limited time. */
export class SourceUnavailable extends TransientError {}

/** A failure that a retry does not fix. Its message is shown to the user: what is wrong, and what to do. */
export class PermanentError extends Error {
  override name = 'PermanentError'
}

/** The engine cannot copy or replace this store. Snapshots that nobody asked for leave it out. */
export class SnapshotUnsupported extends PermanentError {
  override name = 'SnapshotUnsupported'
}
