// The builds of this machine: run a few at a time, remembered on disk, interrupted, and what came of each.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Network } from '../../protocol/address-kind.ts'
import type { Artifact, BuildTask, Engine, LogLevel, RevisionRef, RevisionSpec } from '../engines/engine.ts'
import { PermanentError, TransientError } from '../engines/engine.ts'
import { DEFAULT_LIMITS } from '../engines/local/limits.ts'
import { DEFAULT_PATH } from '../engines/process/environment.ts'
import { describeError } from '../redaction/error-messages.ts'
import { listFolder, measureMegabytes, readJson, removeRecursively, writeJson } from '../system/files.ts'
import { endRevisionProcesses, endTracked } from '../system/tracked-process.ts'
import { killUserProcesses, makeEnterable, makeOwned, makePassable, type Users } from '../system/users.ts'
import { LinkExpired } from './archive.ts'
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

/** `of`: what it was made of, where that is known. */
export type BuildRecord =
  | { state: 'built'; artifact: Artifact; of?: string; given_up?: string }
  | { state: 'broken'; reason: string }
/** `reusedLocation`: the folder of an earlier revision that it takes, and nobody may remove. */
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
  log: (of: RevisionRef, message: string, level: LogLevel) => void
  /** Where repositories may be, though it is not public. */
  networks?: Network[]
  /** A link of what is wanted is over: everything is asked for again. */
  onLinkExpired: () => void
  retry_ms?: number | undefined
}

/**
 * Folders that the revisions of a deployment share. Git's is the agent's alone: who may write its settings may run
 * commands as the agent.
 */
const SHARED_FOLDERS = new Set(['cache', 'source'])
const MAX_CONCURRENT_BUILDS = 2
const GRACE_MS = 2_000
const RETRY_MS = 5_000
const MAX_CACHE_MB = 2048
const IMAGE_SOURCES = ['internal_container', 'external_container']

export class Builds {
  readonly #options: Options
  readonly #home: string
  readonly #running = new Map<string, RunningBuild>()
  readonly #slots = new BuildSlots(MAX_CONCURRENT_BUILDS)

  constructor(options: Options) {
    this.#options = options
    this.#home = join(options.home, 'builds')
  }

