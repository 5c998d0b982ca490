// What the engines share whose copies run on this machine: pools of them behind the local router, addresses, draining.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { listFolder, readJson, removeRecursively, writeJson } from '../../system/files.ts'
import type {
  Artifact,
  BuildTask,
  Engine,
  EngineEvents,
  EngineObservation,
  LogLevel,
  RevisionRef,
  RevisionSpec,
  SourceTree,
} from '../engine.ts'
import { type HostOwners, hostOwnersOf, parseCustomUrl } from './custom-hosts.ts'
import { DEFAULT_LIMITS, type Limits } from './limits.ts'
import { Provisioner } from './provisioning.ts'
import { type HealthPolicy, type Replica, ReplicaPool, type ReplicaTemplate } from './replica-pool.ts'
import type { Route, Target } from './router.ts'
import { RouterClient } from './router-client.ts'

/** What is kept of a deployment: its address for as long as it lives, who gets its requests, and about when it last got one. */
type SavedDeployment = {
  host: string
  routed: string | null
  custom_url: string | null
  /** Whose it is, and since when it names that host: an older one of another workspace keeps the host. */
  tenant_id?: string | undefined
  custom_since?: number | undefined
  used?: number | undefined
}
/** `apps`: where the folders of applications are, if not in `home`. */
export type PooledOptions = { home: string; apps?: string | undefined; port: number; limits?: Partial<Limits> }

export abstract class PooledEngine implements Engine {
  abstract readonly name: string
  protected readonly limits: Limits
  protected events!: EngineEvents
  protected readonly provisioner: Provisioner
  readonly #home: string
  readonly #router: RouterClient
  readonly #pools = new Map<string, Map<string, ReplicaPool>>()
  #drained = new Set<string>()
  /** From then on the router is somebody else's, or ends too. */
  #closed = false
  #timers: NodeJS.Timeout[] = []

  constructor(folder: string, { home, apps = home, port, limits }: PooledOptions) {
    this.#home = join(apps, folder)
    this.limits = { ...DEFAULT_LIMITS, ...limits }
    this.#router = new RouterClient(join(home, 'router.json'), port)
    this.provisioner = new Provisioner({
      provision: (id, signal) => this.bring(id, signal),
      changed: id => this.events.changed(id),
      patience_ms: this.limits.database_ms,
    })
  }

