// The engine that runs applications as processes of this machine, behind a local router.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { list, readJson, remove, sizeOf, writeJson } from '../files.ts'
import { memoryOf } from '../processes.ts'
import type { Artifact, Engine, Events, Level, Ref, Seen, Task, Tree, Unit } from './engine.ts'
import { environmentOf } from './process/environment.ts'
import { LIMITS, type Limits } from './process/limits.ts'
import { Pool } from './process/pool.ts'
import { prepare } from './process/prepare.ts'
import type { Route } from './process/router.ts'
import { RouterClient } from './process/router-client.ts'

/** What is kept of a deployment: its address for as long as it lives, and who gets its requests. */
type Kept = { host: string; routed: string | null; custom_url: string | null }
type Options = { home: string; port: number; limits?: Partial<Limits> }

const IMAGES = new Set(['internal_container', 'external_container'])

export class ProcessEngine implements Engine {
  readonly name = 'process'
  readonly #home: string
  readonly #limits: Limits
  readonly #router: RouterClient
  readonly #pools = new Map<string, Map<string, Pool>>()
  #drained = new Set<string>()
  #timers: NodeJS.Timeout[] = []
  #events!: Events

  constructor({ home, port, limits }: Options) {
    this.#home = join(home, 'process')
    this.#limits = { ...LIMITS, ...limits }
    this.#router = new RouterClient(join(home, 'router.json'), port)
  }

  refuses({ source, needs_database }: Unit): string | null {
    if (IMAGES.has(source))
      return `This agent runs applications as processes of its machine, and cannot run container images (\`${source}\`): use a listener whose agent runs the container or kubernetes engine.`
    return needs_database
      ? 'This agent runs applications as processes of its machine, and has no database to give: leave the `db_*` members out of resource_spec, and give an address of your own as a secret.'
      : null
  }

