// The stores of deployments in containers: databases and Redis, and the volumes of disks, with their snapshots.
import * as fs from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { listDisks } from '../../../protocol/disks.ts'
import { diskOfStore } from '../../../protocol/snapshots.schema.ts'
import type { DatabaseBackups } from '../../databases/backups.ts'
import {
  type ForwardTarget,
  PermanentError,
  type RestorePoint,
  type RevisionSpec,
  SnapshotUnsupported,
} from '../../engine.ts'
import {
  DEPLOYMENT_LABEL,
  PART_LABEL,
  REPLICA_LABEL,
  ROLE_LABEL,
  resourcePrefix,
} from '../../images/container-labels.ts'
import type { DockerApi } from '../../images/docker-api.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { DiskRoom } from '../local/disk-room.ts'
import { DiskSizes } from '../local/disk-sizes.ts'
import { readRedisMemory } from '../local/redis-memory.ts'
import type { Replica } from '../local/replica.ts'
import {
  applyDiskChange,
  isDatabaseEmpty,
  killCopies,
  openBackups,
  refuseEmptyDatabase,
  restoreDatabase,
  type StoreHost,
  shareRoom,
  warnOfSpace,
  whilePaused,
} from '../local/stores.ts'
import { RUN_ROLE } from '../process-types.ts'
import { loginOf } from '../store-variables.ts'
import { ContainerDatabases } from './database-host.ts'
import { archiveVolume, RESERVED_CLAIMS, removeVolume, replaceVolume } from './disks.ts'
import { connectInside } from './exec.ts'
import type { ListedContainer } from './replica.ts'
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
} from './store-containers.ts'
import { STORE_ROLE, type StoreKind } from './store-specs.ts'

export type OwnedObject = { Name: string; Labels: Record<string, string> }
type ContainerHost = StoreHost & {
  api: DockerApi
  owner: string
  listContainers(label: string): Promise<ListedContainer[]>
  listVolumes(deployment_id: string): Promise<OwnedObject[]>
}

/** The history of each database takes no more. The size of a database is not limited. */
const MAX_HISTORY_BYTES = 20 * 1024 ** 3
const EMPTY_MS = 120_000
const EMPTY_PAUSE_MS = 500
const MIB = 1024 ** 2
/** Measuring takes at most one part in so many of the time. */
const PAUSES = 10

export class ContainerStores {
  readonly #host: ContainerHost
  readonly #containers: StoreContainers
  readonly #databases: ContainerDatabases
  readonly #backups: DatabaseBackups
  /** Counts the containers that copy files now. */
  #copying = 0
  readonly #room: DiskRoom
  #isMeasuring = false
  #pausedUntil = 0

