// What the engines share whose copies run on this machine: pools of them behind the local router, addresses, draining.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { list, readJson, remove, writeJson } from '../../files.ts'
import type { Artifact, Engine, Events, Level, Ref, Seen, Task, Tree, Unit } from '../engine.ts'
import { customOf, type Owners, ownersOf } from './custom-hosts.ts'
import { LIMITS, type Limits } from './limits.ts'
import { type Copy, type Known, Pool, type Recipe } from './pool.ts'
import { Promised } from './promised.ts'
import type { Route, Target } from './router.ts'
import { RouterClient } from './router-client.ts'

/** What is kept of a deployment: its address for as long as it lives, who gets its requests, and about when it last got one. */
type Kept = {
  host: string
  routed: string | null
  custom_url: string | null
  /** Whose it is, and since when it names that host: an older one of another workspace keeps the host. */
  tenant_id?: string | undefined
  custom_since?: number | undefined
  used?: number | undefined
}
/** `apps`: where the folders of applications are, if not in `home`. */
export type Options = { home: string; apps?: string | undefined; port: number; limits?: Partial<Limits> }

export abstract class PooledEngine implements Engine {
  abstract readonly name: string
  protected readonly limits: Limits
  protected events!: Events
  protected readonly promised: Promised
  readonly #home: string
  readonly #router: RouterClient
  readonly #pools = new Map<string, Map<string, Pool>>()
  #drained = new Set<string>()
  /** From then on the router is somebody else's, or ends too. */
  #closed = false
  #timers: NodeJS.Timeout[] = []

  constructor(folder: string, { home, apps = home, port, limits }: Options) {
    this.#home = join(apps, folder)
    this.limits = { ...LIMITS, ...limits }
    this.#router = new RouterClient(join(home, 'router.json'), port)
    this.promised = new Promised({
      bring: (id, signal) => this.bring(id, signal),
      changed: id => this.events.changed(id),
      patience_ms: this.limits.database_ms,
    })
  }

  abstract refuses(unit: Unit): string | null
  abstract prepare(unit: Unit, tree: Tree | null, task: Task): Promise<Artifact>
  abstract start(unit: Unit, artifact: Artifact): Promise<void>
  abstract provide(unit: Unit): Promise<void>
  /** Makes what was promised to a deployment beside its copies, or makes sure of it. */
  protected abstract bring(deployment_id: string, signal: AbortSignal): Promise<void>
  /** What an earlier agent left running of a revision. */
  protected abstract adopt(ref: Ref): Promise<Copy[]>

