// Runs the builds of this machine a few at a time, records their results on disk, and interrupts them.
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { BuildPlan } from '../../build-plan/build-plan.ts'
import { toStoredPlan } from '../../build-plan/stored-plan.ts'
import type { Network } from '../../protocol/address-kind.ts'
import { refuseSourceDisks, type SourceDisk, withSourceDisks } from '../../protocol/disks.ts'
import type { Artifact, BuildTask, Engine, LogLevel, RevisionRef, RevisionSpec, SourceTree } from '../engine.ts'
import { PermanentError, SourceUnavailable, TransientError } from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import { listFolder, measureMegabytes, readJson, removeRecursively, writeJson } from '../system/files.ts'
import { DEFAULT_PATH } from '../system/search-path.ts'
import { endRevisionProcesses, endTracked } from '../system/tracked-process.ts'
import { killUserProcesses, makeEnterable, makeOwned, makePassable, type Users } from '../system/users.ts'
import { LinkExpired } from './archive.ts'
import { BuildRetries } from './build-retries.ts'
import { BuildSlots } from './build-slots.ts'
import {
  type BuildOutput,
  claimRetained,
  discardRetained,
  fingerprintBuild,
  isRetained,
  listRetained,
  pruneRetained,
  retainOutput,
} from './retained-outputs.ts'
import { type BuildSource, loadSourceTree } from './source-tree.ts'
import { removeStaleSessions } from './ssh-session.ts'

/**
 * `of`: the fingerprint of its inputs, if they are known. `hasSnapshots`: those before its release command were taken.
 * `isReleasing`, `isReleased`: that command was about to be started, and has ended well.
 */
export type BuildRecord =
  | {
      state: 'built'
      artifact: Artifact
      of?: string
      given_up?: string
      hasSnapshots?: boolean
      isReleasing?: boolean
      isReleased?: boolean
    }
  | { state: 'broken'; reason: string }
/** `reusedLocation`: the output of an earlier revision that it reuses, which must not be removed. */
type RunningBuild = {
  deployment_id: string
  controller: AbortController
  ended: Promise<void>
  reusedLocation?: string
}
type Options = {
  home: string
  users?: Users | undefined
  engine: Engine
  templates?: string
  onChange: (deployment_id: string) => void
  log: (ref: RevisionRef, message: string, level: LogLevel) => void
  networks?: Network[]
  /** The download link of an archive has expired. A resync brings a new one. */
  onLinkExpired: () => void
  retry_ms?: number | undefined
}

/** Revisions share it. `source` belongs to the agent: git settings in its mirror could run commands as the agent. */
const SHARED_FOLDERS = new Set(['cache', 'source'])
const MAX_CONCURRENT_BUILDS = 2
const GRACE_MS = 2_000
const MAX_CACHE_MB = 2_048
const MAX_SOURCE_MB = 2_048
const IMAGE_SOURCES = ['internal_container', 'external_container']

export class Builds {
  readonly #options: Options
  readonly #home: string
  readonly #running = new Map<string, RunningBuild>()
  readonly #slots = new BuildSlots(MAX_CONCURRENT_BUILDS)
  readonly #retries = new BuildRetries()

  constructor(options: Options) {
    this.#options = options
    this.#home = join(options.home, 'builds')
  }

  async open(): Promise<void> {
    removeStaleSessions()
    for (const deployment_id of this.deployments()) {
      for (const revision_id of this.revisions(deployment_id)) {
        const ref = { deployment_id, revision_id }
        const folder = this.#folder(ref)
        for (const mark of listFolder(folder).filter(name => name.startsWith('running')))
          await endTracked(join(folder, mark), GRACE_MS)
        if (this.readRecord(ref)) continue
        await endRevisionProcesses(revision_id)
        // Building or forgetting the revision tries again.
        await removeRecursively(folder).catch(() => {})
      }
    }
  }