  constructor(host: ContainerHost, images: Record<StoreKind, string>) {
    this.#host = host
    const { api, owner, limits } = host
    this.#containers = new StoreContainers(api, owner, images)
    this.#databases = new ContainerDatabases({
      api,
      stores: this.#containers,
      folderOf: id => host.path(id),
      max_waiting: limits.waiting_wal,
    })
    this.#room = new DiskRoom(limits.reserve_mb)
    this.#backups = openBackups(host, this.#databases, () => MAX_HISTORY_BYTES)
  }

  /** Its containers must not be removed as orphans. */
  get isCopying(): boolean {
    return this.#copying > 0
  }

  async open(): Promise<void> {
    for (const id of await this.#host.deployments()) this.#host.events().hide(id, readStoreSecrets(this.#host.path(id)))
  }

  /** Starts what an agent before had. */
  async startAll(): Promise<void> {
    for (const id of await this.#host.deployments())
      if (readStoreRequests(this.#host.path(id)).length > 0) this.#host.provisioner.start(id)
  }

  backUp(): Promise<void> {
    return this.#backups.sweep(this.#host.provisioner.ready)
  }

  /** For stores that the engine does not restart itself. */
  async restartEnded(): Promise<void> {
    const { provisioner, path } = this.#host
    if (provisioner.ready.length === 0) return
    const broken = await this.#containers.listBroken(id => path(id))
    // Read again: a deployment that is removed meanwhile would get another container.
    for (const id of provisioner.ready) if (broken.has(id)) provisioner.start(id)
  }

  /** Records what is wanted. The provisioner calls `ensure`. */
  request(spec: RevisionSpec): void {
    const { provisioner, path } = this.#host
    provisioner.start(spec.deployment_id, saveStoreRequests(path(spec.deployment_id), spec))
  }

  /** Its network must exist. */
  async ensure(deployment_id: string, signal: AbortSignal): Promise<void> {
    if (readStoreRequests(this.#host.path(deployment_id)).some(({ kind }) => kind === 'database'))
      await refuseEmptyDatabase(this.#host, this.#backups, deployment_id, await this.#hasData(deployment_id))
    await this.#ensure(deployment_id, signal)
    void this.#backups.sweepOne(deployment_id)
  }

  async #ensure(deployment_id: string, signal: AbortSignal): Promise<void> {
    const folder = this.#host.path(deployment_id)
    const data = readDataFolder(folder) ?? (await this.#containers.findDataFolder(deployment_id))
    saveDataFolders(folder, { data })
    const access = await this.#containers.ensure(deployment_id, readStoreRequests(folder), data, signal)
    this.#host.events().hide(deployment_id, Object.values(access.env))
    const isSame = saveStoreAccess(folder, access)
    await this.#databases.removeUnused(deployment_id).catch(() => {})
    if (!isSame) killCopies(this.#host, deployment_id, 'the address of its database or Redis has changed')
  }

  async #hasData(deployment_id: string): Promise<boolean> {
    const volume = `${resourcePrefix(this.#host.owner, deployment_id)}-database`
    return (await this.#host.api.getIfExists(`/volumes/${volume}`)) !== undefined
  }

  /** The container accepts connections a moment after its start. */
  async #makeEmpty(deployment_id: string, signal: AbortSignal): Promise<void> {
    for (const end = Date.now() + EMPTY_MS; ; await delay(EMPTY_PAUSE_MS, undefined, { signal }))
      try {
        return await this.#ensure(deployment_id, signal)
      } catch (error) {
        if (Date.now() > end) throw error
      }
  }

  async forwardTo(deployment_id: string, store: 'postgres' | 'redis'): Promise<ForwardTarget> {
    const kind = store === 'postgres' ? 'database' : 'redis'
    const uri = readStoreUri(this.#host.path(deployment_id), kind)
    const container = uri && (await this.#containers.findRunning(deployment_id, kind))
    if (!container) throw new PermanentError(`This deployment has no ${store} that is ready.`)
    return { store: loginOf(uri), connect: () => connectInside(this.#host.api, container, Number(new URL(uri).port)) }
  }

  // ---- snapshots

  async list(deployment_id: string): Promise<string[]> {
    const volumes = await this.#host.listVolumes(deployment_id)
    const isWhole = (store: string) => store !== 'database' || !isDatabaseEmpty(this.#host, deployment_id)
    return [
      ...this.#diskVolumes(volumes, deployment_id).map(name => `disk:${name}`),
      ...volumes
        .flatMap(({ Labels }) => (Labels[ROLE_LABEL] === STORE_ROLE ? [Labels[PART_LABEL]!] : []))
        .filter(isWhole),
    ]
  }

  /** The volumes of a deployment that a claim names. */
  #diskVolumes(volumes: OwnedObject[], deployment_id: string): string[] {
    const prefix = `${resourcePrefix(this.#host.owner, deployment_id)}-`
    return volumes
      .filter(({ Name, Labels }) => Name.startsWith(prefix) && !Labels[REPLICA_LABEL] && !Labels[ROLE_LABEL])
      .map(({ Name }) => Name.slice(prefix.length))
      .filter(name => !RESERVED_CLAIMS.has(name))
  }

  #placeOfDisk(deployment_id: string, store: string) {
    const name = diskOfStore(store)
    if (name === null || RESERVED_CLAIMS.has(name))
      throw new SnapshotUnsupported(`The container engine takes no snapshots of a ${store}.`)
    const { api, owner } = this.#host
    return { api, owner, deployment_id, volume: `${resourcePrefix(owner, deployment_id)}-${name}` }
  }

  async takeSnapshot(deployment_id: string, store: string, folder: string, signal: AbortSignal): Promise<void> {
    if (store === 'database') return this.#backups.takeSnapshot(deployment_id, folder, signal)
    const place = this.#placeOfDisk(deployment_id, store)
    if (!(await this.#host.api.getIfExists(`/volumes/${place.volume}`)))
      throw new PermanentError(`The deployment has no ${store} on this agent.`)
    await whilePaused(
      () => this.#pauseCopies(deployment_id),
      () => this.#whileCopying(() => archiveVolume(place, folder, signal)),
    )
  }

  async restoreSnapshot(spec: RevisionSpec, store: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    const { deployment_id } = spec
    if (store === 'database') {
      const hasData = await this.#hasData(deployment_id)
      const makeEmpty = () => this.#makeEmpty(deployment_id, signal)
      return restoreDatabase(this.#host, this.#backups, { deployment_id, hasData, makeEmpty }, from, signal)
    }
    const place = this.#placeOfDisk(deployment_id, store)
    if (!('folder' in from)) throw new SnapshotUnsupported('A disk has no history: restore one of its snapshots.')
    if ((await this.#host.listContainers(`${ROLE_LABEL}=${RUN_ROLE}`)).some(isRunningOf(deployment_id)))
      throw new PermanentError('A job of the deployment is running. Restore once it has ended.')
    signal.throwIfAborted()
    await this.#host.withoutCopies(deployment_id, 'its disk is being restored', isLeft, async () => {
      // Until it has ended well, the files are not whole: the job is repeated by the next agent.
      writeJson(this.#restoreMark(deployment_id), { store })
      await this.#whileCopying(() => replaceVolume(place, from.folder))
      fs.rmSync(this.#restoreMark(deployment_id))
    })
  }

  async #whileCopying(work: () => Promise<void>): Promise<void> {
    this.#copying++
    await work().finally(() => this.#copying--)
  }

  #restoreMark(deployment_id: string): string {
    return this.#host.path(deployment_id, 'restoring.json')
  }

  requireWholeDisks(deployment_id: string): void {
    const { store } = readJson<{ store: string }>(this.#restoreMark(deployment_id)) ?? {}
    if (store) throw new Error(`the restore of ${store} was cut off. Restore a snapshot again`)
  }

  async removeStore(deployment_id: string, store: string): Promise<void> {
    const disk = diskOfStore(store)
    const { api, owner, path } = this.#host
    if (disk === null) {
      await this.#containers.removeStore(deployment_id, store as StoreKind)
      removeStoreRequest(path(deployment_id), store as StoreKind)
      if (store === 'database') await this.#backups.remove(deployment_id)
    } else if (!RESERVED_CLAIMS.has(disk)) {
      await removeVolume(api, `${resourcePrefix(owner, deployment_id)}-${disk}`)
      this.#sizesOf(deployment_id).forget(disk)
    }
  }

  // ---- sizes

  #sizesOf(deployment_id: string): DiskSizes {
    return new DiskSizes(this.#host.path(deployment_id))
  }

  async recordDisks(spec: RevisionSpec): Promise<void> {
    this.#sizesOf(spec.deployment_id).record(listDisks(spec.resources))
    await warnOfSpace(this.#host, spec, await this.#volumesFolder())
  }

  async #volumesFolder(): Promise<string> {
    return (await this.#host.api.get<{ DockerRootDir?: string }>('/info')).DockerRootDir ?? ''
  }

  requireDiskSpace(deployment_id: string): void {
    const obstacle = this.#sizesOf(deployment_id).obstacle()
    if (obstacle) throw new Error(obstacle)
  }

  /** One at a time, and at most a tenth of the time: the engine reads the folders of all volumes. */
  async enforceSizes(): Promise<void> {
    if (this.#isMeasuring || Date.now() < this.#pausedUntil) return
    this.#isMeasuring = true
    const start = Date.now()
    await this.#measureStores().catch(() => {})
    await this.#enforceDiskSizes().catch(() => {})
    this.#isMeasuring = false
    this.#pausedUntil = Date.now() + PAUSES * (Date.now() - start)
  }

  async #enforceDiskSizes(): Promise<void> {
    const { api, owner, storeUse } = this.#host
    const disks = (await this.#host.deployments()).flatMap(id => {
      const sizes = this.#sizesOf(id)
      return sizes.list().map(name => ({ id, name, sizes, volume: `${resourcePrefix(owner, id)}-${name}` }))
    })
    if (disks.length === 0) return
    type Measured = { Volumes?: { Name: string; UsageData?: { Size: number } | null }[] | null }
    const { Volumes } = await api.get<Measured>('/system/df', { type: 'volume' })
    const bytesOf = new Map(Volumes?.map(({ Name, UsageData }) => [Name, UsageData?.Size ?? -1]))
    for (const { id, name, sizes, volume } of disks) {
      const bytes = bytesOf.get(volume) ?? -1
      if (bytes < 0) continue
      storeUse.note(id, `disk:${name}`, { bytes })
      this.#room.note({ deployment_id: id, name, sizes, used_mb: bytes / MIB })
      const change = sizes.judge(name, bytes / MIB)
      if (change) applyDiskChange(this.#host, id, change)
    }
    shareRoom(this.#host, this.#room, await this.#volumesFolder())
  }

  async #measureStores(): Promise<void> {
    const { api, path, provisioner, storeUse } = this.#host
    for (const id of provisioner.ready)
      for (const { kind } of readStoreRequests(path(id))) {
        const container = await this.#containers.findRunning(id, kind)
        const { password, port } = new URL(readStoreUri(path(id), kind) ?? 'none:')
        if (!container || !port) continue
        const use =
          kind === 'database'
            ? await this.#databases.measure(id).catch(() => undefined)
            : await readRedisMemory(() => connectInside(api, container, Number(port)), password)
        if (typeof use === 'number') storeUse.note(id, kind, { bytes: use })
        else if (use) storeUse.note(id, kind, use)
      }
  }

  /** Its containers and volumes are gone. */
  removeBackups(deployment_id: string): Promise<void> {
    return this.#backups.remove(deployment_id)
  }

  backupProblemOf(deployment_id: string): string | null {
    return this.#backups.problemOf(deployment_id)
  }

  stop(): Promise<void> {
    return this.#containers.stop()
  }

  /** Not every engine can. */
  async #pauseCopies(deployment_id: string): Promise<() => Promise<void>> {
    const { api, listContainers } = this.#host
    const paused: string[] = []
    for (const { Id, State, Labels } of await listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`)) {
      if (State !== 'running' || Labels[ROLE_LABEL] === STORE_ROLE) continue
      await api.post(`/containers/${Id}/pause`).then(
        () => paused.push(Id),
        () => {},
      )
    }
    return async () => {
      // One that has ended meanwhile must not leave the others paused.
      const unpause = (id: string) => api.requestIfExists('POST', `/containers/${id}/unpause`)
      await Promise.allSettled(paused.splice(0).map(unpause))
    }
  }
}

const isLeft = (replica: Replica): boolean => replica.endReason === undefined

const isRunningOf =
  (deployment_id: string) =>
  ({ State, Labels }: ListedContainer): boolean =>
    State === 'running' && Labels[DEPLOYMENT_LABEL] === deployment_id