  async open(events: Events): Promise<void> {
    this.events = events
    await this.#router.open()
    for (const deployment_id of list(this.#home)) {
      for (const revision_id of list(this.path(deployment_id, 'revisions'))) {
        const ref = { deployment_id, revision_id }
        const copies = await this.adopt(ref)
        const pool = copies.length > 0 && this.pool(ref, true)
        if (!pool) {
          // Whoever stops it tries again; nobody else waits for that.
          await remove(this.path(deployment_id, 'revisions', revision_id)).catch(() => {})
          continue
        }
        await pool.adopt(copies, this.#knownOf(ref))
        if (this.#isDraining(ref)) void this.#awaitDrained(ref, pool.targets())
      }
    }
    await this.#apply()
    this.every(this.limits.tick_ms, () => this.each(pool => pool.tick()))
    // A router that is gone is found out so at the latest, and there is another one.
    this.every(this.limits.asked_ms, () => void this.#noteUse().catch(() => this.#apply().catch(() => {})))
  }

  async deployments(): Promise<string[]> {
    return list(this.#home)
  }

  async observe(deployment_id: string): Promise<Seen> {
    const kept = this.#kept(deployment_id)
    const running = [...(this.#pools.get(deployment_id) ?? [])].map(([revision_id, pool]) => {
      const drained = this.#drained.has(revision_id) ? ('drained' as const) : undefined
      const draining = this.#isDraining({ deployment_id, revision_id })
      return { revision_id, phase: drained ?? (draining ? ('draining' as const) : pool.phase()), reason: pool.reason() }
    })
    return {
      running,
      routed: kept?.routed ?? null,
      url: kept ? `http://${kept.host}:${this.#router.port}` : null,
      left: fs.existsSync(this.path(deployment_id)),
      database: this.promised.seen(deployment_id),
      ...(kept?.used && { last_request_at: new Date(kept.used).toISOString() }),
    }
  }

  async route(unit: Unit): Promise<void> {
    this.keep(unit, unit.revision_id)
    await this.#apply()
  }

  async drain({ deployment_id, revision_id }: Ref): Promise<void> {
    const pool = this.pool({ deployment_id, revision_id })
    if (!pool) return
    writeJson(this.path(deployment_id, 'revisions', revision_id, 'draining'), {})
    const kept = this.#kept(deployment_id)
    if (kept?.routed === revision_id) writeJson(this.path(deployment_id, 'deployment.json'), { ...kept, routed: null })
    const targets = pool.targets()
    await this.#apply()
    void this.#awaitDrained({ deployment_id, revision_id }, targets)
  }

  async #awaitDrained({ deployment_id, revision_id }: Ref, targets: Target[]): Promise<void> {
    const deadline = Date.now() + this.limits.drain_ms
    while (Date.now() < deadline && (await this.#router.inFlight(targets).catch(() => 0)) > 0) await delay(50)
    this.#drained.add(revision_id)
    this.events.changed(deployment_id)
  }

  async stop({ deployment_id, revision_id }: Ref): Promise<void> {
    const pools = this.#pools.get(deployment_id)
    const pool = pools?.get(revision_id)
    if (!pool) return
    await pool.stop()
    pools!.delete(revision_id)
    this.#drained.delete(revision_id)
    await remove(this.path(deployment_id, 'revisions', revision_id))
  }

  async remove(deployment_id: string): Promise<void> {
    await this.promised.forget(deployment_id)
    for (const revision_id of [...(this.#pools.get(deployment_id)?.keys() ?? [])])
      await this.stop({ deployment_id, revision_id })
    this.#pools.delete(deployment_id)
    await remove(this.path(deployment_id))
    await this.#apply()
  }

  async close({ stop }: { stop: boolean }): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers.splice(0)) clearInterval(timer)
    await this.promised.close()
    if (!stop) {
      this.each(pool => pool.release())
      // Where nothing serves on, nobody needs to be led there.
      if (list(this.#home).length > 0) return
    }
    const all = [...this.#pools.values()].flatMap(pools => [...pools.values()])
    await Promise.all(all.map(pool => pool.stop()))
    await this.#router.close()
  }

  protected every(ms: number, work: () => unknown): void {
    this.#timers.push(setInterval(work, ms))
  }

  protected path(deployment: string, ...rest: string[]): string {
    return join(this.#home, deployment, ...rest)
  }

  #isDraining({ deployment_id, revision_id }: Ref): boolean {
    return fs.existsSync(this.path(deployment_id, 'revisions', revision_id, 'draining'))
  }

  /** What has had requests was healthy: one copy is enough, also where an older agent wrote down nothing. */
  #knownOf({ deployment_id, revision_id }: Ref): Known | undefined {
    const known = readJson<Known>(this.path(deployment_id, 'revisions', revision_id, 'known.json'))
    const served = this.#kept(deployment_id)?.routed === revision_id || this.#isDraining({ deployment_id, revision_id })
    return served ? { health_path: known?.health_path ?? null, copies: 1 } : known
  }

  protected copiesOf({ deployment_id, revision_id }: Ref): string {
    return this.path(deployment_id, 'revisions', revision_id, 'copies')
  }

  /** Written before anything of it runs. */
  protected keep({ deployment_id, name, tenant_id, custom_url }: Unit, routed?: string): void {
    const before = this.#kept(deployment_id)
    const host = customOf(custom_url)?.host
    const isSame = host !== undefined && host === customOf(before?.custom_url)?.host
    const kept: Kept = {
      host: before?.host ?? this.#hostFor(name, deployment_id),
      routed: routed ?? before?.routed ?? null,
      custom_url,
      tenant_id,
      custom_since: host === undefined ? undefined : isSame ? before!.custom_since : Date.now(),
      // From here on its uses are counted, so that one that never has any is known to be unused.
      used: before?.used ?? (routed ? Date.now() : undefined),
    }
    writeJson(this.path(deployment_id, 'deployment.json'), kept)
  }

  protected pool(ref: Ref): Pool | undefined
  protected pool(ref: Ref, make: true): Pool
  protected pool({ deployment_id, revision_id }: Ref, make?: true): Pool | undefined {
    const pools = this.#pools.get(deployment_id) ?? new Map<string, Pool>()
    if (make) this.#pools.set(deployment_id, pools)
    if (make && !pools.has(revision_id)) {
      const ref = { deployment_id, revision_id }
      const changed = () => {
        void this.#apply().catch(() => {})
        this.events.changed(deployment_id)
      }
      const log = (message: string, level: Level) => this.events.log(ref, message, level)
      pools.set(revision_id, new Pool(this.limits, { changed, log }))
    }
    return pools.get(revision_id)
  }

  /** As many copies as it is to have, each held to its memory; the next agent judges them as this one does. */
  protected run(unit: Unit, { health_path }: Artifact, launch: Recipe['launch']): void {
    const { deployment_id, revision_id, resources } = unit
    const known: Known = { health_path, copies: Math.max(1, resources.min_scale) }
    writeJson(this.path(deployment_id, 'revisions', revision_id, 'known.json'), known)
    this.pool(unit, true).start({ ...known, launch, memory_mb: resources.memory_limit_mb })
  }

  protected each(work: (pool: Pool, ref: Ref) => void): void {
    for (const [deployment_id, pools] of this.#pools)
      for (const [revision_id, pool] of pools) work(pool, { deployment_id, revision_id })
  }

  /** Coarse, so that each use is not a report: the first after a pause at once, and then one in an hour. */
  async #noteUse(): Promise<void> {
    const asked = await this.#router.asked()
    for (const [deployment_id, at] of Object.entries(asked)) {
      const kept = this.#kept(deployment_id)
      if (this.#closed || !kept || at - (kept.used ?? 0) < this.limits.used_ms) continue
      writeJson(this.path(deployment_id, 'deployment.json'), { ...kept, used: at } satisfies Kept)
      this.events.changed(deployment_id)
    }
  }

  #kept(deployment: string): Kept | undefined {
    return readJson<Kept>(this.path(deployment, 'deployment.json'))
  }

  /** Names are unique in a workspace only; of two the second gets a longer one. */
  #hostFor(name: string, deployment: string): string {
    const taken = list(this.#home).some(
      other => other !== deployment && this.#kept(other)?.host === `${name}.localhost`,
    )
    return taken ? `${name.slice(0, 54)}-${deployment.slice(0, 8)}.localhost` : `${name}.localhost`
  }

  async #apply(): Promise<void> {
    if (this.#closed) return
    await this.#router.apply(() => {
      const all = list(this.#home).flatMap(id => {
        const kept = this.#kept(id)
        return kept ? [{ id, kept }] : []
      })
      const owners = ownersOf(all.map(({ kept }) => kept))
      return all.flatMap(({ id, kept }) => this.#routesOf(id, kept, owners))
    })
  }

  #routesOf(deployment: string, kept: Kept, owners: Owners): Route[] {
    if (!kept.routed) return []
    const targets = this.#pools.get(deployment)?.get(kept.routed)?.targets() ?? []
    const where = { targets, of: deployment }
    const own: Route = { host: kept.host, path: '/', ...where }
    const custom = customOf(kept.custom_url)
    if (!custom || owners.get(custom.host) !== kept.tenant_id) return [own]
    return [own, { ...custom, ...where }]
  }
}