  abstract refusalReason(unit: RevisionSpec): string | null
  abstract prepare(unit: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact>
  abstract start(unit: RevisionSpec, artifact: Artifact): Promise<void>
  abstract provide(unit: RevisionSpec): Promise<void>
  /** Makes what was promised to a deployment beside its copies, or makes sure of it. */
  protected abstract bring(deployment_id: string, signal: AbortSignal): Promise<void>
  /** What an earlier agent left running of a revision. */
  protected abstract adopt(ref: RevisionRef): Promise<Replica[]>

  async open(events: EngineEvents): Promise<void> {
    this.events = events
    await this.#router.open()
    for (const deployment_id of listFolder(this.#home)) {
      for (const revision_id of listFolder(this.path(deployment_id, 'revisions'))) {
        const ref = { deployment_id, revision_id }
        const copies = await this.adopt(ref)
        const pool = copies.length > 0 && this.pool(ref, true)
        if (!pool) {
          // Whoever stops it tries again; nobody else waits for that.
          await removeRecursively(this.path(deployment_id, 'revisions', revision_id)).catch(() => {})
          continue
        }
        await pool.adopt(copies, this.#readHealthPolicy(ref))
        if (this.#isDraining(ref)) void this.#awaitDrained(ref, pool.targets())
      }
    }
    await this.#applyRoutes()
    this.repeatEvery(this.limits.tick_ms, () => this.forEachPool(pool => pool.tick()))
    // A router that is gone is found out so at the latest, and there is another one.
    this.repeatEvery(this.limits.asked_ms, () => void this.#noteUse().catch(() => this.#applyRoutes().catch(() => {})))
  }

  async deployments(): Promise<string[]> {
    return listFolder(this.#home)
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    const kept = this.#readDeployment(deployment_id)
    const running = [...(this.#pools.get(deployment_id) ?? [])].map(([revision_id, pool]) => {
      const drained = this.#drained.has(revision_id) ? ('drained' as const) : undefined
      const draining = this.#isDraining({ deployment_id, revision_id })
      return { revision_id, phase: drained ?? (draining ? ('draining' as const) : pool.phase()), reason: pool.reason() }
    })
    return {
      running,
      routed: kept?.routed ?? null,
      url: kept ? `http://${kept.host}:${this.#router.port}` : null,
      hasRemains: fs.existsSync(this.path(deployment_id)),
      database: this.provisioner.statusOf(deployment_id),
      ...(kept?.used && { last_request_at: new Date(kept.used).toISOString() }),
    }
  }

  async route(unit: RevisionSpec): Promise<void> {
    this.saveDeployment(unit, unit.revision_id)
    await this.#applyRoutes()
  }

  async drain({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const pool = this.pool({ deployment_id, revision_id })
    if (!pool) return
    writeJson(this.path(deployment_id, 'revisions', revision_id, 'draining'), {})
    const kept = this.#readDeployment(deployment_id)
    if (kept?.routed === revision_id) writeJson(this.path(deployment_id, 'deployment.json'), { ...kept, routed: null })
    const targets = pool.targets()
    await this.#applyRoutes()
    void this.#awaitDrained({ deployment_id, revision_id }, targets)
  }

  async #awaitDrained({ deployment_id, revision_id }: RevisionRef, targets: Target[]): Promise<void> {
    const deadline = Date.now() + this.limits.drain_ms
    while (Date.now() < deadline && (await this.#router.inFlight(targets).catch(() => 0)) > 0) await delay(50)
    this.#drained.add(revision_id)
    this.events.changed(deployment_id)
  }

  async stop({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const pools = this.#pools.get(deployment_id)
    const pool = pools?.get(revision_id)
    if (!pool) return
    await pool.stop()
    pools!.delete(revision_id)
    this.#drained.delete(revision_id)
    await removeRecursively(this.path(deployment_id, 'revisions', revision_id))
  }

  async remove(deployment_id: string): Promise<void> {
    await this.provisioner.forget(deployment_id)
    for (const revision_id of [...(this.#pools.get(deployment_id)?.keys() ?? [])])
      await this.stop({ deployment_id, revision_id })
    this.#pools.delete(deployment_id)
    await removeRecursively(this.path(deployment_id))
    await this.#applyRoutes()
  }

  async close({ stop }: { stop: boolean }): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers.splice(0)) clearInterval(timer)
    await this.provisioner.close()
    if (!stop) {
      this.forEachPool(pool => pool.release())
      // Where nothing serves on, nobody needs to be led there.
      if (listFolder(this.#home).length > 0) return
    }
    const all = [...this.#pools.values()].flatMap(pools => [...pools.values()])
    await Promise.all(all.map(pool => pool.stop()))
    await this.#router.close()
  }

  protected repeatEvery(ms: number, work: () => unknown): void {
    this.#timers.push(setInterval(work, ms))
  }

  protected path(deployment: string, ...rest: string[]): string {
    return join(this.#home, deployment, ...rest)
  }

  #isDraining({ deployment_id, revision_id }: RevisionRef): boolean {
    return fs.existsSync(this.path(deployment_id, 'revisions', revision_id, 'draining'))
  }

  /** What has had requests was healthy: one copy is enough, also where an older agent wrote down nothing. */
  #readHealthPolicy({ deployment_id, revision_id }: RevisionRef): HealthPolicy | undefined {
    const known = readJson<HealthPolicy>(this.path(deployment_id, 'revisions', revision_id, 'known.json'))
    const served =
      this.#readDeployment(deployment_id)?.routed === revision_id || this.#isDraining({ deployment_id, revision_id })
    return served ? { health_path: known?.health_path ?? null, copies: 1 } : known
  }

  protected replicasFolder({ deployment_id, revision_id }: RevisionRef): string {
    return this.path(deployment_id, 'revisions', revision_id, 'copies')
  }

  /** Written before anything of it runs. */
  protected saveDeployment({ deployment_id, name, tenant_id, custom_url }: RevisionSpec, routed?: string): void {
    const before = this.#readDeployment(deployment_id)
    const host = parseCustomUrl(custom_url)?.host
    const isSame = host !== undefined && host === parseCustomUrl(before?.custom_url)?.host
    const kept: SavedDeployment = {
      host: before?.host ?? this.#chooseHost(name, deployment_id),
      routed: routed ?? before?.routed ?? null,
      custom_url,
      tenant_id,
      custom_since: host === undefined ? undefined : isSame ? before!.custom_since : Date.now(),
      // From here on its uses are counted, so that one that never has any is known to be unused.
      used: before?.used ?? (routed ? Date.now() : undefined),
    }
    writeJson(this.path(deployment_id, 'deployment.json'), kept)
  }

  protected pool(ref: RevisionRef): ReplicaPool | undefined
  protected pool(ref: RevisionRef, make: true): ReplicaPool
  protected pool({ deployment_id, revision_id }: RevisionRef, make?: true): ReplicaPool | undefined {
    const pools = this.#pools.get(deployment_id) ?? new Map<string, ReplicaPool>()
    if (make) this.#pools.set(deployment_id, pools)
    if (make && !pools.has(revision_id)) {
      const ref = { deployment_id, revision_id }
      const changed = () => {
        void this.#applyRoutes().catch(() => {})
        this.events.changed(deployment_id)
      }
      const log = (message: string, level: LogLevel) => this.events.log(ref, message, level)
      pools.set(revision_id, new ReplicaPool(this.limits, { changed, log }))
    }
    return pools.get(revision_id)
  }

  /** As many copies as it is to have, each held to its memory; the next agent judges them as this one does. */
  protected startPool(unit: RevisionSpec, { health_path }: Artifact, launch: ReplicaTemplate['launch']): void {
    const { deployment_id, revision_id, resources } = unit
    const known: HealthPolicy = { health_path, copies: Math.max(1, resources.min_scale) }
    writeJson(this.path(deployment_id, 'revisions', revision_id, 'known.json'), known)
    this.pool(unit, true).start({ ...known, launch, memory_mb: resources.memory_limit_mb })
  }

  protected forEachPool(work: (pool: ReplicaPool, ref: RevisionRef) => void): void {
    for (const [deployment_id, pools] of this.#pools)
      for (const [revision_id, pool] of pools) work(pool, { deployment_id, revision_id })
  }

  /** Coarse, so that each use is not a report: the first after a pause at once, and then one in an hour. */
  async #noteUse(): Promise<void> {
    const asked = await this.#router.lastRequests()
    for (const [deployment_id, at] of Object.entries(asked)) {
      const kept = this.#readDeployment(deployment_id)
      if (this.#closed || !kept || at - (kept.used ?? 0) < this.limits.used_ms) continue
      writeJson(this.path(deployment_id, 'deployment.json'), { ...kept, used: at } satisfies SavedDeployment)
      this.events.changed(deployment_id)
    }
  }

  #readDeployment(deployment: string): SavedDeployment | undefined {
    return readJson<SavedDeployment>(this.path(deployment, 'deployment.json'))
  }

  /** Names are unique in a workspace only; of two the second gets a longer one. */
  #chooseHost(name: string, deployment: string): string {
    const taken = listFolder(this.#home).some(
      other => other !== deployment && this.#readDeployment(other)?.host === `${name}.localhost`,
    )
    return taken ? `${name.slice(0, 54)}-${deployment.slice(0, 8)}.localhost` : `${name}.localhost`
  }

  async #applyRoutes(): Promise<void> {
    if (this.#closed) return
    await this.#router.apply(() => {
      const all = listFolder(this.#home).flatMap(id => {
        const kept = this.#readDeployment(id)
        return kept ? [{ id, kept }] : []
      })
      const owners = hostOwnersOf(all.map(({ kept }) => kept))
      return all.flatMap(({ id, kept }) => this.#routesOf(id, kept, owners))
    })
  }

  #routesOf(deployment: string, kept: SavedDeployment, owners: HostOwners): Route[] {
    if (!kept.routed) return []
    const targets = this.#pools.get(deployment)?.get(kept.routed)?.targets() ?? []
    const where = { targets, of: deployment }
    const own: Route = { host: kept.host, path: '/', ...where }
    const custom = parseCustomUrl(kept.custom_url)
    if (!custom || owners.get(custom.host) !== kept.tenant_id) return [own]
    return [own, { ...custom, ...where }]
  }
}
