// The builds of this machine: run a few at a time, remembered on disk, interrupted, and what came of each.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Network } from '../../kernel/address-kind.ts'
import type { Artifact, Engine, Level, Ref, Task, Unit } from '../engines/engine.ts'
import { Passing, Unworkable } from '../engines/engine.ts'
import { LIMITS } from '../engines/local/limits.ts'
import { PATH } from '../engines/process/environment.ts'
import { faultOf } from '../faults.ts'
import { list, readJson, remove, sizeOf, writeJson } from '../files.ts'
import { endMarked, endRevision } from '../marked.ts'
import { killAllOf, makeEnterable, makeOwned, makePassable, type Users } from '../users.ts'
import { LinkOver } from './archive.ts'
import { drop, isKept, keep, keptIn, madeOf, type Output, prune, unkeep } from './outputs.ts'
import { type Origin, obtain } from './tree.ts'
import { Turns } from './turns.ts'

/** `of`: what it was made of, where that is known. */
export type Made =
  | { state: 'built'; artifact: Artifact; of?: string; given_up?: string }
  | { state: 'broken'; reason: string }
/** `taken`: the folder of an earlier revision that it takes, and nobody may remove. */
type Running = { deployment_id: string; controller: AbortController; ended: Promise<void>; taken?: string }
type Options = {
  home: string
  users?: Users | undefined
  engine: Engine
  templates?: string
  changed: (deployment_id: string) => void
  log: (of: Ref, message: string, level: Level) => void
  /** Where repositories may be, though it is not public. */
  networks?: Network[]
  /** A link of what is wanted is over: everything is asked for again. */
  stale: () => void
  again_ms?: number | undefined
}

/**
 * Folders that the revisions of a deployment share. Git's is the agent's alone: who may write its settings may run
 * commands as the agent.
 */
const SHARED = new Set(['cache', 'source'])
const AT_ONCE = 2
const GRACE_MS = 2_000
const AGAIN_MS = 5_000
const CACHE_MB = 2048
const IMAGES = ['internal_container', 'external_container']

