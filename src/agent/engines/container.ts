// The engine that runs applications as containers of a Docker-compatible engine, behind a local router.
import { createHash, randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { diskOfStore } from '../../protocol/snapshots.schema.ts'
import type { NewForward, NewTerminal } from '../../protocol/tunnels.schema.ts'
import { planSource } from '../builds/source-plan.ts'
import { FolderStore } from '../databases/archive-store.ts'
import { DatabaseBackups } from '../databases/backups.ts'
import { DatabaseHistory } from '../databases/history.ts'
import {
  type Artifact,
  type BuildTask,
  type EngineEvents,
  type ForwardTarget,
  type OneOffRun,
  PermanentError,
  type RestorePoint,
  type RevisionRef,
  type RevisionSpec,
  type RunEnd,
  SnapshotUnsupported,
  type SourceTree,
  type Terminal,
  TransientError,
  type WriteLog,
  waitUnlessAborted,
} from '../engine.ts'
import { buildDockerfile, readBaseImages } from '../images/build-image.ts'
import { buildInBaseImage, buildSite } from '../images/build-in-base-image.ts'
import {
  DEPLOYMENT_LABEL,
  OWNER_LABEL,
  PART_LABEL,
  REPLICA_LABEL,
  REVISION_LABEL,
  ROLE_LABEL,
  resourcePrefix,
  TYPE_LABEL,
} from '../images/container-labels.ts'
import { DockerApi, DockerApiError } from '../images/docker-api.ts'
import { type BaseImages, chooseBaseImage } from '../images/language-images.ts'
import { readJson, writeJson } from '../system/files.ts'
import { ContainerDatabases } from './container/database-host.ts'
import { archiveVolume, COPY_ROLE, RESERVED_CLAIMS, removeVolume, replaceVolume } from './container/disks.ts'
import { connectInside } from './container/exec.ts'
import { Images } from './container/images.ts'
import {
  ContainerReplica,
  inRemovalOrder,
  type ListedContainer,
  type ReplicaHome,
  removeReplica,
} from './container/replica.ts'
import { DEFAULT_PORT, otherReplicaParts, replicaParts, runParts, sidecarImagesOf } from './container/replica-spec.ts'
import { runContainer } from './container/run.ts'
import { SecretFolder } from './container/secret-folder.ts'
import {
  readDataFolder,
  readStoreRequests,
  readStoreSecrets,
  readStoreUri,
  removeStoreRequest,
  StoreContainers,
  saveDataFolders,
  saveStoreAccess,
  saveStoreRequests,
  storeAccessFor,
} from './container/store-containers.ts'
import { STORE_ROLE, type StoreKind, storeRequestsOf } from './container/store-specs.ts'
import { startContainerTerminal } from './container/terminal.ts'
import { findUnsupported } from './container/unsupported-features.ts'
import { imageCommand } from './image-command.ts'
import { connectHere, describeMissingCopy } from './local/connect.ts'
import { FreeSpace } from './local/free-space.ts'
import { isIntact, PooledEngine, type PooledOptions } from './local/pooled-engine.ts'
import type { Health, Replica } from './local/replica-pool.ts'
import { makeTokenFolder, type TokenReader } from './local/token-file.ts'
import { RUN_ROLE, type RunningType, WEB } from './process-types.ts'
import { loginOf } from './store-variables.ts'

/** The roles of containers whose files beside volumes are limited. */
const LIMITED_ROLES = new Set<string | undefined>(['app', RUN_ROLE])
/** The history of each database takes no more. The size of a database is not limited. */
const MAX_HISTORY_BYTES = 20 * 1024 ** 3

/** The roles of containers that are no part of a replica. */
const OTHER_ROLES = new Set<string | undefined>(['build', STORE_ROLE, RUN_ROLE, COPY_ROLE])
/** Requests wait so long at most while the files of their application are copied. */
const MAX_PAUSE_MS = 10_000

type OwnedObject = { Name: string; Labels: Record<string, string> }

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
  readonly #baseImages: BaseImages
  readonly #commandEnv: Record<string, string>
  readonly #secrets: SecretFolder
  readonly #images: Images
  readonly #stores: StoreContainers
  readonly #databases: ContainerDatabases
  readonly #backups: DatabaseBackups
  readonly #liveReplicas = new Set<string>()
  /** The commands that run once, by id. */
  readonly #runs = new Map<string, Promise<RunEnd>>()
  /** Runs that were ended because they had written too much. */
  readonly #fullRuns = new Set<string>()
  readonly #freeSpace = new FreeSpace()
  readonly #buildingRevisions = new Set<string>()
  readonly #pendingNetworks = new Map<string, Promise<void>>()
  readonly #closing = new AbortController()
  #foundContainers: ListedContainer[] = []
  /** Counts the containers that copy files now. */
  #copying = 0

  constructor({ socket, owner, base_images, commandEnv = {}, secrets, stores, ...options }: ContainerOptions) {
    super('container', options)
    this.tunnels = ['terminal', 'tty', 'forward', 'postgres', 'redis']
    this.#api = new DockerApi(socket)
    // Container names allow fewer characters than agent names.
    this.#owner = createHash('sha256').update(owner).digest('hex').slice(0, 12)
    this.#baseImages = base_images
    this.#commandEnv = commandEnv
    this.#secrets = new SecretFolder(secrets)
    this.#stores = new StoreContainers(this.#api, this.#owner, stores)
    this.#databases = new ContainerDatabases({
      api: this.#api,
      stores: this.#stores,
      folderOf: id => this.path(id),
      max_waiting: this.limits.waiting_wal,
    })
    const work = join(options.home, 'backups.work')
    this.#backups = new DatabaseBackups({
      host: this.#databases,
      history: new DatabaseHistory(new FolderStore(join(options.home, 'backups', this.name)), work),
      engine: this.name,
      work,
      max_waiting: this.limits.waiting_wal,
      max_bytes: () => MAX_HISTORY_BYTES,
      report: (id, message, isProblem) =>
        this.forEachPoolOf(id, (_, ref) => this.events.log(ref, message, isProblem ? 'ERROR' : 'INFO')),
    })
    const registry: EngineEvents['registryCredential'] = (of, image) => this.events.registryCredential(of, image)
    this.#images = new Images(this.#api, this.#owner, this.#secrets, registry, join(options.home, 'images.json'))
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
    for (const id of await this.deployments()) events.hide(id, readStoreSecrets(this.path(id)))
    await this.#removeOrphans()
    this.repeatEvery(this.limits.disk_ms, () => void this.#enforceDiskLimit().catch(() => {}))
    const { DockerRootDir } = await this.#api.get<{ DockerRootDir?: string }>('/info')
    const measureNow = () => this.#enforceDiskLimit().catch(() => {})
    if (DockerRootDir)
      this.repeatEvery(this.limits.space_ms, () => void this.#freeSpace.look(DockerRootDir, measureNow))
    this.repeatEvery(this.limits.probe_ms, () => void this.#restartStores().catch(() => {}))
    this.repeatEvery(this.limits.container_backup_ms, () => this.#backups.sweep(this.provisioner.ready))
    for (const id of await this.deployments())
      if (readStoreRequests(this.path(id)).length > 0) this.provisioner.start(id)
  }

  async openTerminal(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal> {
    return startContainerTerminal(this.#api, this.#copyOf(ref, request.copy).container!, id, request)
  }

  async openForward(ref: RevisionRef, { store, port, copy }: NewForward): Promise<ForwardTarget> {
    if (store) return this.#forwardToStore(ref.deployment_id, store)
    const { inner, published } = this.#copyOf(ref, copy).ports
    if (published === undefined) throw new PermanentError('The port of this copy is not known yet. Retry in a moment.')
    if (port != null && port !== inner)
      throw new PermanentError(`Of a container, only the port in PORT can be reached, which is ${inner}.`)
    return { connect: () => connectHere(published, '127.0.0.1') }
  }

  async #forwardToStore(deployment_id: string, store: NonNullable<NewForward['store']>): Promise<ForwardTarget> {
    const kind = store === 'postgres' ? 'database' : 'redis'
    const uri = readStoreUri(this.path(deployment_id), kind)
    const container = uri && (await this.#stores.findRunning(deployment_id, kind))
    if (!container) throw new PermanentError(`This deployment has no ${store} that is ready.`)
    return { store: loginOf(uri), connect: () => connectInside(this.#api, container, Number(new URL(uri).port)) }
  }

  #copyOf(ref: RevisionRef, number: number | null | undefined): ContainerReplica {
    const copy = this.replicaOf(ref, number)
    if (copy instanceof ContainerReplica && copy.container) return copy
    throw new PermanentError(describeMissingCopy(copy, number))
  }

  async provide(spec: RevisionSpec): Promise<void> {
    this.provisioner.start(spec.deployment_id, saveStoreRequests(this.path(spec.deployment_id), spec))
  }

  protected async provideStores(deployment_id: string, signal: AbortSignal): Promise<void> {
    await this.#ensureNetwork(deployment_id)
    const folder = this.path(deployment_id)
    const data = readDataFolder(folder) ?? (await this.#stores.findDataFolder(deployment_id))
    saveDataFolders(folder, { data })
    const access = await this.#stores.ensure(deployment_id, readStoreRequests(folder), data, signal)
    this.events.hide(deployment_id, Object.values(access.env))
    const isSame = saveStoreAccess(folder, access)
    await this.#databases.removeUnused(deployment_id).catch(() => {})
    if (isSame) return
    const reason = 'the address of its database or Redis has changed'
    this.forEachPoolOf(deployment_id, pool => pool.killAllForReason(reason))
  }

  async prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    const images = await this.#pinSidecarImages(spec, task)
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
    return this.#finishPreparation(spec, artifact, await this.#pinSidecarImages(spec, task), task)
  }

  /** The images of its sidecars and init containers: from the name to the digest. */
  async #pinSidecarImages(spec: RevisionSpec, task: BuildTask): Promise<Record<string, string>> {
    const folder = this.path(spec.deployment_id)
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const images: Record<string, string> = {}
    for (const { image, fresh } of sidecarImagesOf(spec.resources))
      images[image] ??= await this.#images.pin(image, { fresh, own: folder }, spec, task)
    return images
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
    makeTokenFolder(this.tokenFolder(spec.deployment_id), this.tokenReaderOf())
    await this.renewModelToken(spec.deployment_id)
    if (storeRequestsOf(spec).length > 0) await this.provide(spec)
    const images = this.#images.readPinned(this.path(spec.deployment_id), spec.revision_id)
    const launch = async (type: RunningType | null) => {
      await this.#requireWholeDisks(spec.deployment_id)
      const home = this.#replicaHome(spec, type?.name)
      fs.mkdirSync(home.folder, { recursive: true, mode: 0o700 })
      await this.#images.restore([artifact.location, ...Object.values(images)], spec)
      const port = (await this.#images.exposedPort(artifact.location).catch(() => undefined)) ?? DEFAULT_PORT
      const stores = storeAccessFor(spec, this.path(spec.deployment_id))
      const placement = { ...this.#placement(spec, images), stores, port }
      const parts = type ? otherReplicaParts(spec, artifact, placement, type) : replicaParts(spec, artifact, placement)
      // At each launch, because a cleanup of the engine removes unused networks.
      return ContainerReplica.launch(home, parts, () => this.#ensureNetwork(spec.deployment_id))
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
      await this.#requireWholeDisks(deployment_id)
      this.saveDeployment(spec)
      makeTokenFolder(this.tokenFolder(deployment_id), this.tokenReaderOf())
      await this.renewModelToken(deployment_id)
      await this.#images.restore([artifact.location], spec)
      await this.#ensureNetwork(deployment_id)
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
    await this.#pendingNetworks.get(deployment_id)?.catch(() => {})
    for (const { Id } of await this.#listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`))
      await this.#api.removeContainer(Id)
    for (const { Name } of await this.#listOwned('volumes', deployment_id))
      await this.#api.requestIfExists('DELETE', `/volumes/${Name}`, { query: { force: true } })
    for (const { Name } of await this.#listOwned('networks', deployment_id))
      await this.#api.requestIfExists('DELETE', `/networks/${Name}`)
    await this.#pruneImages(deployment_id, 0)
    await this.#backups.remove(deployment_id)
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

  // ---- stores

  async listStores(deployment_id: string): Promise<string[]> {
    const volumes = await this.#listOwned('volumes', deployment_id)
    return [
      ...this.#diskVolumes(volumes, deployment_id).map(name => `disk:${name}`),
      ...volumes.filter(({ Labels }) => Labels[ROLE_LABEL] === STORE_ROLE).map(({ Labels }) => Labels[PART_LABEL]!),
    ]
  }

  /** The volumes of a deployment that a claim names. */
  #diskVolumes(volumes: OwnedObject[], deployment_id: string): string[] {
    const prefix = `${resourcePrefix(this.#owner, deployment_id)}-`
    return volumes
      .filter(({ Name, Labels }) => Name.startsWith(prefix) && !Labels[REPLICA_LABEL] && !Labels[ROLE_LABEL])
      .map(({ Name }) => Name.slice(prefix.length))
      .filter(name => !RESERVED_CLAIMS.has(name))
  }

  #placeOfDisk(deployment_id: string, store: string) {
    const name = diskOfStore(store)
    if (name === null || RESERVED_CLAIMS.has(name))
      throw new SnapshotUnsupported(`The container engine takes no snapshots of a ${store}.`)
    const volume = `${resourcePrefix(this.#owner, deployment_id)}-${name}`
    return { api: this.#api, owner: this.#owner, deployment_id, volume }
  }

  async takeSnapshot(deployment_id: string, store: string, folder: string, signal: AbortSignal): Promise<void> {
    if (store === 'database') return this.#backups.takeSnapshot(deployment_id, folder, signal)
    const place = this.#placeOfDisk(deployment_id, store)
    if (!(await this.#api.getIfExists(`/volumes/${place.volume}`)))
      throw new PermanentError(`The deployment has no ${store} on this agent.`)
    const resume = await this.#pauseCopies(deployment_id)
    this.#copying++
    await archiveVolume(place, folder, signal).finally(() => {
      this.#copying--
      return resume()
    })
  }

  async restoreSnapshot(spec: RevisionSpec, store: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    const { deployment_id } = spec
    if (store === 'database') return this.#restoreDatabase(deployment_id, from, signal)
    const place = this.#placeOfDisk(deployment_id, store)
    if (!('folder' in from)) throw new SnapshotUnsupported('A disk has no history: restore one of its snapshots.')
    if ((await this.#listContainers(`${ROLE_LABEL}=${RUN_ROLE}`)).some(isRunningOf(deployment_id)))
      throw new PermanentError('A job of the deployment is running. Restore once it has ended.')
    signal.throwIfAborted()
    const isLeft = (replica: Replica) => replica.endReason === undefined
    await this.withoutCopies(deployment_id, 'its disk is being restored', isLeft, async () => {
      // Until it has ended well, the files are not whole: the job is repeated by the next agent.
      writeJson(this.#restoreMark(deployment_id), { store })
      this.#copying++
      await replaceVolume(place, from.folder).finally(() => this.#copying--)
      fs.rmSync(this.#restoreMark(deployment_id))
    })
  }

  async #restoreDatabase(deployment_id: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    await this.#backups.restore(deployment_id, from, signal)
    // Starts its container with the new folder.
    this.provisioner.start(deployment_id, true)
    await this.provisioner.waitUntilReady(deployment_id, signal)
    this.forEachPoolOf(deployment_id, pool => pool.killAllForReason('its database was restored'))
  }

  #restoreMark(deployment_id: string): string {
    return this.path(deployment_id, 'restoring.json')
  }

  async #requireWholeDisks(deployment_id: string): Promise<void> {
    await this.untilStartable(deployment_id)
    const { store } = readJson<{ store: string }>(this.#restoreMark(deployment_id)) ?? {}
    if (store) throw new Error(`the restore of ${store} was cut off. Restore a snapshot again`)
  }

  async removeStore(deployment_id: string, store: string): Promise<void> {
    const disk = diskOfStore(store)
    if (disk === null) {
      await this.#stores.removeStore(deployment_id, store as StoreKind)
      removeStoreRequest(this.path(deployment_id), store as StoreKind)
      if (store === 'database') await this.#backups.remove(deployment_id)
    } else if (!RESERVED_CLAIMS.has(disk))
      await removeVolume(this.#api, `${resourcePrefix(this.#owner, deployment_id)}-${disk}`)
  }

  /** For a moment, so that a copy of their files is of one moment. Not every engine can. */
  async #pauseCopies(deployment_id: string): Promise<() => Promise<void>> {
    const paused: string[] = []
    for (const { Id, State, Labels } of await this.#listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`)) {
      if (State !== 'running' || Labels[ROLE_LABEL] === STORE_ROLE) continue
      await this.#api.post(`/containers/${Id}/pause`).then(
        () => paused.push(Id),
        () => {},
      )
    }
    const resume = async () => {
      clearTimeout(timer)
      // One that has ended meanwhile must not leave the others paused.
      const unpause = (id: string) => this.#api.requestIfExists('POST', `/containers/${id}/unpause`)
      await Promise.allSettled(paused.splice(0).map(unpause))
    }
    const timer = setTimeout(() => void resume(), MAX_PAUSE_MS)
    return resume
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

  async #makeImage(
    spec: RevisionSpec,
    tree: SourceTree | null,
    task: BuildTask,
  ): Promise<Pick<Artifact, 'location' | 'start_command'> & Partial<Artifact>> {
    if (!tree) {
      if (!spec.image_uri)
        throw new PermanentError('The deployment has no image. Set source_revision_config.image_uri.')
      const own = this.path(spec.deployment_id)
      const location = await this.#images.pin(spec.image_uri, { fresh: true, own }, spec, task)
      return { location, start_command: null }
    }
    this.#buildingRevisions.add(spec.revision_id)
    try {
      const job = { api: this.#api, owner: this.#owner, spec, task }
      const plan = planSource(tree, true, task)
      if (plan.provider === 'dockerfile') {
        const own = this.path(spec.deployment_id)
        const folder = join(tree.folder, plan.root)
        for (const base of readBaseImages(folder))
          await this.#images.pullBaseImage(base, { fresh: false, own }, spec, task)
        return { location: await buildDockerfile(job, folder), start_command: tree.start_command }
      }
      if (plan.site) refuseCompanions(spec)
      const { image, warning } = chooseBaseImage(plan, this.#baseImages)
      if (warning) task.log(warning, 'WARNING')
      const pin = () => this.#images.pin(image, { fresh: false, own: null }, spec, task)
      const planned = { ...job, base: { name: image, pin }, plan, tree, commandEnv: this.#commandEnv }
      return await (plan.site ? buildSite(planned, plan.site) : buildInBaseImage(planned))
    } finally {
      this.#buildingRevisions.delete(spec.revision_id)
    }
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

  /** One call at a time, because an engine may allow two networks of one name. */
  #ensureNetwork(deployment_id: string): Promise<void> {
    const pending =
      this.#pendingNetworks.get(deployment_id) ??
      this.#makeNetwork(deployment_id).finally(() => this.#pendingNetworks.delete(deployment_id))
    this.#pendingNetworks.set(deployment_id, pending)
    return pending
  }

  async #makeNetwork(deployment_id: string): Promise<void> {
    if ((await this.#listOwned('networks', deployment_id)).length) return
    const Name = resourcePrefix(this.#owner, deployment_id)
    const Labels = { [OWNER_LABEL]: this.#owner, [DEPLOYMENT_LABEL]: deployment_id }
    await this.#api.post('/networks/create', { Name, Driver: 'bridge', CheckDuplicate: true, Labels })
  }

  /** For stores that the engine does not restart itself. */
  async #restartStores(): Promise<void> {
    if (this.provisioner.ready.length === 0) return
    const broken = await this.#stores.listBroken(id => this.path(id))
    // Read again: a deployment that is removed meanwhile would get another container.
    for (const id of this.provisioner.ready) if (broken.has(id)) this.provisioner.start(id)
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
      if (Labels[ROLE_LABEL] === STORE_ROLE || (Labels[ROLE_LABEL] === COPY_ROLE && this.#copying > 0)) continue
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

const isRunningOf =
  (deployment_id: string) =>
  ({ State, Labels }: ListedContainer): boolean =>
    State === 'running' && Labels[DEPLOYMENT_LABEL] === deployment_id

/** A site has no container that others could run beside. */
function refuseCompanions({ resources }: RevisionSpec): void {
  const named = (['sidecars', 'init_containers', 'volume_mounts'] as const).filter(name => resources[name]?.length)
  if (named.length > 0)
    throw new PermanentError(
      `A static site is served without a container, so \`${named.join('` and `')}\` cannot be used. ` +
        'Remove them, or set `start_command` in slipway.json.',
    )
}
