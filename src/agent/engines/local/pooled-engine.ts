// The base of the engines whose replicas run on this machine: replica pools behind the local router, hosts, draining.
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { describeIgnored, type FeatureName, featuresOf, listIgnored } from '../../../protocol/engine-features.ts'
import { CLOSED_POLICY, describeRefusal, type ListenerPolicy } from '../../../protocol/listener-policy.ts'
import type { GrantIssuer, WorkProtection } from '../../../protocol/protection.schema.ts'
import type { RequestLogs } from '../../../protocol/request-logs.schema.ts'
import type { ResourceSpec } from '../../../protocol/resources.schema.ts'
import type { WorkTraffic } from '../../../protocol/traffic.schema.ts'
import type { BucketStore } from '../../archive/bucket-store.ts'
import type {
  Artifact,
  BuildTask,
  Engine,
  EngineEvents,
  EngineObservation,
  LogLevel,
  OneOffRun,
  RevisionRef,
  RevisionSpec,
  RevisionUsage,
  RunEnd,
  SourceTree,
  SplitTotals,
  StoreUsage,
  WriteLog,
} from '../../engine.ts'
import { findDirection } from '../../public-proxy/host-probes.ts'
import { HostWatch } from '../../public-proxy/host-watch.ts'
import type { PublicProxy } from '../../public-proxy/public-proxy.ts'
import { signatureOf } from '../../redaction/redaction.ts'
import { listFolder, readJson, readText, removeRecursively, stampFolder, writeJson } from '../../system/files.ts'
import { MODEL_TOKEN_FILE } from '../model-variables.ts'
import { type RunningType, WEB } from '../process-types.ts'
import { BesideCopies } from './beside-copies.ts'
import { DeploymentRecords, type Servers, splitOf } from './deployment-records.ts'
import { Draining } from './draining.ts'
import { GrantTrust } from './grant-trust.ts'
import { describeLeftData } from './left-data.ts'
import { DEFAULT_LIMITS, type Limits } from './limits.ts'
import { MovingCopies } from './moving-copies.ts'
import { Provisioner } from './provisioning.ts'
import type { Replica } from './replica.ts'
import { type HealthPolicy, ReplicaPool } from './replica-pool.ts'
import { makeTemplates, RAISE_COPIES, type TypeMakers } from './replica-templates.ts'
import type { RequestLines } from './request-log.ts'
import { RestRecords } from './rest-records.ts'
import { RevisionPools } from './revision-pools.ts'
import { listUsage, type PoolOf } from './revision-usage.ts'
import type { Target } from './router.ts'
import { RouterClient, type RouterSettings } from './router-client.ts'
import { SiteReplica } from './site-replica.ts'
import { copiesOfShare } from './split.ts'
import { StoreUse } from './store-use.ts'
import { makeTokenFolder, type TokenReader, writeTokenFile } from './token-file.ts'

/** `apps`: the folder of applications, `home` by default. `domain`: applications are at `https://<name>.<domain>`. */
export type PooledOptions = RouterSettings & {
  home: string
  apps?: string | undefined
  port: number
  domain?: string | undefined
  proxy?: PublicProxy | undefined
  limits?: Partial<Limits>
  /** Keeps backups, if they are not to be in `home`. */
  archive?: BucketStore | undefined
}

const PORT_ATTEMPTS = 3
const REMOVE = 'Remove it, or use a listener whose agent runs the kubernetes engine and allows it.'
const REMEDIES = {
  privileged: REMOVE,
  service_account: REMOVE,
  copies: RAISE_COPIES,
}