export class Builds {
  readonly #options: Options
  readonly #home: string
  readonly #running = new Map<string, Running>()
  readonly #turns = new Turns(AT_ONCE)

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
        for (const mark of list(folder).filter(name => name.startsWith('running')))
          await endMarked(join(folder, mark), GRACE_MS)
        if (this.made(ref)) continue
        await endRevision(revision_id)
        // Whoever builds or forgets it tries again; nobody else waits for that.
        await remove(folder).catch(() => {})
      }
    }
  }

  deployments(): string[] {
    return list(this.#home)
  }

  left(deployment_id: string): boolean {
    return fs.existsSync(join(this.#home, deployment_id))
  }

  revisions(deployment_id: string): string[] {
    const home = join(this.#home, deployment_id)
    const kept = list(home).filter(name => !SHARED.has(name) && !isKept(join(home, name)))
    const begun = [...this.#running].filter(([, one]) => one.deployment_id === deployment_id).map(([id]) => id)
    return [...new Set([...kept, ...begun])]
  }

  isBuilding({ revision_id }: Ref): boolean {
    return this.#running.has(revision_id)
  }

  made(ref: Ref): Made | undefined {
    return readJson<Made>(join(this.#folder(ref), 'record.json'))
  }

  /** In the background; `changed` tells of its end. What `serving` was built to is not used again: who wants that anew has it built. */
  start(unit: Unit, origin: Origin, serving: string | null = null): void {
    const { deployment_id, revision_id } = unit
    if (this.#running.has(revision_id)) return
    const controller = new AbortController()
    const log: Task['log'] = (message, level = 'INFO') =>
      this.#options.log({ deployment_id, revision_id }, message, level)
    const { signal } = controller
    const ended = this.#build(unit, origin, serving, signal, log)
      .catch(error => this.#again(`What came of the build cannot be kept: ${faultOf(error)}.`, signal, log))
      .finally(() => {
        this.#running.delete(revision_id)
        this.#options.changed(deployment_id)
      })
    this.#running.set(revision_id, { deployment_id, controller, ended })
  }

  async #build(
    unit: Unit,
    origin: Origin,
    serving: string | null,
    signal: AbortSignal,
    log: Task['log'],
  ): Promise<void> {
    const folder = this.#folder(unit)
    const tree = join(folder, 'tree')
    const task: Task = {
      log,
      signal,
      cache: join(this.#home, unit.deployment_id, 'cache'),
      running: join(folder, 'running'),
    }
    if (!(await this.#turns.take(unit.deployment_id, signal))) return log(faultOf(signal.reason), 'WARNING')
    try {
      signal.throwIfAborted()
      const begun = performance.now()
      const again = await this.#kept(unit, origin, serving, task)
      if (again?.artifact.location === tree) unkeep(folder)
      else await remove(folder)
      this.#makeFolders(unit, task.cache)
      const made = again ?? (await this.#make(unit, origin, tree, task))
      signal.throwIfAborted()
      log(`Built in ${((performance.now() - begun) / 1000).toFixed(1)} s`)
      if ((await sizeOf(task.cache, CACHE_MB)) >= CACHE_MB) await remove(task.cache)
      writeJson(join(folder, 'record.json'), { state: 'built', ...made } satisfies Made)
    } catch (error) {
      if (signal.aborted) {
        log(faultOf(signal.reason), 'WARNING')
        return remove(folder)
      }
      if (error instanceof Passing) {
        if (error instanceof LinkOver) this.#options.stale()
        await this.#again(error.message, signal, log)
        return remove(folder)
      }
      const reason = error instanceof Unworkable ? error.message : `The build failed: ${faultOf(error)}.`
      log(reason, 'ERROR')
      await remove(tree)
      writeJson(join(folder, 'record.json'), { state: 'broken', reason } satisfies Made)
    } finally {
      this.#turns.giveBack(unit.deployment_id)
    }
  }

  /** Without a record it is built again, after a while. */
  async #again(why: string, signal: AbortSignal, log: Task['log']): Promise<void> {
    log(`${why} It is tried again.`, 'WARNING')
    await delay(this.#options.again_ms ?? AGAIN_MS, undefined, { signal }).catch(() => {})
  }

  async #make(
    unit: Unit,
    origin: Origin,
    tree: string,
    task: Task,
  ): Promise<Pick<Output, 'artifact'> & Partial<Output>> {
    const { engine, templates, networks = [] } = this.#options
    const options = {
      revision: unit.revision_id,
      folder: tree,
      task,
      path: PATH,
      disk_mb: LIMITS.disk_mb,
      networks,
      ...(templates && { templates }),
    }
    const fetching = { ...options, task: { ...task, cache: join(this.#home, unit.deployment_id, 'source') } }
    const files = IMAGES.includes(unit.source) ? null : await obtain(origin, fetching)
    const artifact = await engine.prepare(unit, files, task)
    if (artifact.location !== tree) await remove(tree)
    const of = await madeOf(unit, origin, engine.name, artifact.commit?.sha)
    return { artifact, ...(of !== null && { of }) }
  }

  /** What was made of the same before, where it is still there. */
  async #kept(unit: Unit, origin: Origin, serving: string | null, task: Task): Promise<Output | undefined> {
    const { engine } = this.#options
    const { deployment_id, revision_id } = unit
    const of = await madeOf(unit, origin, engine.name)
    if (of === null || !engine.reuse) return undefined
    const ending = this.#built(deployment_id).filter(one => !one.made.given_up)
    const kept = [
      ...ending.map(one => ({ ...one.made, folder: this.#folder(one) })),
      ...keptIn(join(this.#home, deployment_id)),
    ]
    const [serves] = this.#built(deployment_id).filter(one => one.revision_id === serving)
    for (const one of kept) {
      const { location } = one.artifact
      if (one.of !== of || location === serves?.made.artifact.location) continue
      this.#running.get(revision_id)!.taken = location
      const artifact = await engine.reuse(unit, one.artifact, task)
      if (artifact) {
        const { sha } = artifact.commit ?? {}
        task.log(`What was built of ${sha ? `commit ${sha}` : 'this archive'} before is still here, and is used again`)
        return { artifact, of }
      }
      if (isKept(one.folder)) await remove(one.folder)
    }
    return undefined
  }

  #built(deployment_id: string) {
    return this.revisions(deployment_id).flatMap(revision_id => {
      const made = this.made({ deployment_id, revision_id })
      return made?.state === 'built' ? [{ deployment_id, revision_id, made }] : []
    })
  }

  /** What revisions that are not gone run from. */
  #used(deployment_id: string): string[] {
    const taken = [...this.#running.values()].flatMap(one => (one.deployment_id === deployment_id && one.taken) || [])
    return [...this.#built(deployment_id).map(({ made }) => made.artifact.location), ...taken]
  }

  async interrupt({ revision_id }: Ref): Promise<void> {
    const running = this.#running.get(revision_id)
    running?.controller.abort(new Unworkable('The build was interrupted.'))
    await running?.ended
  }

  refuse(ref: Ref, reason: string): void {
    writeJson(join(this.#folder(ref), 'record.json'), { state: 'broken', reason } satisfies Made)
  }

  /** It was built, and could not be made to run. */
  giveUp(ref: Ref, reason: string): void {
    const made = this.made(ref)
    if (made?.state === 'built')
      writeJson(join(this.#folder(ref), 'record.json'), { ...made, given_up: reason } satisfies Made)
  }

  /** It is wanted after all. */
  takeBack(ref: Ref): void {
    const made = this.made(ref)
    if (made?.state !== 'built' || !made.given_up) return
    const { given_up: _, ...record } = made
    writeJson(join(this.#folder(ref), 'record.json'), record satisfies Made)
  }

  /** The revision is wanted no more; what was made for it may be wanted again. */
  async forget(ref: Ref): Promise<void> {
    const folder = this.#folder(ref)
    const home = join(this.#home, ref.deployment_id)
    const made = this.made(ref)
    if (made?.state === 'built' && made.of && !made.given_up)
      await keep(home, folder, join(folder, 'record.json'), { artifact: made.artifact, of: made.of })
    else await remove(folder)
    // Where it came from is of no more use than it was.
    if (made?.state === 'built' && made.given_up) await drop(home, made.artifact.location)
    await prune(home, this.#used(ref.deployment_id))
  }

  /** The last that is done for a deployment. */
  async remove(deployment_id: string): Promise<void> {
    const { users } = this.#options
    if (users?.own && this.left(deployment_id)) killAllOf(users.of(deployment_id))
    await remove(join(this.#home, deployment_id))
    users?.forget(deployment_id)
  }

  #makeFolders({ deployment_id, revision_id }: Ref, cache: string): void {
    const user = this.#options.users?.of(deployment_id)
    if (user) makePassable(this.#home)
    const home = join(this.#home, deployment_id)
    for (const folder of [home, join(home, revision_id)]) makeEnterable(folder, user)
    makeOwned(cache, user)
    fs.mkdirSync(join(home, 'source'), { recursive: true, mode: 0o700 })
  }

  async close(): Promise<void> {
    const all = [...this.#running.values()]
    for (const { controller } of all) controller.abort(new Unworkable('The agent ends.'))
    await Promise.all(all.map(({ ended }) => ended))
  }

  #folder({ deployment_id, revision_id }: Ref): string {
    return join(this.#home, deployment_id, revision_id)
  }
}
