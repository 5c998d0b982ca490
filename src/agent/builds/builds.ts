// The builds of this machine: run a few at a time, remembered on disk, interrupted, and what came of each.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Artifact, Engine, Level, Ref, Task, Unit } from '../engines/engine.ts'
import { Passing, Unworkable } from '../engines/engine.ts'
import { LIMITS } from '../engines/local/limits.ts'
import { PATH } from '../engines/process/environment.ts'
import { list, readJson, remove, sizeOf, writeJson } from '../files.ts'
import { endMarked } from '../marked.ts'
import { LinkOver } from './archive.ts'
import { type Origin, obtain } from './tree.ts'

export type Made = { state: 'built'; artifact: Artifact; given_up?: string } | { state: 'broken'; reason: string }
type Running = { deployment_id: string; controller: AbortController; ended: Promise<void> }
type Options = {
  home: string
  engine: Engine
  templates?: string
  changed: (deployment_id: string) => void
  log: (of: Ref, message: string, level: Level) => void
  /** A link of what is wanted is over: everything is asked for again. */
  stale: () => void
  again_ms?: number | undefined
}

const AT_ONCE = 2
const GRACE_MS = 2_000
const AGAIN_MS = 5_000
const CACHE_MB = 2048
const IMAGES = ['internal_container', 'external_container']

export class Builds {
  readonly #options: Options
  readonly #home: string
  readonly #running = new Map<string, Running>()
  readonly #waiting: (() => void)[] = []
  #free = AT_ONCE

  constructor(options: Options) {
    this.#options = options
    this.#home = join(options.home, 'builds')
  }

  /** What an earlier agent was building is not built: its commands end, and it begins again. */
  async open(): Promise<void> {
    for (const deployment of this.deployments()) {
      for (const revision of this.revisions(deployment)) {
        const folder = this.#folder({ deployment_id: deployment, revision_id: revision })
        for (const mark of list(folder).filter(name => name.startsWith('running')))
          await endMarked(join(folder, mark), revision, GRACE_MS)
        if (!this.made({ deployment_id: deployment, revision_id: revision })) await remove(folder)
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
    const kept = list(join(this.#home, deployment_id)).filter(name => name !== 'cache')
    const begun = [...this.#running].filter(([, one]) => one.deployment_id === deployment_id).map(([id]) => id)
    return [...new Set([...kept, ...begun])]
  }

  isBuilding({ revision_id }: Ref): boolean {
    return this.#running.has(revision_id)
  }

  made(ref: Ref): Made | undefined {
    return readJson<Made>(join(this.#folder(ref), 'record.json'))
  }

  /** In the background; `changed` tells of its end. */
  start(unit: Unit, origin: Origin): void {
    const { deployment_id, revision_id } = unit
    if (this.#running.has(revision_id)) return
    const controller = new AbortController()
    const log: Task['log'] = (message, level = 'INFO') =>
      this.#options.log({ deployment_id, revision_id }, message, level)
    const ended = this.#build(unit, origin, controller.signal, log).finally(() => {
      this.#running.delete(revision_id)
      this.#options.changed(deployment_id)
    })
    this.#running.set(revision_id, { deployment_id, controller, ended })
  }

  async #build(unit: Unit, origin: Origin, signal: AbortSignal, log: Task['log']): Promise<void> {
    const folder = this.#folder(unit)
    const tree = join(folder, 'tree')
    const task: Task = {
      log,
      signal,
      cache: join(this.#home, unit.deployment_id, 'cache'),
      running: join(folder, 'running'),
    }
    await this.#turn()
    try {
      signal.throwIfAborted()
      await remove(folder)
      if ((await sizeOf(task.cache, CACHE_MB)) >= CACHE_MB) {
        log(`What it kept between builds grew beyond ${CACHE_MB} MB, and begins anew.`)
        await remove(task.cache)
      }
      for (const path of [folder, task.cache]) fs.mkdirSync(path, { recursive: true, mode: 0o700 })
      const begun = performance.now()
      const { engine, templates } = this.#options
      const options = {
        revision: unit.revision_id,
        folder: tree,
        task,
        path: PATH,
        disk_mb: LIMITS.disk_mb,
        ...(templates && { templates }),
      }
      const files = IMAGES.includes(unit.source) ? null : await obtain(origin, options)
      const artifact = await engine.prepare(unit, files, task)
      signal.throwIfAborted()
      log(`Built in ${((performance.now() - begun) / 1000).toFixed(1)} s`)
      writeJson(join(folder, 'record.json'), { state: 'built', artifact } satisfies Made)
    } catch (error) {
      if (signal.aborted) {
        log((signal.reason as Error).message, 'WARNING')
        return remove(folder)
      }
      // Without a record it is built again.
      if (error instanceof Passing) {
        if (error instanceof LinkOver) this.#options.stale()
        log(`${error.message} It is tried again.`, 'WARNING')
        await delay(this.#options.again_ms ?? AGAIN_MS, undefined, { signal }).catch(() => {})
        return remove(folder)
      }
      const reason = error instanceof Unworkable ? error.message : `The build failed: ${(error as Error).message}.`
      log(reason, 'ERROR')
      await remove(tree)
      writeJson(join(folder, 'record.json'), { state: 'broken', reason } satisfies Made)
    } finally {
      this.#done()
    }
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

  forget = (ref: Ref) => remove(this.#folder(ref))
  remove = (deployment_id: string) => remove(join(this.#home, deployment_id))

  async close(): Promise<void> {
    const all = [...this.#running.values()]
    for (const { controller } of all) controller.abort(new Unworkable('The agent ends.'))
    await Promise.all(all.map(({ ended }) => ended))
  }

  #folder({ deployment_id, revision_id }: Ref): string {
    return join(this.#home, deployment_id, revision_id)
  }

  async #turn(): Promise<void> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  #done(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}