  deployments(): string[] {
    return listFolder(this.#home)
  }

  hasFiles(deployment_id: string): boolean {
    return fs.existsSync(join(this.#home, deployment_id))
  }

  revisions(deployment_id: string): string[] {
    const home = join(this.#home, deployment_id)
    const onDisk = listFolder(home).filter(name => !SHARED_FOLDERS.has(name) && !isRetained(join(home, name)))
    const running = [...this.#running].filter(([, build]) => build.deployment_id === deployment_id).map(([id]) => id)
    return [...new Set([...onDisk, ...running])]
  }

  isBuilding({ revision_id }: RevisionRef): boolean {
    return this.#running.has(revision_id)
  }

  readRecord(ref: RevisionRef): BuildRecord | undefined {
    return readJson<BuildRecord>(join(this.#folder(ref), 'record.json'))
  }

  /** Builds in the background and calls `onChange` at the end. The output of `serving` is never reused for another. */
  start(spec: RevisionSpec, source: BuildSource, serving: string | null = null): void {
    const { deployment_id, revision_id } = spec
    if (this.#running.has(revision_id)) return
    const controller = new AbortController()
    const log: BuildTask['log'] = (message, level = 'INFO') =>
      this.#options.log({ deployment_id, revision_id }, message, level)
    const { signal } = controller
    const ended = this.#build(spec, source, serving, signal, log)
      .catch(error => `The build result cannot be saved: ${describeError(error)}.`)
      .then(reason =>
        reason === null ? this.#retries.forget(revision_id) : this.#waitToRetry(spec, reason, signal, log),
      )
      .finally(() => {
        this.#running.delete(revision_id)
        this.#options.onChange(deployment_id)
      })
    this.#running.set(revision_id, { deployment_id, controller, ended })
  }

  /** Returns the reason for which it must be built again, or null. */
  async #build(
    spec: RevisionSpec,
    source: BuildSource,
    serving: string | null,
    signal: AbortSignal,
    log: BuildTask['log'],
  ): Promise<string | null> {
    const folder = this.#folder(spec)
    const tree = join(folder, 'tree')
    const task: BuildTask = {
      log,
      signal,
      cache: join(this.#home, spec.deployment_id, 'cache'),
      runningFolder: join(folder, 'running'),
    }
    if (!(await this.#slots.acquire(spec.deployment_id, signal))) {
      log(describeError(signal.reason), 'WARNING')
      return null
    }
    try {
      signal.throwIfAborted()
      const startedAt = performance.now()
      const reused = await this.#findReusableOutput(spec, source, serving, task)
      if (reused && dirname(reused.artifact.location) === folder) claimRetained(folder)
      else await removeRecursively(folder)
      this.#makeFolders(spec, task.cache)
      const output = reused ?? (await this.#produceOutput(spec, source, tree, task))
      signal.throwIfAborted()
      log(`Built in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
      if ((await measureMegabytes(task.cache, MAX_CACHE_MB)) >= MAX_CACHE_MB) await removeRecursively(task.cache)
      this.#writeRecord(spec, { state: 'built', ...output, artifact: attachDatabase(output.artifact, spec) })
      return null
    } catch (error) {
      if (signal.aborted) {
        log(describeError(signal.reason), 'WARNING')
        await removeRecursively(folder)
        return null
      }
      const unavailable = error instanceof SourceUnavailable ? this.#retries.exhausted(spec.revision_id) : null
      if (error instanceof TransientError && !unavailable) {
        if (error instanceof LinkExpired) this.#options.onLinkExpired()
        await removeRecursively(folder)
        return error.message
      }
      const isExpected = error instanceof PermanentError || error instanceof SourceUnavailable
      const reason = isExpected ? error.message + (unavailable ?? '') : `The build failed: ${describeError(error)}.`
      log(reason, 'ERROR')
      await removeRecursively(tree)
      this.#writeRecord(spec, { state: 'broken', reason })
      return null
    } finally {
      this.#slots.release(spec.deployment_id)
    }
  }

  /** A revision without a record is built again. Other builds have the slot meanwhile. */
  async #waitToRetry(
    { revision_id }: RevisionRef,
    reason: string,
    signal: AbortSignal,
    log: BuildTask['log'],
  ): Promise<void> {
    log(`${reason} The build is retried.`, 'WARNING')
    const pause = this.#retries.nextPause(revision_id)
    await delay(this.#options.retry_ms ?? pause, undefined, { signal }).catch(() => this.#retries.forget(revision_id))
  }

  async #produceOutput(
    spec: RevisionSpec,
    source: BuildSource,
    tree: string,
    task: BuildTask,
  ): Promise<Pick<BuildOutput, 'artifact'> & Partial<BuildOutput>> {
    const { engine, templates, networks = [] } = this.#options
    const options = {
      revision: spec.revision_id,
      folder: tree,
      task,
      path: DEFAULT_PATH,
      disk_mb: MAX_SOURCE_MB,
      networks,
      ...(templates && { templates }),
    }
    const fetching = { ...options, task: { ...task, cache: join(this.#home, spec.deployment_id, 'source') } }
    const files = IMAGE_SOURCES.includes(spec.source) ? null : await loadSourceTree(source, fetching)
    let planned: Partial<Artifact> = {}
    const onPlan = (plan: BuildPlan) => {
      const refusal = plan.kind === 'graphs' ? engine.refusalReason({ ...spec, needs_database: true }) : null
      if (refusal) throw new PermanentError(refusal)
      planned = partsOfPlan(plan, files)
    }
    const withDisks = withDisksOf(spec, files?.disks)
    if (withDisks !== spec) {
      const refusal = refuseSourceDisks(spec.resources, files!.disks!) ?? engine.refusalReason(withDisks)
      if (refusal) throw new PermanentError(refusal)
    }
    const prepared = await engine.prepare(withDisks, files, { ...task, onPlan })
    // The parts of a deployment, such as a queue, start only for artifacts that name their processes.
    const artifact: Artifact = { ...prepared, version: files?.version ?? null, processes: [], ...planned }
    if (artifact.location !== tree) await removeRecursively(tree)
    const of = await fingerprintBuild(spec, source, engine.name, artifact.commit?.sha)
    return { artifact, ...(of !== null && { of }) }
  }

  async #findReusableOutput(
    spec: RevisionSpec,
    source: BuildSource,
    serving: string | null,
    task: BuildTask,
  ): Promise<BuildOutput | undefined> {
    const { engine } = this.#options
    const { deployment_id, revision_id } = spec
    const of = await fingerprintBuild(spec, source, engine.name)
    if (of === null || !engine.reuse) return undefined
    const built = this.#builtRevisions(deployment_id)
    const servingLocation = built.find(build => build.revision_id === serving)?.record.artifact.location
    const candidates = [
      ...built
        .filter(({ record }) => !record.given_up)
        .map(build => ({ ...build.record, folder: this.#folder(build) })),
      ...listRetained(join(this.#home, deployment_id)),
    ]
    for (const candidate of candidates) {
      const { location } = candidate.artifact
      if (candidate.of !== of || location === servingLocation) continue
      this.#running.get(revision_id)!.reusedLocation = location
      const withDisks = withDisksOf(spec, candidate.artifact.build_plan?.disks)
      const artifact = await engine.reuse(withDisks, candidate.artifact, task)
      if (artifact) {
        const { sha } = artifact.commit ?? {}
        task.log(`Reusing the output of an earlier build of ${sha ? `commit ${sha}` : 'this archive'}`)
        return { artifact, of }
      }
      if (isRetained(candidate.folder)) await removeRecursively(candidate.folder)
    }
    return undefined
  }

  #builtRevisions(deployment_id: string) {
    return this.revisions(deployment_id).flatMap(revision_id => {
      const record = this.readRecord({ deployment_id, revision_id })
      return record?.state === 'built' ? [{ deployment_id, revision_id, record }] : []
    })
  }

  #locationsInUse(deployment_id: string): string[] {
    const reused = [...this.#running.values()].flatMap(
      build => (build.deployment_id === deployment_id && build.reusedLocation) || [],
    )
    return [...this.#builtRevisions(deployment_id).map(({ record }) => record.artifact.location), ...reused]
  }

  async interrupt({ revision_id }: RevisionRef): Promise<void> {
    const running = this.#running.get(revision_id)
    running?.controller.abort(new PermanentError('The build was interrupted.'))
    await running?.ended
  }

  recordFailure(ref: RevisionRef, reason: string): void {
    this.#writeRecord(ref, { state: 'broken', reason })
  }

  hasSnapshots(ref: RevisionRef): boolean {
    const record = this.readRecord(ref)
    return record?.state === 'built' && record.hasSnapshots === true
  }

  recordRelease(ref: RevisionRef, step: { hasSnapshots: true } | { isReleasing: true } | { isReleased: true }): void {
    const record = this.readRecord(ref)
    if (record?.state === 'built') this.#writeRecord(ref, { ...record, ...step })
  }

  giveUp(ref: RevisionRef, reason: string): void {
    const record = this.readRecord(ref)
    if (record?.state === 'built') this.#writeRecord(ref, { ...record, given_up: reason })
  }

  undoGiveUp(ref: RevisionRef): void {
    const record = this.readRecord(ref)
    if (record?.state !== 'built' || !record.given_up) return
    const { given_up: _, ...rest } = record
    this.#writeRecord(ref, rest)
  }

  /** Removes the revision, and retains its output for a rollback. */
  async forget(ref: RevisionRef): Promise<void> {
    const folder = this.#folder(ref)
    const home = join(this.#home, ref.deployment_id)
    const record = this.readRecord(ref)
    if (record?.state === 'built' && record.of && !record.given_up)
      await retainOutput(home, folder, join(folder, 'record.json'), { artifact: record.artifact, of: record.of })
    else await removeRecursively(folder)
    // An output that could not be started is not reused either.
    if (record?.state === 'built' && record.given_up) await discardRetained(home, record.artifact.location)
    await pruneRetained(home, this.#locationsInUse(ref.deployment_id))
  }

  async remove(deployment_id: string): Promise<void> {
    const { users } = this.#options
    if (users?.isPerDeployment && this.hasFiles(deployment_id)) killUserProcesses(users.of(deployment_id))
    await removeRecursively(join(this.#home, deployment_id))
    users?.forget(deployment_id)
  }

  #makeFolders({ deployment_id, revision_id }: RevisionRef, cache: string): void {
    const user = this.#options.users?.of(deployment_id)
    if (user) makePassable(this.#home)
    const home = join(this.#home, deployment_id)
    for (const folder of [home, join(home, revision_id)]) makeEnterable(folder, user)
    makeOwned(cache, user)
    fs.mkdirSync(join(home, 'source'), { recursive: true, mode: 0o700 })
  }

  async close(): Promise<void> {
    const running = [...this.#running.values()]
    for (const { controller } of running) controller.abort(new PermanentError('The agent is shutting down.'))
    await Promise.all(running.map(({ ended }) => ended))
  }

  #writeRecord(ref: RevisionRef, record: BuildRecord): void {
    writeJson(join(this.#folder(ref), 'record.json'), record)
  }

  #folder({ deployment_id, revision_id }: RevisionRef): string {
    return join(this.#home, deployment_id, revision_id)
  }
}

const withDisksOf = (spec: RevisionSpec, disks: readonly SourceDisk[] | null | undefined): RevisionSpec => {
  const resources = withSourceDisks(spec.resources, disks ?? [])
  return resources === spec.resources ? spec : { ...spec, resources }
}

/** A reused output may be of a revision with another one. */
function attachDatabase({ attached_database: _, ...artifact }: Artifact, { resources }: RevisionSpec): Artifact {
  const { attached_database } = resources
  if (attached_database == null) return artifact
  if (artifact.site)
    throw new PermanentError('A static site has no process, so it uses no `attached_database`. Remove it.')
  return { ...artifact, attached_database }
}

const RELEASE_SECONDS = 600

/** The parts of an artifact that every engine gets from the plan. */
function partsOfPlan(plan: BuildPlan, tree: SourceTree | null): Partial<Artifact> {
  const build_plan = toStoredPlan(plan)
  if (!build_plan && plan.schedules.length + plan.disks.length > 0)
    throw new PermanentError(
      'The plan of the source is too large to be stored with its `schedules` and `disks`. Shorten commands.',
    )
  const release = plan.release && {
    command: plan.release,
    timeout_seconds: tree?.release_timeout_seconds ?? RELEASE_SECONDS,
  }
  return {
    ...(build_plan && { build_plan }),
    ...(release && { release }),
    ...(plan.health_path && !tree?.health_path && { health_path: plan.health_path }),
    ...(plan.sleep_path && { sleep_path: plan.sleep_path }),
    ...(tree?.protocol && { protocol: tree.protocol }),
    processes: plan.processes,
    ...(plan.kind === 'worker' && { isWithoutWeb: true }),
  }
}