export abstract class PooledEngine implements Engine {
  abstract readonly name: 'process' | 'container'
  protected readonly limits: Limits
  /** The kinds of terminals and forwarded ports that it opens. */
  protected tunnels: ListenerPolicy['tunnels'] = []
  protected events!: EngineEvents
  protected readonly provisioner: Provisioner
  protected readonly storeUse = new StoreUse()
  readonly #home: string
  readonly #records: DeploymentRecords
  readonly #router: RouterClient
  readonly #proxy: PublicProxy | undefined
  readonly #hosts: HostWatch | undefined
  readonly #moving: MovingCopies
  readonly #rests = new RestRecords(({ deployment_id: id, revision_id }) =>
    this.path(id, 'revisions', revision_id, 'rest.json'),
  )
  protected readonly beside: BesideCopies
  readonly #pools = new Map<string, Map<string, RevisionPools>>()
  readonly #holds = new Map<string, Promise<void>>()
  readonly #grants: GrantTrust
  /** The protection, the request log or the split of these has changed, and the router may not know it yet. */
  readonly #unapplied = new Set<string>()
  readonly #draining: Draining
  /** True once the next agent owns the router. */
  #closed = false
  #timers: NodeJS.Timeout[] = []

  constructor(folder: string, { home, apps = home, port, domain, proxy, limits, ...settings }: PooledOptions) {
    this.#home = join(apps, folder)
    this.limits = { ...DEFAULT_LIMITS, ...limits }
    this.#grants = new GrantTrust(join(home, 'grant-issuer.json'))
    this.#records = new DeploymentRecords(this.#home, domain, this.#grants)
    this.#proxy = proxy
    const { host, trusted_proxies, public_addresses } = settings
    const router = { host, trusted_proxies, public_addresses }
    this.#router = new RouterClient(
      join(home, 'router.json'),
      port,
      router,
      () => void this.#applyRoutes().catch(() => {}),
      id => void this.#moving.scaler.wake(id).catch(() => {}),
      renewal => this.events.renewAccess(renewal),
      lines => this.#logRequests(lines),
    )
    if (public_addresses)
      this.#hosts = new HostWatch({
        listHosts: () => this.#customHosts().map(([, host]) => host),
        readCertificates: () => this.#router.certificates(),
        findDirection: host => findDirection(host, public_addresses),
        onChange: changed => {
          for (const [id, host] of this.#customHosts()) if (host === changed) this.events.changed(id)
        },
      })
    this.#draining = new Draining({
      router: this.#router,
      drain_ms: this.limits.drain_ms,
      fileOf: ({ deployment_id, revision_id }) => this.path(deployment_id, 'revisions', revision_id, 'draining'),
      changed: id => this.events.changed(id),
    })
    this.#moving = new MovingCopies({
      limits: this.limits,
      router: this.#router,
      records: this.#records,
      rests: this.#rests,
      pools: this.#pools,
      applyRoutes: () => this.#applyRoutes(),
      log: (ref, type, message, level = 'INFO') => this.events.log({ ...ref, process: type }, message, level),
    })
    this.beside = new BesideCopies(this.#moving.scaler, id => this.#moving.findScaled(id)?.pool.holds === true)
    this.provisioner = new Provisioner({
      provision: (id, signal) => this.provideStores(id, signal),
      changed: id => this.events.changed(id),
      patience_ms: this.limits.database_ms,
    })
  }

  get policy(): ListenerPolicy {
    const features = featuresOf(this.name, this.missingFeatures())
    return { ...CLOSED_POLICY, max_copies: this.limits.copies, engine: this.name, features, tunnels: this.tunnels }
  }

  /** Features of the engine that this machine lacks. */
  protected missingFeatures(): FeatureName[] {
    return []
  }

  /** Names in the log what has no effect: the control plane may have planned it before. Amounts have defaults. */
  #logIgnored({ resources, parts, ...ref }: RevisionSpec): void {
    const { min_scale: _, max_scale: __, ...rest } = resources
    const asked = Object.entries(rest).filter(
      ([name, value]) => typeof value !== 'number' || parts.some(part => name.startsWith(`${part}_`)),
    )
    const ignored = listIgnored(Object.fromEntries(asked) as object as ResourceSpec, { features: this.policy.features })
    if (ignored.length > 0) this.events.log(ref, describeIgnored(ignored, this.name), 'WARNING')
    const left = describeLeftData(dirname(this.#home), this.name, ref.deployment_id)
    if (left) this.events.log(ref, left, 'WARNING')
  }

  refusalReason({ resources }: RevisionSpec): string | null {
    return describeRefusal(resources, this.policy, REMEDIES)
  }
  abstract prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact>
  abstract start(spec: RevisionSpec, artifact: Artifact): Promise<void>
  abstract provide(spec: RevisionSpec): Promise<void>
  abstract runOnce(
    spec: RevisionSpec,
    artifact: Artifact,
    run: OneOffRun,
    log: WriteLog,
    signal: AbortSignal,
  ): Promise<RunEnd>
  abstract forgetRun(deployment_id: string, id: string): Promise<void>
  /** Creates the database or Redis of a deployment, or checks that they still serve. Idempotent. */
  protected abstract provideStores(deployment_id: string, signal: AbortSignal): Promise<void>
  protected abstract tokenReaderOf(deployment_id: string): TokenReader
  /** The replicas of a revision that an earlier agent left running, by their type. */
  protected abstract adopt(ref: RevisionRef): Promise<Map<string, Replica[]>>

  async open(events: EngineEvents): Promise<void> {
    this.events = events
    await this.#router.open()
    this.#proxy?.open(() => this.#router.endpoint)
    for (const deployment_id of listFolder(this.#home)) {
      const token = readText(this.tokenFolder(deployment_id), MODEL_TOKEN_FILE)
      if (token) events.hide(deployment_id, [signatureOf(token)])
      for (const revision_id of listFolder(this.path(deployment_id, 'revisions'))) {
        const ref = { deployment_id, revision_id }
        const replicas = await this.adopt(ref)
        const stored = this.#rests.read(ref)
        if (stored === null && [...replicas.values()].every(({ length }) => length === 0)) {
          // Best effort: `stop` removes it too.
          await removeRecursively(this.path(deployment_id, 'revisions', revision_id)).catch(() => {})
          continue
        }
        const pools = this.#ensurePools(ref)
        const listens = fs.existsSync(this.#policyFile(ref, WEB))
        for (const [type, ofType] of replicas) {
          const rest = type === WEB || stored?.types?.includes(type) ? (stored?.rest ?? null) : null
          if (ofType.length > 0 || (type === WEB ? listens : rest !== null))
            await pools.adopt(type, ofType, this.#readHealthPolicy(ref, type), rest)
        }
        if (this.#draining.isRecorded(ref)) void this.#draining.await(ref, pools.targets())
      }
    }
    await this.#applyRoutes()
    this.repeatEvery(this.limits.tick_ms, () => this.forEachPool(pool => pool.tick()))
    this.repeatEvery(this.limits.scale_ms, () => this.#moving.tick())
    // If starting another router failed, applying the routes tries again.
    this.repeatEvery(
      this.limits.usage_poll_ms,
      () => void this.#recordUsage().catch(() => this.#applyRoutes().catch(() => {})),
    )
    // The router may be starting again.
    if (this.#hosts) this.repeatEvery(this.limits.usage_poll_ms, () => void this.#hosts!.look().catch(() => {}))
  }

  async deployments(): Promise<string[]> {
    return listFolder(this.#home)
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    const saved = this.#records.read(deployment_id)
    const running = [...(this.#pools.get(deployment_id) ?? [])].map(([revision_id, pools]) => {
      const isRouted = saved?.routed === revision_id
      const phase = this.#draining.phaseOf({ deployment_id, revision_id }) ?? pools.phase(isRouted)
      return { revision_id, phase, reason: pools.reason(isRouted), condition: pools.condition(isRouted) }
    })
    const split = saved && splitOf(saved)
    const custom_host = saved && this.#hosts?.read(this.#records.customHostOf(saved) ?? '')
    const isSplit = split && this.#serversOf(deployment_id, split.revision_id).targets.length > 0
    return {
      running,
      routed: saved?.routed ?? null,
      ...(isSplit && !this.#unapplied.has(deployment_id) && { split }),
      url: saved && !saved.isWithoutWeb ? this.#records.urlOf(saved, this.#router.port) : null,
      ...(saved && this.#records.hasLocalUrl(saved) && { local_url: `http://127.0.0.1:${saved.local_port}` }),
      ...(custom_host && { custom_host }),
      hasRemains: fs.existsSync(this.path(deployment_id)),
      database: this.provisioner.statusOf(deployment_id),
      ...(saved?.used && { last_request_at: new Date(saved.used).toISOString() }),
    }
  }

  #customHosts(): [deployment_id: string, host: string][] {
    return listFolder(this.#home).flatMap(id => {
      const saved = this.#records.read(id)
      const host = saved && this.#records.customHostOf(saved)
      return host === undefined ? [] : [[id, host] as [string, string]]
    })
  }

  async readUsage(): Promise<RevisionUsage[]> {
    const counted = await this.#router.requestCounts().catch(() => undefined)
    const pools: PoolOf[] = []
    this.forEachPool((pool, ref, type) => pools.push([pool, ref, type]))
    return listUsage(pools, counted)
  }

  storeUsage(): StoreUsage[] {
    return this.storeUse.list()
  }

  /** Not of a deployment that is being removed: its folder would come back. */
  async renewModelToken(deployment_id: string): Promise<void> {
    const token = this.events.modelToken(deployment_id)
    if (token === undefined || !this.#records.read(deployment_id)) return
    const folder = this.tokenFolder(deployment_id)
    const reader = this.tokenReaderOf(deployment_id)
    makeTokenFolder(folder, reader)
    writeTokenFile(folder, token, reader)
  }

  protected tokenFolder(deployment_id: string): string {
    return this.path(deployment_id, 'models')
  }

  async trustGrants(issuer: GrantIssuer): Promise<void> {
    // The router gets it with its next routes, if it does not answer now.
    if (this.#grants.store(issuer)) await this.#applyRoutes().catch(() => {})
  }

  async protect(deployment_id: string, protection: WorkProtection | null): Promise<void> {
    await this.#applyChange(deployment_id, this.#records.protect(deployment_id, protection))
  }

  async logRequests(deployment_id: string, logs: RequestLogs | null): Promise<void> {
    await this.#applyChange(deployment_id, this.#records.logRequests(deployment_id, logs))
  }

  /** Not of a deployment that was removed meanwhile. */
  #logRequests(all: RequestLines[]): void {
    for (const { deployment_id, revision_id, lines } of all)
      if (this.#pools.get(deployment_id)?.has(revision_id)) this.events.requests({ deployment_id, revision_id }, lines)
  }

  async split(deployment_id: string, split: WorkTraffic | null): Promise<void> {
    await this.#applyChange(deployment_id, this.#records.split(deployment_id, split))
    this.#moving.split(deployment_id, split !== null)
  }

  async readSplit(deployment_id: string): Promise<SplitTotals> {
    const counts = await this.#router.splitCounts(deployment_id)
    const restarts = [...(this.#pools.get(deployment_id) ?? [])].map(([revision, pools]) => {
      const incident = pools.condition(false).incidents.find(({ kind }) => kind === 'restarted')
      return [revision, incident?.count ?? 0] as const
    })
    return { ...counts, restarts: Object.fromEntries(restarts) }
  }

  async #applyChange(deployment_id: string, isChanged: boolean): Promise<void> {
    if (isChanged) this.#unapplied.add(deployment_id)
    if (!this.#unapplied.has(deployment_id)) return
    await this.#applyRoutes()
    this.#unapplied.delete(deployment_id)
  }

  async route(spec: RevisionSpec): Promise<void> {
    const { deployment_id, revision_id } = spec
    const pools = this.#pools.get(deployment_id) ?? new Map<string, RevisionPools>()
    this.saveDeployment(spec, { revision_id, isWithoutWeb: pools.has(revision_id) && !pools.get(revision_id)!.web })
    await this.#records.chooseLocalPort(deployment_id)
    await this.#applyRoutes()
    for (const [other, its] of pools) if (other !== revision_id) await its.stopOthers()
    pools.get(revision_id)?.startOthers()
  }

  async drain({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const pools = this.#pools.get(deployment_id)?.get(revision_id)
    if (!pools) return
    this.#draining.record({ deployment_id, revision_id })
    const saved = this.#records.read(deployment_id)
    if (saved?.routed === revision_id) this.#records.write(deployment_id, { ...saved, routed: null })
    const targets = pools.targets()
    await this.#applyRoutes()
    void this.#draining.await({ deployment_id, revision_id }, targets)
  }

  async stop({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const pools = this.#pools.get(deployment_id)
    const pool = pools?.get(revision_id)
    if (!pool) return
    await pool.stop()
    pools!.delete(revision_id)
    this.#draining.forget(revision_id)
    this.#moving.forget(revision_id)
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
    this.#proxy?.close()
    for (const timer of this.#timers.splice(0)) clearInterval(timer)
    await this.provisioner.close()
    if (!stop) {
      for (const pools of this.#pools.values()) for (const revision of pools.values()) revision.release()
      // Without deployments, the router is not needed.
      if (listFolder(this.#home).length > 0) return this.#router.release()
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

  #serversOf(deployment_id: string, revision_id: string): Servers {
    const pools = this.#pools.get(deployment_id)?.get(revision_id)
    const targets = this.#draining.isRecorded({ deployment_id, revision_id }) ? [] : (pools?.targets() ?? [])
    return { targets, holds: pools?.web?.holds ?? false }
  }

  /** Copies files of it while its copies stand still. */
  protected whileStill(deployment_id: string, work: () => Promise<void>): Promise<void> {
    return this.#moving.scaler.whileStill(deployment_id, work)
  }

  /** A revision that has served was healthy, so one replica is enough. */
  #readHealthPolicy(ref: RevisionRef, type: string): HealthPolicy | undefined {
    const { deployment_id, revision_id } = ref
    const policy = readJson<HealthPolicy>(this.#policyFile(ref, type))
    const hasServed = this.#records.read(deployment_id)?.routed === revision_id || this.#draining.isRecorded(ref)
    const { health_path = null, settle_ms, serving } = policy ?? {}
    if (!hasServed) return policy
    return { health_path, copies: 1, ...(settle_ms !== undefined && { settle_ms }), ...(serving && { serving }) }
  }

  #policyFile(ref: RevisionRef, type: string): string {
    return join(this.#typeFolder(ref, type), 'known.json')
  }

  #typeFolder({ deployment_id, revision_id }: RevisionRef, type: string): string {
    return this.path(deployment_id, 'revisions', revision_id, ...(type === WEB ? [] : ['processes', type]))
  }

  protected replicasFolder(ref: RevisionRef, type = WEB): string {
    return join(this.#typeFolder(ref, type), 'copies')
  }

  /** The types that an earlier agent may have started. */
  protected startedTypes(ref: RevisionRef): string[] {
    return [WEB, ...listFolder(join(this.#typeFolder(ref, WEB), 'processes'))]
  }

  /** Called before anything of the deployment runs. */
  protected saveDeployment(spec: RevisionSpec, routed?: { revision_id: string; isWithoutWeb: boolean }): void {
    this.#records.save(spec, routed)
  }

  /** For a job, which may have waited: what it knows of hosts may be old. */
  protected saveNewDeployment(spec: RevisionSpec): void {
    if (!this.#records.read(spec.deployment_id)) this.#records.save(spec)
  }

  #ensurePools({ deployment_id, revision_id }: RevisionRef): RevisionPools {
    const pools = this.#pools.get(deployment_id) ?? new Map<string, RevisionPools>()
    this.#pools.set(deployment_id, pools)
    const ref = { deployment_id, revision_id }
    const revision = pools.get(revision_id) ?? new RevisionPools(type => this.#makePool(ref, type))
    pools.set(revision_id, revision)
    return revision
  }

  #makePool(ref: RevisionRef, type: string): ReplicaPool {
    const changed = () => {
      void this.#applyRoutes().catch(() => {})
      this.events.changed(ref.deployment_id)
    }
    const log = (message: string, level: LogLevel, shownLength?: number) =>
      this.events.log({ ...ref, process: type }, message, level, shownLength)
    const settledLength = (text: string) => this.events.settledLength(ref, text)
    const drained = async (targets: Target[]) => {
      await this.#applyRoutes()
      await this.#draining.untilAnswered(targets)
    }
    return new ReplicaPool(this.limits, { changed, log, settledLength, drained })
  }

  /** Starts the process that listens, if there is one, and makes the others ready to start with the first request. */
  protected startTypes(spec: RevisionSpec, artifact: Artifact, makers: TypeMakers): void {
    const { deployment_id, revision_id } = spec
    const isNew = !this.#pools.get(deployment_id)?.has(revision_id)
    if (isNew) this.#logIgnored(spec)
    const scaling = this.#moving.scalingOf(spec, artifact)
    const warn = ({ name }: RunningType, message: string) =>
      isNew && this.events.log({ ...spec, process: name }, message, 'WARNING')
    const { web, others, moving } = makeTemplates(spec, artifact, { makers, limits: this.limits, scaling, warn })
    this.#moving.moveOthers(spec, moving)
    for (const [type, template] of [...(web ? [[WEB, web] as const] : []), ...others]) {
      const { launch: _, check: __, memory_mb: ___, most: ____, sleeps: _____, ...policy } = template
      writeJson(this.#policyFile(spec, type), policy satisfies HealthPolicy)
    }
    const present = isNew ? this.#moving.findScaled(deployment_id)?.pool.copies.wanted : undefined
    const pools = this.#ensurePools(spec)
    pools.start(web, others)
    // A new revision gets the load of the one before, or its share of it.
    const saved = this.#records.read(deployment_id)
    const share = saved?.split?.revision_id === revision_id ? saved.split.share : 100
    if (present && scaling?.rule) pools.web?.scale(copiesOfShare(present, share))
  }

  /** One copy, because the router serves the files itself. */
  protected async startSite(spec: RevisionSpec, artifact: Artifact, folder: string): Promise<void> {
    this.saveDeployment(spec)
    if (spec.needs_database) await this.provide(spec)
    const revision = spec.revision_id
    const revisionFolder = this.path(spec.deployment_id, 'revisions', revision)
    const single = { ...spec, resources: { ...spec.resources, min_scale: 1 } }
    const launchWeb = () => SiteReplica.launch(revisionFolder, { folder, revision })
    this.startTypes(single, artifact, {
      launchWeb,
      launchOther: launchWeb,
      check: (_, replica) => replica.probe(null, 0),
    })
  }

  protected adoptSite({ deployment_id, revision_id }: RevisionRef): SiteReplica | undefined {
    return SiteReplica.adopt(this.path(deployment_id, 'revisions', revision_id))
  }

  /** Resolves once copies may start: not while a store is being replaced. */
  protected untilStartable(deployment_id: string): Promise<void> {
    return this.#holds.get(deployment_id) ?? Promise.resolve()
  }

  /** Ends the copies, does the work, and lets them start again. */
  protected async withoutCopies(
    deployment_id: string,
    reason: string,
    isLeft: (replica: Replica) => boolean,
    work: () => Promise<void>,
  ): Promise<void> {
    const hold = Promise.withResolvers<void>()
    this.#holds.set(deployment_id, hold.promise)
    try {
      const ended: Replica[] = []
      this.forEachPoolOf(deployment_id, pool => {
        ended.push(...pool.replicas())
        pool.killAllForReason(reason)
      })
      for (const replica of ended) while (isLeft(replica)) await delay(20)
      await work()
    } finally {
      this.#holds.delete(deployment_id)
      hold.resolve()
    }
  }

  /** A copy of the process that listens. */
  protected replicaOf({ deployment_id, revision_id }: RevisionRef, number: number | null | undefined) {
    return this.#pools.get(deployment_id)?.get(revision_id)?.web?.replicaOf(number)
  }

  protected forEachPool(work: (pool: ReplicaPool, ref: RevisionRef, type: string) => void): void {
    for (const [deployment_id, pools] of this.#pools)
      for (const [revision_id, revision] of pools)
        for (const [type, pool] of revision.entries) work(pool, { deployment_id, revision_id }, type)
  }

  protected forEachPoolOf(deployment_id: string, work: (pool: ReplicaPool, ref: RevisionRef) => void): void {
    this.forEachPool((pool, ref) => ref.deployment_id === deployment_id && work(pool, ref))
  }

  /** Coarse, because each change is a report: the first request after a pause, then one per hour. */
  async #recordUsage(): Promise<void> {
    const lastRequests = await this.#router.lastRequests()
    for (const [deployment_id, at] of Object.entries(lastRequests)) {
      const saved = this.#records.read(deployment_id)
      if (this.#closed || !saved || at - (saved.used ?? 0) < this.limits.usage_report_ms) continue
      this.#records.write(deployment_id, { ...saved, used: at })
      this.events.changed(deployment_id)
    }
  }

  async #applyRoutes(): Promise<void> {
    if (this.#closed) return
    let taken = await this.#router.apply(() =>
      this.#records.routes((...of) => this.#serversOf(...of), this.#router.port),
    )
    for (let attempt = 0; taken.length > 0 && attempt < PORT_ATTEMPTS; attempt++) {
      for (const id of listFolder(this.#home)) await this.#leaveTakenPort(id, taken)
      taken = await this.#router.apply(() => this.#records.routes((...of) => this.#serversOf(...of), this.#router.port))
    }
  }

  /** A program took the port while the router was away. */
  async #leaveTakenPort(deployment_id: string, taken: number[]): Promise<void> {
    const saved = this.#records.read(deployment_id)
    if (!saved?.local_port || !taken.includes(saved.local_port)) return
    const { routed, local_port } = await this.#records.leaveLocalPort(deployment_id, saved)
    const message =
      `Another program has taken port ${saved.local_port} of this machine while the router was away: the local ` +
      `address is http://127.0.0.1:${local_port} now.`
    if (routed) this.events.log({ deployment_id, revision_id: routed }, message, 'WARNING')
    this.events.changed(deployment_id)
  }
}

/** Nothing was written into the folder of what was built. */
export async function isIntact({ location, stamp }: Artifact): Promise<boolean> {
  return stamp !== undefined && stamp === (await stampFolder(location).catch(() => undefined))
}
