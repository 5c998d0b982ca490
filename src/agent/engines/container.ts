// The engine that runs applications as containers of a Docker-compatible engine, behind a local router.
import { createHash, randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { ListenerPolicy } from '../../protocol/listener-policy.ts'
import type { NewForward, NewTerminal } from '../../protocol/tunnels.schema.ts'
import {
  type Artifact,
  type BuildTask,
  type EngineEvents,
  type EngineObservation,
  type ForwardTarget,
  type OneOffRun,
  PermanentError,
  type RestorePoint,
  type RevisionRef,
  type RevisionSpec,
  type RunEnd,
  type SourceTree,
  type Terminal,
  TransientError,
  type WriteLog,
  waitUnlessAborted,
} from '../engine.ts'
import {
  DEPLOYMENT_LABEL,
  OWNER_LABEL,
  REPLICA_LABEL,
  REVISION_LABEL,
  ROLE_LABEL,
  TYPE_LABEL,
} from '../images/container-labels.ts'
import { DockerApi, DockerApiError } from '../images/docker-api.ts'
import type { BaseImages } from '../images/language-images.ts'
import { withBackupProblem } from './backup-problem.ts'
import { COPY_ROLE } from './container/disks.ts'
import { Images } from './container/images.ts'
import { type ImageMaker, makeImage, pinSidecarImages } from './container/make-image.ts'
import { Networks } from './container/networks.ts'
import {
  ContainerReplica,
  inRemovalOrder,
  type ListedContainer,
  type ReplicaHome,
  removeReplica,
} from './container/replica.ts'
import { DEFAULT_PORT, otherReplicaParts, replicaParts, runParts } from './container/replica-spec.ts'
import { runContainer } from './container/run.ts'
import { SecretFolder } from './container/secret-folder.ts'
import { storeAccessFor } from './container/store-containers.ts'
import { STORE_ROLE, type StoreKind, storeRequestsOf } from './container/store-specs.ts'
import { ContainerStores, type OwnedObject } from './container/stores.ts'
import { startContainerTerminal } from './container/terminal.ts'
import { findUnsupported } from './container/unsupported-features.ts'
import { imageCommand } from './image-command.ts'
import { connectHere, describeMissingCopy } from './local/connect.ts'
import { FreeSpace } from './local/free-space.ts'
import { largestDisk } from './local/largest-disk.ts'
import { isIntact, PooledEngine, type PooledOptions } from './local/pooled-engine.ts'
import type { Health, Replica } from './local/replica.ts'
import { makeTokenFolder, type TokenReader } from './local/token-file.ts'
import { RUN_ROLE, type RunningType, WEB } from './process-types.ts'

/** The roles of containers whose files beside volumes are limited. */
const LIMITED_ROLES = new Set<string | undefined>(['app', RUN_ROLE])
/** The roles of containers that are no part of a replica. */
const OTHER_ROLES = new Set<string | undefined>(['build', STORE_ROLE, RUN_ROLE, COPY_ROLE])
export type ContainerOptions = PooledOptions & {
  socket: string
  owner: string
  /** The images in which sources without a Dockerfile are built and run. */
  base_images: BaseImages
  /** Variables for install and build commands, such as those of a proxy. */
  commandEnv?: Record<string, string>
  /** A folder of secrets, as `<secret>/<key>`. */
  secrets: string | null
  stores: Record<StoreKind, string>
}

export class ContainerEngine extends PooledEngine {
  readonly name = 'container'
  readonly #api: DockerApi
  readonly #owner: string
  readonly #making: Pick<ImageMaker, 'api' | 'owner' | 'base_images' | 'commandEnv'>
  readonly #secrets: SecretFolder
  readonly #images: Images
  readonly #stores: ContainerStores
  readonly #liveReplicas = new Set<string>()
  /** The commands that run once, by id. */
  readonly #runs = new Map<string, Promise<RunEnd>>()
  /** Runs that were ended because they had written too much. */
  readonly #fullRuns = new Set<string>()
  readonly #freeSpace = new FreeSpace()
  /** Empty: not known. */
  #volumesFolder = ''
  readonly #buildingRevisions = new Set<string>()
  readonly #networks: Networks
  readonly #closing = new AbortController()
  #foundContainers: ListedContainer[] = []
  constructor({ socket, owner, base_images, commandEnv = {}, secrets, stores, ...options }: ContainerOptions) {
    super('container', options)
    this.tunnels = ['terminal', 'tty', 'forward', 'postgres', 'redis']
    this.#api = new DockerApi(socket)
    // Container names allow fewer characters than agent names.
    this.#owner = createHash('sha256').update(owner).digest('hex').slice(0, 12)
    this.#making = { api: this.#api, owner: this.#owner, base_images, commandEnv }
    this.#secrets = new SecretFolder(secrets)
    const hasNetwork = async (id: string) => (await this.#listOwned('networks', id)).length > 0
    this.#networks = new Networks(this.#api, this.#owner, hasNetwork)
    const host = {
      name: this.name,
      home: options.home,
      archive: options.archive,
      limits: this.limits,
      provisioner: this.provisioner,
      storeUse: this.storeUse,
      events: () => this.events,
      deployments: () => this.deployments(),
      path: (...names: [string, ...string[]]) => this.path(...names),
      forEachPoolOf: this.forEachPoolOf.bind(this),
      withoutCopies: this.withoutCopies.bind(this),
      api: this.#api,
      owner: this.#owner,
      listContainers: (label: string) => this.#listContainers(label),
      listVolumes: (id: string) => this.#listOwned('volumes', id),
    }
    this.#stores = new ContainerStores(host, stores)
    const registry: EngineEvents['registryCredential'] = (of, image) => this.events.registryCredential(of, image)
    this.#images = new Images(this.#api, this.#owner, this.#secrets, registry, join(options.home, 'images.json'))
  }

  override get policy(): ListenerPolicy {
    return { ...super.policy, max_disk_gi: largestDisk(this.limits.disk_gi, this.#volumesFolder) }
  }

  override refusalReason(spec: RevisionSpec): string | null {
    return super.refusalReason(spec) ?? findUnsupported(spec)
  }

  override async open(events: EngineEvents): Promise<void> {
    await this.#api.open()
    this.#foundContainers = await this.#listContainers()
    for (const found of this.#foundContainers) {
      const { Id, Labels } = found
      // The agent before may have ended while it copied files.
      if (found.State === 'paused') {
        await this.#api.requestIfExists('POST', `/containers/${Id}/unpause`)
        found.State = 'running'
      }
      if (Labels[ROLE_LABEL] === RUN_ROLE) this.#liveReplicas.add(Labels[REPLICA_LABEL]!)
      if (OTHER_ROLES.has(Labels[ROLE_LABEL])) continue
      const ref = { deployment_id: Labels[DEPLOYMENT_LABEL]!, revision_id: Labels[REVISION_LABEL]! }
      fs.mkdirSync(this.replicasFolder(ref), { recursive: true, mode: 0o700 })
    }
    // A deployment whose folder was lost is found by its networks and volumes.
    for (const kind of ['networks', 'volumes'] as const)
      for (const { Labels } of await this.#listOwned(kind))
        fs.mkdirSync(this.path(Labels[DEPLOYMENT_LABEL]!), { recursive: true, mode: 0o700 })
    await super.open(events)
    await this.#stores.open()
    await this.#removeOrphans()
    this.repeatEvery(this.limits.disk_ms, () => void this.#enforceDiskLimit().catch(() => {}))
    const { DockerRootDir } = await this.#api.get<{ DockerRootDir?: string }>('/info')
    const measureNow = () => this.#enforceDiskLimit().catch(() => {})
    this.#volumesFolder = DockerRootDir ?? ''
    if (DockerRootDir)
      this.repeatEvery(this.limits.space_ms, () => void this.#freeSpace.look(DockerRootDir, measureNow))
    this.repeatEvery(this.limits.probe_ms, () => void this.#stores.restartEnded().catch(() => {}))
    this.repeatEvery(this.limits.container_backup_ms, () => this.#stores.backUp())
    this.repeatEvery(this.limits.disk_ms, () => void this.#stores.enforceSizes())
    await this.#stores.startAll()
  }

  async openTerminal(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal> {
    return this.beside.terminal(ref.deployment_id, async () =>
      startContainerTerminal(this.#api, this.#copyOf(ref, request.copy).container!, id, request),
    )
  }

  async openForward(ref: RevisionRef, { store, port, copy }: NewForward): Promise<ForwardTarget> {
    if (store) return this.#stores.forwardTo(ref.deployment_id, store)
    const find = () => {
      const { inner, published } = this.#copyOf(ref, copy).ports
      if (published === undefined)
        throw new PermanentError('The port of this copy is not known yet. Retry in a moment.')
      if (port == null || port === inner) return published
      throw new PermanentError(`Of a container, only the port in PORT can be reached, which is ${inner}.`)
    }
    return this.beside.forward(ref.deployment_id, find, published => connectHere(published, '127.0.0.1'))
  }

  #copyOf(ref: RevisionRef, number: number | null | undefined): ContainerReplica {
    const copy = this.replicaOf(ref, number)
    if (copy instanceof ContainerReplica && copy.container) return copy
    throw new PermanentError(describeMissingCopy(copy, number))
  }

  async provide(spec: RevisionSpec): Promise<void> {
    this.#stores.request(spec)
  }

  protected async provideStores(deployment_id: string, signal: AbortSignal): Promise<void> {
    await this.#networks.ensure(deployment_id)
    await this.#stores.ensure(deployment_id, signal)
  }

  async prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    const images = await pinSidecarImages(this.#maker(spec), spec, task)
    const image = await this.#makeImage(spec, tree, task)
    const artifact: Artifact = {
      env: {},
      health_path: null,
      commit: null,
      ...(tree && { env: tree.env, health_path: tree.health_path, commit: tree.commit }),
      ...image,
    }
    return artifact.site ? artifact : this.#finishPreparation(spec, artifact, images, task)
  }

  async reuse(spec: RevisionSpec, artifact: Artifact, task: BuildTask): Promise<Artifact | null> {
    if (artifact.site) return (await isIntact(artifact)) ? artifact : null
    if (!(await this.#images.exists(artifact.location))) return null
    return this.#finishPreparation(spec, artifact, await pinSidecarImages(this.#maker(spec), spec, task), task)
  }

  async #finishPreparation(
    spec: RevisionSpec,
    artifact: Artifact,
    images: Record<string, string>,
    task: BuildTask,
  ): Promise<Artifact> {
    this.#images.savePinned(this.path(spec.deployment_id), spec.revision_id, { ...images, '': artifact.location })
    if (spec.parts.includes('redis')) {
      await this.provide(spec)
      await this.provisioner.waitUntilReady(spec.deployment_id, task.signal)
    }
    // Throws if a referenced secret is missing, instead of a crash at the start.
    replicaParts(spec, artifact, { ...this.#placement(spec, images), port: DEFAULT_PORT })
    return artifact
  }

  async start(spec: RevisionSpec, artifact: Artifact): Promise<void> {
    if (artifact.site) return this.startSite(spec, artifact, artifact.site.folder)
    this.saveDeployment(spec)
    await this.#stores.recordDisks(spec)
    makeTokenFolder(this.tokenFolder(spec.deployment_id), this.tokenReaderOf())
    await this.renewModelToken(spec.deployment_id)
    if (storeRequestsOf(spec).length > 0) await this.provide(spec)
    const images = this.#images.readPinned(this.path(spec.deployment_id), spec.revision_id)
    const launch = async (type: RunningType | null) => {
      await this.#untilDisksAreWhole(spec.deployment_id)
      const home = this.#replicaHome(spec, type?.name)
      fs.mkdirSync(home.folder, { recursive: true, mode: 0o700 })
      await this.#images.restore([artifact.location, ...Object.values(images)], spec)
      const port = (await this.#images.exposedPort(artifact.location).catch(() => undefined)) ?? DEFAULT_PORT
      const stores = storeAccessFor(spec, this.path(spec.deployment_id))
      const placement = { ...this.#placement(spec, images), stores, port }
      const parts = type ? otherReplicaParts(spec, artifact, placement, type) : replicaParts(spec, artifact, placement)
      // At each launch, because a cleanup of the engine removes unused networks.
      return ContainerReplica.launch(home, parts, () => this.#networks.ensure(spec.deployment_id))
    }
    // Throws if a referenced secret is missing, before anything is created.
    replicaParts(spec, artifact, { ...this.#placement(spec, images), port: DEFAULT_PORT })
    const check = ({ health_command }: RunningType, replica: Replica): Promise<Health> =>
      (replica as ContainerReplica).check(imageCommand(artifact, health_command!), this.limits.probe_timeout_ms)
    this.startTypes(spec, artifact, { launchWeb: () => launch(null), launchOther: launch, check })
  }

  async runOnce(
    spec: RevisionSpec,
    artifact: Artifact,
    run: OneOffRun,
    log: WriteLog,
    signal: AbortSignal,
  ): Promise<RunEnd> {
    if (artifact.site) throw new PermanentError('A static site runs no commands, because it has no container.')
    const running =
      this.#runs.get(run.id) ?? this.#runOnce(spec, artifact, run, log).finally(() => this.#runs.delete(run.id))
    this.#runs.set(run.id, running)
    return waitUnlessAborted(running, signal)
  }

  async #runOnce(spec: RevisionSpec, artifact: Artifact, run: OneOffRun, log: WriteLog): Promise<RunEnd> {
    const { deployment_id, revision_id } = spec
    this.#liveReplicas.add(run.id)
    const images = this.#images.readPinned(this.path(deployment_id), revision_id)
    const makeParts = async () => {
      await this.#untilDisksAreWhole(deployment_id)
      this.saveNewDeployment(spec)
      makeTokenFolder(this.tokenFolder(deployment_id), this.tokenReaderOf())
      await this.renewModelToken(deployment_id)
      await this.#images.restore([artifact.location], spec)
      await this.#networks.ensure(deployment_id)
      const stores = storeAccessFor(spec, this.path(deployment_id))
      const role = run.role !== undefined && { role: run.role }
      return runParts(spec, artifact, { ...this.#placement(spec, images), copy: run.id, stores, ...role }, run.command)
    }
    const folder = this.path(deployment_id, 'runs')
    const { signal } = this.#closing
    const end = await runContainer({ api: this.#api, folder, run, makeParts, log, signal }).catch(error => {
      throw error instanceof DockerApiError && error.status === 0 ? new TransientError(error.message) : error
    })
    if (!this.#fullRuns.delete(run.id)) return end
    return { exit_code: null, reason: `exceeded the disk limit of ${this.limits.disk_mb} MB and was ended` }
  }

  async forgetRun(deployment_id: string, id: string): Promise<void> {
    await removeReplica(this.#api, id)
    fs.rmSync(this.path(deployment_id, 'runs', `${id}.json`), { force: true })
    this.#liveReplicas.delete(id)
  }

  override async stop(ref: RevisionRef): Promise<void> {
    await super.stop(ref)
    await this.#pruneImages(ref.deployment_id)
  }

  override async remove(deployment_id: string): Promise<void> {
    await this.provisioner.forget(deployment_id)
    const running: RevisionRef[] = []
    this.forEachPoolOf(deployment_id, (_, ref) => running.push(ref))
    await Promise.all(running.map(ref => super.stop(ref)))
    await this.#networks.settle(deployment_id)
    for (const { Id } of await this.#listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`))
      await this.#api.removeContainer(Id)
    for (const { Name } of await this.#listOwned('volumes', deployment_id))
      await this.#api.requestIfExists('DELETE', `/volumes/${Name}`, { query: { force: true } })
    for (const { Name } of await this.#listOwned('networks', deployment_id))
      await this.#api.requestIfExists('DELETE', `/networks/${Name}`)
    await this.#pruneImages(deployment_id, 0)
    await this.#stores.removeBackups(deployment_id)
    await super.remove(deployment_id)
  }

  override async close(how: { stop: boolean }): Promise<void> {
    this.#closing.abort(new Error('The agent is shutting down.'))
    await super.close(how)
    if (!how.stop) return
    for (const { Id, State } of await this.#listContainers(`${ROLE_LABEL}=${RUN_ROLE}`))
      if (State === 'running') await this.#api.requestIfExists('POST', `/containers/${Id}/kill`)
    await this.#stores.stop()
  }

  listStores(deployment_id: string): Promise<string[]> {
    return this.#stores.list(deployment_id)
  }

  takeSnapshot(deployment_id: string, store: string, folder: string, signal: AbortSignal): Promise<void> {
    const take = () => this.#stores.takeSnapshot(deployment_id, store, folder, signal)
    return store.startsWith('disk:') ? this.whileStill(deployment_id, take) : take()
  }

  restoreSnapshot(spec: RevisionSpec, store: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    return this.#stores.restoreSnapshot(spec, store, from, signal)
  }

  removeStore(deployment_id: string, store: string): Promise<void> {
    return this.#stores.removeStore(deployment_id, store)
  }

  async #untilDisksAreWhole(deployment_id: string): Promise<void> {
    await this.untilStartable(deployment_id)
    this.#stores.requireWholeDisks(deployment_id)
  }

  override async observe(deployment_id: string): Promise<EngineObservation> {
    return withBackupProblem(await super.observe(deployment_id), this.#stores.backupProblemOf(deployment_id))
  }

  protected tokenReaderOf(): TokenReader {
    return 'container'
  }

  protected async adopt(ref: RevisionRef): Promise<Map<string, Replica[]>> {
    const site = this.adoptSite(ref)
    if (site) return new Map([[WEB, [site]]])
    const ofRevision = this.#foundContainers.filter(
      ({ Labels }) => Labels[REVISION_LABEL] === ref.revision_id && !OTHER_ROLES.has(Labels[ROLE_LABEL]),
    )
    const found = new Map<string, Replica[]>()
    for (const [id, containers] of Object.entries(Object.groupBy(ofRevision, ({ Labels }) => Labels[REPLICA_LABEL]!))) {
      const type = containers!.map(({ Labels }) => Labels[TYPE_LABEL]).find(Boolean) ?? WEB
      const replica = await ContainerReplica.adopt(this.#replicaHome(ref, type), id, containers!)
      if (replica) found.set(type, [...(found.get(type) ?? []), replica])
    }
    return found
  }

  #makeImage(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): ReturnType<typeof makeImage> {
    if (tree) this.#buildingRevisions.add(spec.revision_id)
    const made = makeImage(this.#maker(spec), spec, tree, task)
    return made.finally(() => this.#buildingRevisions.delete(spec.revision_id))
  }

  #maker({ deployment_id }: RevisionSpec): ImageMaker {
    return { ...this.#making, images: this.#images, folder: this.path(deployment_id) }
  }

  #placement({ deployment_id }: RevisionRef, images: Record<string, string>) {
    const masked = (values: Record<string, string>) => {
      this.events.hide(deployment_id, Object.values(values))
      return values
    }
    const secret: SecretFolder['value'] = (name, key) => masked({ [key]: this.#secrets.value(name, key) })[key]!
    const secrets: SecretFolder['all'] = name => masked(this.#secrets.all(name))
    const tokenFolder = this.tokenFolder(deployment_id)
    return { owner: this.#owner, copy: randomBytes(6).toString('hex'), images, secret, secrets, tokenFolder }
  }

  #replicaHome(ref: RevisionRef, type?: string): ReplicaHome {
    return { api: this.#api, liveReplicas: this.#liveReplicas, folder: this.replicasFolder(ref, type) }
  }

  async #pruneImages(deployment_id: string, keep?: number): Promise<void> {
    const others = (await this.deployments()).filter(other => other !== deployment_id).map(other => this.path(other))
    const running = new Set<string>()
    this.forEachPool((_, { revision_id }) => running.add(revision_id))
    await this.#images.prune(deployment_id, this.path(deployment_id), { others, running, keep })
  }

  /** Removes containers and volumes without a replica: created by a killed agent, or left by a failed removal. */
  async #removeOrphans(): Promise<void> {
    for (const { Id, Labels } of await this.#listContainers()) {
      if (Labels[ROLE_LABEL] === STORE_ROLE || (Labels[ROLE_LABEL] === COPY_ROLE && this.#stores.isCopying)) continue
      const isKnown =
        Labels[ROLE_LABEL] === 'build'
          ? this.#buildingRevisions.has(Labels[REVISION_LABEL]!)
          : this.#liveReplicas.has(Labels[REPLICA_LABEL]!)
      // A failed removal must not stop the others. It is retried later.
      if (!isKnown) await this.#api.removeContainer(Id).catch(() => {})
    }
    for (const { Name, Labels } of await this.#listOwned('volumes'))
      if (Labels[REPLICA_LABEL] && !this.#liveReplicas.has(Labels[REPLICA_LABEL]))
        await this.#api.requestIfExists('DELETE', `/volumes/${Name}`)
  }

  /** Kills replicas that wrote more than the disk limit outside of their volumes. */
  async #enforceDiskLimit(): Promise<void> {
    await this.#removeOrphans()
    const limit = this.limits.disk_mb
    const full = (await this.#listContainers(undefined, true)).filter(
      ({ SizeRw = 0, Labels }) => SizeRw > limit * 1024 * 1024 && LIMITED_ROLES.has(Labels[ROLE_LABEL]),
    )
    for (const { Id, Labels } of full) {
      if (Labels[ROLE_LABEL] !== RUN_ROLE) continue
      this.#fullRuns.add(Labels[REPLICA_LABEL]!)
      await this.#api.requestIfExists('POST', `/containers/${Id}/kill`).catch(() => {})
    }
    const fullReplicas = new Set(full.map(({ Labels }) => Labels[REPLICA_LABEL]))
    this.forEachPool(pool => {
      for (const replica of pool.replicas())
        if (replica instanceof ContainerReplica && fullReplicas.has(replica.id))
          pool.killForReason(replica, `it exceeded its disk limit of ${limit} MB outside of its volumes`, 'disk_full')
    })
  }

  async #listContainers(label?: string, size = false): Promise<ListedContainer[]> {
    const filters = { label: [`${OWNER_LABEL}=${this.#owner}`, ...(label ? [label] : [])] }
    return inRemovalOrder(await this.#api.get<ListedContainer[]>('/containers/json', { all: true, size, filters }))
  }

  async #listOwned(kind: 'networks' | 'volumes', deployment_id?: string): Promise<OwnedObject[]> {
    // One label: Podman lists a volume that has any of several.
    const filters = { label: [`${OWNER_LABEL}=${this.#owner}`] }
    type Named = OwnedObject[]
    const response = await this.#api.get<Named | { Volumes: Named | null }>(`/${kind}`, { filters })
    const all = 'Volumes' in response ? (response.Volumes ?? []) : (response as Named)
    return all.filter(({ Labels }) => deployment_id === undefined || Labels[DEPLOYMENT_LABEL] === deployment_id)
  }
}