  async open(events: Events): Promise<void> {
    this.#events = events
    await this.#router.open()
    for (const deployment of list(this.#home)) {
      for (const revision of list(this.#path(deployment, 'revisions'))) {
        const pool = this.#pool({ deployment_id: deployment, revision_id: revision }, true)!
        if (await pool.adopt(revision)) {
          if (this.#isDraining(deployment, revision)) void this.#awaitDrained(deployment, revision, pool.targets())
          continue
        }
        this.#pools.get(deployment)!.delete(revision)
        await remove(this.#path(deployment, 'revisions', revision))
      }
    }
    await this.#apply()
    const every = (ms: number, work: () => unknown) => this.#timers.push(setInterval(work, ms))
    every(this.#limits.tick_ms, () => this.#each(pool => pool.tick()))
    every(this.#limits.memory_ms, () => this.#weigh())
    every(this.#limits.disk_ms, () => void this.#measure())
  }

  async deployments(): Promise<string[]> {
    return list(this.#home)
  }

  async observe(deployment_id: string): Promise<Seen> {
    const kept = this.#kept(deployment_id)
    const running = [...(this.#pools.get(deployment_id) ?? [])].map(([revision_id, pool]) => {
      const drained = this.#drained.has(revision_id) ? ('drained' as const) : undefined
      const draining = this.#isDraining(deployment_id, revision_id)
      return { revision_id, phase: drained ?? (draining ? ('draining' as const) : pool.phase()), reason: pool.reason() }
    })
    return {
      running,
      routed: kept?.routed ?? null,
      url: kept ? this.#url(kept) : null,
      left: fs.existsSync(this.#path(deployment_id)),
      database: null,
    }
  }

  async provide(): Promise<void> {}

  prepare(unit: Unit, tree: Tree | null, task: Task): Promise<Artifact> {
    return prepare(unit, tree!, task, this.#limits.disk_mb)
  }

  async start(unit: Unit, artifact: Artifact): Promise<void> {
    const folder = this.#path(unit.deployment_id, 'revisions', unit.revision_id)
    for (const own of ['home', 'tmp']) fs.mkdirSync(join(folder, own), { recursive: true, mode: 0o700 })
    this.#keep(unit)
    this.#pool(unit, true)!.start({
      command: artifact.start_command!,
      cwd: artifact.location,
      env: port => environmentOf(unit, artifact.env, { folder, port }),
      health_path: artifact.health_path,
      copies: Math.max(1, unit.resources.min_scale),
      memory_mb: unit.resources.memory_limit_mb,
    })
  }

  async route(unit: Unit): Promise<void> {
    this.#keep(unit, unit.revision_id)
    await this.#apply()
  }

  async drain({ deployment_id, revision_id }: Ref): Promise<void> {
    const pool = this.#pool({ deployment_id, revision_id })
    if (!pool) return
    writeJson(this.#path(deployment_id, 'revisions', revision_id, 'draining'), {})
    const kept = this.#kept(deployment_id)
    if (kept?.routed === revision_id) writeJson(this.#path(deployment_id, 'deployment.json'), { ...kept, routed: null })
    const targets = pool.targets()
    await this.#apply()
    void this.#awaitDrained(deployment_id, revision_id, targets)
  }

  async #awaitDrained(deployment_id: string, revision_id: string, targets: ReturnType<Pool['targets']>): Promise<void> {
    const deadline = Date.now() + this.#limits.drain_ms
    while (Date.now() < deadline && (await this.#router.inFlight(targets).catch(() => 0)) > 0) await delay(50)
    this.#drained.add(revision_id)
    this.#events.changed(deployment_id)
  }

  async stop({ deployment_id, revision_id }: Ref): Promise<void> {
    const pools = this.#pools.get(deployment_id)
    const pool = pools?.get(revision_id)
    if (!pool) return
    await pool.stop()
    pools!.delete(revision_id)
    this.#drained.delete(revision_id)
    await remove(this.#path(deployment_id, 'revisions', revision_id))
  }

  async remove(deployment_id: string): Promise<void> {
    for (const revision_id of [...(this.#pools.get(deployment_id)?.keys() ?? [])])
      await this.stop({ deployment_id, revision_id })
    this.#pools.delete(deployment_id)
    await remove(this.#path(deployment_id))
    await this.#apply()
  }

  async close({ stop }: { stop: boolean }): Promise<void> {
    for (const timer of this.#timers.splice(0)) clearInterval(timer)
    if (!stop) return this.#each(pool => pool.release())
    const all = [...this.#pools.values()].flatMap(pools => [...pools.values()])
    await Promise.all(all.map(pool => pool.stop()))
    await this.#router.close()
  }

  #path(deployment: string, ...rest: string[]): string {
    return join(this.#home, deployment, ...rest)
  }

  #isDraining(deployment: string, revision: string): boolean {
    return fs.existsSync(this.#path(deployment, 'revisions', revision, 'draining'))
  }

  #kept(deployment: string): Kept | undefined {
    return readJson<Kept>(this.#path(deployment, 'deployment.json'))
  }

  #keep({ deployment_id, name, custom_url }: Unit, routed?: string): void {
    const before = this.#kept(deployment_id)
    const kept = {
      host: before?.host ?? this.#hostFor(name, deployment_id),
      routed: routed ?? before?.routed ?? null,
      custom_url,
    }
    writeJson(this.#path(deployment_id, 'deployment.json'), kept)
  }

  /** Names are unique in a workspace only; of two the second gets a longer one. */
  #hostFor(name: string, deployment: string): string {
    const taken = list(this.#home).some(
      other => other !== deployment && this.#kept(other)?.host === `${name}.localhost`,
    )
    return taken ? `${name.slice(0, 54)}-${deployment.slice(0, 8)}.localhost` : `${name}.localhost`
  }

  #url({ host }: Kept): string {
    return `http://${host}:${this.#router.port}`
  }

  #pool(ref: Ref): Pool | undefined
  #pool(ref: Ref, make: true): Pool
  #pool({ deployment_id, revision_id }: Ref, make?: true): Pool | undefined {
    const pools = this.#pools.get(deployment_id) ?? new Map<string, Pool>()
    if (make) this.#pools.set(deployment_id, pools)
    if (make && !pools.has(revision_id)) {
      const ref = { deployment_id, revision_id }
      const changed = () => {
        void this.#apply().catch(() => {})
        this.#events.changed(deployment_id)
      }
      const log = (message: string, level: Level) => this.#events.log(ref, message, level)
      pools.set(
        revision_id,
        new Pool(this.#path(deployment_id, 'revisions', revision_id, 'copies'), this.#limits, { changed, log }),
      )
    }
    return pools.get(revision_id)
  }

  #apply(): Promise<void> {
    return this.#router.apply(() => list(this.#home).flatMap(deployment => this.#routesOf(deployment)))
  }

  #routesOf(deployment: string): Route[] {
    const kept = this.#kept(deployment)
    if (!kept?.routed) return []
    const targets = this.#pools.get(deployment)?.get(kept.routed)?.targets() ?? []
    const routes: Route[] = [{ host: kept.host, path: '/', targets }]
    if (kept.custom_url) {
      const { hostname, pathname } = new URL(
        /^https?:/.test(kept.custom_url) ? kept.custom_url : `https://${kept.custom_url}`,
      )
      routes.push({ host: hostname, path: pathname, targets })
      // Here that host leads nowhere: its path is served too, at whatever name this machine is asked by.
      if (pathname !== '/') routes.push({ host: null, path: pathname, targets })
    }
    return routes
  }

  #each(work: (pool: Pool) => void): void {
    for (const pools of this.#pools.values()) for (const pool of pools.values()) work(pool)
  }

  #weigh(): void {
    const groups = new Set<number>()
    this.#each(pool => pool.groups().forEach(group => void groups.add(group)))
    if (groups.size === 0) return
    const used = memoryOf(groups)
    this.#each(pool => pool.weigh(used))
  }

  async #measure(): Promise<void> {
    for (const [deployment, pools] of this.#pools) {
      for (const [revision, pool] of pools) {
        const limit = this.#limits.disk_mb
        if ((await sizeOf(this.#path(deployment, 'revisions', revision), limit)) > limit)
          pool.blameAll(`it wrote more than the ${limit} MB that it may`)
      }
    }
  }
}
