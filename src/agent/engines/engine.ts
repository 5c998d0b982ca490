// The interface between the agent and what runs applications: processes of this machine, containers, a cluster.

import type { RegistryCredential } from '../../protocol/credentials.schema.ts'
import type { Source } from '../../protocol/parts.schema.ts'
import type { CompleteResourceSpec, Part } from '../../protocol/resources.schema.ts'

/** One revision of one deployment. */
export type RevisionRef = { deployment_id: string; revision_id: string }

/** A revision that is to run, with everything that it takes. Nothing in it is sealed any more. */
export type RevisionSpec = RevisionRef & {
  /** Of the deployment; a DNS label, unique in its workspace only. */
  name: string
  tenant_id: string
  number: number
  source: Source
  /** For the sources that bring an image. */
  image_uri: string | null
  namespace: string | null
  custom_url: string | null
  /** It is started only once `observe` says that its database is ready; the engine puts `DATABASE_URI` into its environment. */
  needs_database: boolean
  resources: CompleteResourceSpec
  /** What was asked for beside the application itself: in `resources` no amount is left open. */
  parts: Part[]
  secrets: Record<string, string>
  secret_references: { name: string; secret_name: string; secret_key: string }[]
}

export type Commit = { sha: string; message: string | null; author: string | null }

/** The files that an application is made from, and what its runtime configuration says. */
export type SourceTree = {
  folder: string
  commit: Commit | null
  start_command: string | null
  health_path: string | null
  env: Record<string, string>
  /** The revision's own, or the configuration's. */
  install_command: string | null
  build_command: string | null
}

/** What an engine can start: plain JSON, kept on disk so that a restarted agent need not build again. */
export type Artifact = {
  /** A folder or an image by digest. */
  location: string
  start_command: string | null
  health_path: string | null
  env: Record<string, string>
  commit: Commit | null
  /** By which a folder is known to be as it was made. */
  stamp?: string
}

export type LogLevel = 'INFO' | 'WARNING' | 'ERROR'
export type WriteLog = (message: string, level?: LogLevel) => void
/** What work that takes its time is given: it ends early when the signal is aborted, whole process groups included. */
export type BuildTask = {
  log: WriteLog
  signal: AbortSignal
  /** A folder that the deployment keeps from one build to the next. */
  cache: string
  /** A folder for the mark of the command that runs, so that the next agent finds and ends it. */
  runningFolder: string
}

/** How the copies of a revision fare. `plan.ts` says what each word means. */
export type RevisionHealth = {
  revision_id: string
  phase: 'starting' | 'healthy' | 'unhealthy' | 'failing' | 'draining' | 'drained'
  /** What is wrong and what to do about it, in a sentence, with the last lines of its log; null when nothing is. */
  reason: string | null
}

export type EngineObservation = {
  running: RevisionHealth[]
  /** The revision that gets the requests. */
  routed: string | null
  url: string | null
  /** Whether anything of the deployment is left here. */
  hasRemains: boolean
  /** How its database fares; null when it asked for none. Hopeless: it has had its time, and what waits for it is to be told. */
  database: { ready: boolean; reason: string | null; hopeless?: boolean } | null
  /**
   * When somebody last used it, or since when uses are counted. Left out by an engine that cannot tell. Coarse: it moves
   * with the first use after a pause, and then about once an hour, since whatever it says is reported.
   */
  last_request_at?: string
}

export type EngineEvents = {
  /** Something of a deployment is other than it was: it will be observed again. */
  changed(deployment_id: string): void
  /** A line that an application wrote, or that is said about it. */
  log(of: RevisionRef, message: string, level: LogLevel): void
  /**
   * Values that no line or reason of a deployment may hold, besides those of its secrets: called before anything of
   * it is given them.
   */
  hide(deployment_id: string, values: string[]): void
  /**
   * What the installation's own registry lets an image of a revision be pulled with, or, without an image, whatever is of the
   * deployment be pushed with, if its source is built here. Null where the image is elsewhere or there is no such registry. Asked for
   * whenever it is needed, also days later: it is good for ten minutes at least and an hour at most, and belongs into no log and no file.
   * Unworkable where it is refused, Passing where the control plane is away for longer than a few tries.
   */
  registryCredential(of: RevisionRef, image?: string): Promise<RegistryCredential | null>
}
/** For an engine that nobody listens to yet. */
export const NO_EVENTS: EngineEvents = {
  changed: () => {},
  log: () => {},
  hide: () => {},
  registryCredential: async () => null,
}

/**
 * Every verb can be repeated: what is done already is not done twice, and what is gone is not an error. An agent may be
 * killed between any two lines, so whatever a verb makes can be found again by `observe` from the world itself, by a
 * label or a file that was written before.
 */
export interface Engine {
  readonly name: string
  /** Why it cannot run this, in a sentence for whoever wanted it; null when it can. */
  refusalReason(unit: RevisionSpec): string | null
  /** Takes over what an earlier agent left running; called once, before anything else. */
  open(events: EngineEvents): Promise<void>
  /** The deployments of which anything is left here. */
  deployments(): Promise<string[]>
  observe(deployment_id: string): Promise<EngineObservation>
  /** Sets out to give it a database, and does not wait for it. */
  provide(unit: RevisionSpec): Promise<void>
  /** Makes what can be started: of files (with their install and build commands), or of an image (tree is null). */
  prepare(unit: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact>
  /**
   * Takes what it prepared for an earlier revision of the same files, commands and secrets for this one; null where that is not there any
   * more, or is not as it was made: then it is made anew, as it is by an engine that leaves this out.
   */
  reuse?(unit: RevisionSpec, artifact: Artifact, task: BuildTask): Promise<Artifact | null>
  /**
   * Starts its copies beside whatever runs, and does not wait for them. Also called once after `open` for what was taken
   * over, and when its resources are other than they were: what runs goes on running.
   */
  start(unit: RevisionSpec, artifact: Artifact): Promise<void>
  /** From when it returns, every new request goes to that revision. Also called when its `custom_url` is another one. */
  route(unit: RevisionSpec): Promise<void>
  /** It gets no new request from now on; `drained` once the last was answered, or has had its time. */
  drain(ref: RevisionRef): Promise<void>
  /** Ends its copies, gracefully, then not; returns when they are gone, or are seen `draining` until they are, and is called again then. */
  stop(ref: RevisionRef): Promise<void>
  /** Removes what is left of a deployment: route, files, database, whatever was made for it. */
  remove(deployment_id: string): Promise<void>
  /** Lets go. With `stop`, what it runs ends too; without, it serves on, and the next agent takes it over. */
  close(how: { stop: boolean }): Promise<void>
}

/** A failure that may pass: nothing is given up for it, and the same is tried again. */
export class TransientError extends Error {
  override name = 'TransientError'
}

/** A failure that is told to whoever wanted it, as its message stands: what happened, and what to do. */
export class PermanentError extends Error {
  override name = 'PermanentError'
}