  /** What an earlier agent was building is not built: its commands end, and it begins again. */
  async open(): Promise<void> {
    for (const deployment_id of this.deployments()) {
      for (const revision_id of this.revisions(deployment_id)) {
        const ref = { deployment_id, revision_id }
        const folder = this.#folder(ref)
        for (const mark of listFolder(folder).filter(name => name.startsWith('running')))
          await endTracked(join(folder, mark), GRACE_MS)
        if (this.readRecord(ref)) continue
        await endRevisionProcesses(revision_id)
        // Whoever builds or forgets it tries again; nobody else waits for that.
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
    const kept = listFolder(home).filter(name => !SHARED_FOLDERS.has(name) && !isRetained(join(home, name)))
    const begun = [...this.#running].filter(([, one]) => one.deployment_id === deployment_id).map(([id]) => id)
    return [...new Set([...kept, ...begun])]
  }

  isBuilding({ revision_id }: RevisionRef): boolean {
    return this.#running.has(revision_id)
  }

  readRecord(ref: RevisionRef): BuildRecord | undefined {
    return readJson<BuildRecord>(join(this.#folder(ref), 'record.json'))
  }

  /** In the background; `onChange` tells of its end. What `serving` was built to is not used again: who wants that anew has it built. */
  start(unit: RevisionSpec, origin: BuildSource, serving: string | null = null): void {
    const { deployment_id, revision_id } = unit
    if (this.#running.has(revision_id)) return
    const controller = new AbortController()
    const log: BuildTask['log'] = (message, level = 'INFO') =>
      this.#options.log({ deployment_id, revision_id }, message, level)
    const { signal } = controller
    const ended = this.#build(unit, origin, serving, signal, log)
      .catch(error => this.#waitToRetry(`What came of the build cannot be kept: ${describeError(error)}.`, signal, log))
      .finally(() => {
        this.#running.delete(revision_id)
        this.#options.onChange(deployment_id)
      })
    this.#running.set(revision_id, { deployment_id, controller, ended })
  }

  async #build(
    unit: RevisionSpec,
    origin: BuildSource,
    serving: string | null,
    signal: AbortSignal,
    log: BuildTask['log'],
  ): Promise<void> {
    const folder = this.#folder(unit)
    const tree = join(folder, 'tree')
    const task: BuildTask = {
      log,
      signal,
      cache: join(this.#home, unit.deployment_id, 'cache'),
      runningFolder: join(folder, 'running'),
    }
    if (!(await this.#slots.acquire(unit.deployment_id, signal))) return log(describeError(signal.reason), 'WARNING')
    try {
      signal.throwIfAborted()
      const begun = performance.now()
      const again = await this.#findReusableOutput(unit, origin, serving, task)
      if (again?.artifact.location === tree) claimRetained(folder)
      else await removeRecursively(folder)
      this.#makeFolders(unit, task.cache)
      const made = again ?? (await this.#produceOutput(unit, origin, tree, task))
      signal.throwIfAborted()
      log(`Built in ${((performance.now() - begun) / 1000).toFixed(1)} s`)
      if ((await measureMegabytes(task.cache, MAX_CACHE_MB)) >= MAX_CACHE_MB) await removeRecursively(task.cache)
      writeJson(join(folder, 'record.json'), { state: 'built', ...made } satisfies BuildRecord)
    } catch (error) {
      if (signal.aborted) {
        log(describeError(signal.reason), 'WARNING')
        return removeRecursively(folder)
      }
      if (error instanceof TransientError) {
        if (error instanceof LinkExpired) this.#options.onLinkExpired()
        await this.#waitToRetry(error.message, signal, log)
        return removeRecursively(folder)
      }
      const reason = error instanceof PermanentError ? error.message : `The build failed: ${describeError(error)}.`
      log(reason, 'ERROR')
      await removeRecursively(tree)
      writeJson(join(folder, 'record.json'), { state: 'broken', reason } satisfies BuildRecord)
    } finally {
      this.#slots.release(unit.deployment_id)
    }
  }

  /** Without a record it is built again, after a while. */
  async #waitToRetry(why: string, signal: AbortSignal, log: BuildTask['log']): Promise<void> {
    log(`${why} It is tried again.`, 'WARNING')
    await delay(this.#options.retry_ms ?? RETRY_MS, undefined, { signal }).catch(() => {})
  }

  async #produceOutput(
    unit: RevisionSpec,
    origin: BuildSource,
    tree: string,
    task: BuildTask,
  ): Promise<Pick<BuildOutput, 'artifact'> & Partial<BuildOutput>> {
    const { engine, templates, networks = [] } = this.#options
    const options = {
      revision: unit.revision_id,
      folder: tree,
      task,
      path: DEFAULT_PATH,
      disk_mb: DEFAULT_LIMITS.disk_mb,
      networks,
      ...(templates && { templates }),
    }
    const fetching = { ...options, task: { ...task, cache: join(this.#home, unit.deployment_id, 'source') } }
    const files = IMAGE_SOURCES.includes(unit.source) ? null : await loadSourceTree(origin, fetching)
    const artifact = await engine.prepare(unit, files, task)
    if (artifact.location !== tree) await removeRecursively(tree)
    const of = await fingerprintBuild(unit, origin, engine.name, artifact.commit?.sha)
    return { artifact, ...(of !== null && { of }) }
  }

  /** What was made of the same before, where it is still there. */
  async #findReusableOutput(
    unit: RevisionSpec,
    origin: BuildSource,
    serving: string | null,
    task: BuildTask,
  ): Promise<BuildOutput | undefined> {
    const { engine } = this.#options
    const { deployment_id, revision_id } = unit
    const of = await fingerprintBuild(unit, origin, engine.name)
    if (of === null || !engine.reuse) return undefined
    const ending = this.#builtRevisions(deployment_id).filter(one => !one.made.given_up)
    const kept = [
      ...ending.map(one => ({ ...one.made, folder: this.#folder(one) })),
      ...listRetained(join(this.#home, deployment_id)),
    ]
    const [serves] = this.#builtRevisions(deployment_id).filter(one => one.revision_id === serving)
    for (const one of kept) {
      const { location } = one.artifact
      if (one.of !== of || location === serves?.made.artifact.location) continue
      this.#running.get(revision_id)!.reusedLocation = location
      const artifact = await engine.reuse(unit, one.artifact, task)
      if (artifact) {
        const { sha } = artifact.commit ?? {}
        task.log(`What was built of ${sha ? `commit ${sha}` : 'this archive'} before is still here, and is used again`)
        return { artifact, of }
      }
      if (isRetained(one.folder)) await removeRecursively(one.folder)
    }
    return undefined
  }

  #builtRevisions(deployment_id: string) {
    return this.revisions(deployment_id).flatMap(revision_id => {
      const made = this.readRecord({ deployment_id, revision_id })
      return made?.state === 'built' ? [{ deployment_id, revision_id, made }] : []
    })
  }

  /** What revisions that are not gone run from. */
  #locationsInUse(deployment_id: string): string[] {
    const taken = [...this.#running.values()].flatMap(
      one => (one.deployment_id === deployment_id && one.reusedLocation) || [],
    )
    return [...this.#builtRevisions(deployment_id).map(({ made }) => made.artifact.location), ...taken]
  }

  async interrupt({ revision_id }: RevisionRef): Promise<void> {
    const running = this.#running.get(revision_id)
    running?.controller.abort(new PermanentError('The build was interrupted.'))
    await running?.ended
  }

  recordFailure(ref: RevisionRef, reason: string): void {
    writeJson(join(this.#folder(ref), 'record.json'), { state: 'broken', reason } satisfies BuildRecord)
  }

  /** It was built, and could not be made to run. */
  giveUp(ref: RevisionRef, reason: string): void {
    const made = this.readRecord(ref)
    if (made?.state === 'built')
      writeJson(join(this.#folder(ref), 'record.json'), { ...made, given_up: reason } satisfies BuildRecord)
  }

  /** It is wanted after all. */
  undoGiveUp(ref: RevisionRef): void {
    const made = this.readRecord(ref)
    if (made?.state !== 'built' || !made.given_up) return
    const { given_up: _, ...record } = made
    writeJson(join(this.#folder(ref), 'record.json'), record satisfies BuildRecord)
  }

  /** The revision is wanted no more; what was made for it may be wanted again. */
  async forget(ref: RevisionRef): Promise<void> {
    const folder = this.#folder(ref)
    const home = join(this.#home, ref.deployment_id)
    const made = this.readRecord(ref)
    if (made?.state === 'built' && made.of && !made.given_up)
      await retainOutput(home, folder, join(folder, 'record.json'), { artifact: made.artifact, of: made.of })
    else await removeRecursively(folder)
    // Where it came from is of no more use than it was.
    if (made?.state === 'built' && made.given_up) await discardRetained(home, made.artifact.location)
    await pruneRetained(home, this.#locationsInUse(ref.deployment_id))
  }

  /** The last that is done for a deployment. */
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
    const all = [...this.#running.values()]
    for (const { controller } of all) controller.abort(new PermanentError('The agent ends.'))
    await Promise.all(all.map(({ ended }) => ended))
  }

  #folder({ deployment_id, revision_id }: RevisionRef): string {
    return join(this.#home, deployment_id, revision_id)
  }
}
