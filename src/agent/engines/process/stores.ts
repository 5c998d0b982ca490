// The stores of deployments among processes: databases, Redis and disks, with what is recorded of each.
import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { listDisks } from '../../../protocol/disks.ts'
import type { FeatureName } from '../../../protocol/engine-features.ts'
import { diskOfStore } from '../../../protocol/snapshots.schema.ts'
import type { DatabaseBackups } from '../../databases/backups.ts'
import {
  type DatabaseTotals,
  type ForwardTarget,
  PermanentError,
  type RestorePoint,
  type RevisionRef,
  type RevisionSpec,
  SnapshotUnsupported,
} from '../../engine.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { listProcesses, sendSignal } from '../../system/processes.ts'
import { makeEnterable, makePassable, type User } from '../../system/users.ts'
import { connectHere } from '../local/connect.ts'
import { DiskRoom } from '../local/disk-room.ts'
import { readRedisMemory } from '../local/redis-memory.ts'
import type { Replica } from '../local/replica.ts'
import {
  applyDiskChange,
  isDatabaseEmpty,
  killCopies,
  logToDeployment,
  openBackups,
  refuseEmptyDatabase,
  restoreDatabase,
  type StoreHost,
  shareRoom,
  warnOfSpace,
  whilePaused,
} from '../local/stores.ts'
import { loginOf } from '../store-variables.ts'
import { type Database, Databases } from './databases.ts'
import { DeploymentServers } from './deployment-servers.ts'
import { Disks, refuseDisks } from './disks.ts'
import { newRedis, type Redis, RedisServers, redisUri } from './redis-servers.ts'

type ProcessHost = StoreHost & {
  userOf(deployment_id: string): User | undefined
  /** The copies in its pools and its jobs. */
  copiesOf(deployment_id: string): Replica[]
  hasJobs(deployment_id: string): boolean
}

const MIB = 1024 ** 2
const GIB = 1024 ** 3
/** The history of a database may take so many times the storage of the database. */
const HISTORY_SHARE = 2
const MAX_PAUSED = 10_000
const PAUSE_ROUNDS = 10

export class ProcessStores {
  readonly #host: ProcessHost
  readonly #databases: Databases
  readonly #backups: DatabaseBackups
  #databaseUse = { count: 0, bytes: 0, connections: 0 }
  readonly #redis: RedisServers
  /** Running revisions that use the Redis of their deployment. */
  readonly #redisUsers = new Map<string, Set<string>>()
  readonly #room: DiskRoom
  #isMeasuring = false

  constructor(host: ProcessHost, { database_url, path }: { database_url: string | undefined; path: string }) {
    this.#host = host
    const servers = new DeploymentServers(host.home, host.limits.waiting_wal)
    this.#databases = new Databases(host.home, servers, database_url)
    this.#backups = openBackups(host, servers, id => HISTORY_SHARE * GIB * (this.#readDatabase(id)?.storage_gi ?? 1))
    this.#redis = new RedisServers(path)
    this.#room = new DiskRoom(host.limits.reserve_mb)
  }

  get missingFeatures(): FeatureName[] {
    return [
      ...(this.#databases.obstacle ? ['database' as const] : []),
      ...(this.#databases.areBackedUp ? [] : ['database_snapshots' as const]),
      ...(this.hasRedis ? [] : (['redis', 'redis_snapshots'] as const)),
    ]
  }

  get hasRedis(): boolean {
    return this.#redis.obstacle === null
  }

  refusalReason(spec: RevisionSpec): string | null {
    return (
      refuseDisks(spec) ??
      (spec.parts.includes('redis') ? this.#redis.obstacle : null) ??
      (spec.needs_database ? this.#databases.obstacle : null)
    )
  }

  /** Before anything of them is started or logged. */
  async open(): Promise<void> {
    for (const id of await this.#host.deployments()) {
      this.#hideSecrets(id)
      await this.disksOf(id).recover()
    }
  }

  /** Starts what an agent before had. */
  async startAll(): Promise<void> {
    for (const id of await this.#host.deployments())
      if (this.#readDatabase(id) || this.#readRedis(id)?.isWanted) this.#host.provisioner.start(id)
  }

  backUp(): Promise<void> {
    return this.#backups.sweep(this.#host.provisioner.ready)
  }

  /** Starts those again that have ended. */
  restartEnded(): void {
    for (const id of this.#host.provisioner.ready) {
      const database = this.#readDatabase(id)
      const isDatabaseDown = database && !this.#databases.isUp(id, database)
      if (isDatabaseDown || this.#lacksRedis(id)) this.#host.provisioner.start(id)
    }
  }

  #lacksRedis(deployment_id: string): boolean {
    return this.#readRedis(deployment_id)?.isWanted === true && !this.#redis.isUp(deployment_id)
  }

  /** Records what is wanted. The provisioner calls `ensure`. */
  request({ deployment_id, resources, parts, needs_database }: RevisionSpec): void {
    if (parts.includes('redis')) {
      const memory_mb = resources.redis_memory_mb
      const known = this.#readRedis(deployment_id) ?? newRedis(memory_mb)
      this.#saveRedis(deployment_id, { ...known, memory_mb, isWanted: true })
    }
    if (needs_database) {
      const limits = {
        connections: resources.db_max_connections,
        storage_gi: resources.db_storage_gi,
        memory_mb: resources.db_memory_mb,
      }
      const exists = this.#readDatabase(deployment_id) !== undefined
      this.#saveDatabase(deployment_id, exists ? limits : this.#databases.create(deployment_id, limits))
    }
    this.#host.provisioner.start(deployment_id, this.#lacksRedis(deployment_id))
  }

  async ensure(deployment_id: string): Promise<void> {
    await this.#ensureRedis(deployment_id)
    if (!this.#readDatabase(deployment_id)) return
    await refuseEmptyDatabase(this.#host, this.#backups, deployment_id, this.#hasData(deployment_id))
    const uri = await this.#databases.ensure(deployment_id, this.#readDatabase(deployment_id)!)
    void this.#backups.sweepOne(deployment_id)
    const { uri: previousUri } = this.#readDatabase(deployment_id)!
    if (previousUri === uri) return
    this.#saveDatabase(deployment_id, { uri })
    if (previousUri) killCopies(this.#host, deployment_id, 'the address of its database has changed')
  }

  /** False: the record is there, and the data are not made yet or were lost. */
  #hasData(deployment_id: string): boolean {
    return !this.#readDatabase(deployment_id)?.isOwn || this.#databases.hasData(deployment_id)
  }

  async #ensureRedis(deployment_id: string): Promise<void> {
    const redis = this.#readRedis(deployment_id)
    if (!redis?.isWanted) return
    const place = this.#placeOfRedis(deployment_id)
    if (place.user) {
      makePassable(dirname(place.folder))
      makeEnterable(place.folder, place.user)
    }
    const started = await this.#redis.ensure(place, redis)
    if (started.port === redis.port) return
    this.#saveRedis(deployment_id, { ...this.#readRedis(deployment_id)!, port: started.port })
    if (redis.port !== null) killCopies(this.#host, deployment_id, 'the address of its Redis has changed')
  }

  /** Notes a revision that starts to use its Redis. */
  useRedis({ deployment_id, revision_id }: RevisionRef): void {
    const users = this.#redisUsers.get(deployment_id) ?? new Set<string>()
    this.#redisUsers.set(deployment_id, users.add(revision_id))
  }

  /** Stops a Redis that no revision uses any more. Its data stay until the deployment is removed. */
  async releaseRedis({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const users = this.#redisUsers.get(deployment_id)
    if (!users?.delete(revision_id) || users.size > 0) return
    const redis = this.#readRedis(deployment_id)
    if (!redis) return
    this.#saveRedis(deployment_id, { ...redis, isWanted: false })
    await this.#redis.stop(this.#placeOfRedis(deployment_id))
  }

  /** Null: it is not ready, or the revision needs none. */
  addressesOf({ deployment_id, needs_database, parts }: RevisionSpec): Record<'database' | 'redis', string | null> {
    const redis = parts.includes('redis') ? this.#readRedis(deployment_id) : undefined
    return {
      database: needs_database ? (this.#readDatabase(deployment_id)?.uri ?? null) : null,
      redis: redis?.port == null ? null : redisUri(redis),
    }
  }

  forwardTo(deployment_id: string, store: 'postgres' | 'redis'): ForwardTarget {
    if (store === 'redis') return this.#forwardToRedis(deployment_id)
    const uri = this.#readDatabase(deployment_id)?.uri
    if (!uri) throw new PermanentError('This deployment has no database that is ready.')
    const { hostname, port } = new URL(uri)
    return { store: loginOf(uri), connect: () => connectHere(Number(port || 5432), hostname) }
  }

  #forwardToRedis(deployment_id: string): ForwardTarget {
    const redis = this.#readRedis(deployment_id)
    if (!redis?.port || !redis.isWanted) throw new PermanentError('This deployment has no Redis that is ready.')
    const { password, port } = redis
    // `redis-cli -u` takes an empty name for that of a user.
    return { store: { user: 'default', password, database: '0' }, connect: () => connectHere(port) }
  }

  // ---- snapshots

  list(deployment_id: string): string[] {
    return [
      ...this.disksOf(deployment_id)
        .listFilled()
        .map(name => `disk:${name}`),
      ...(this.#readDatabase(deployment_id)?.isOwn && this.#hasWholeData(deployment_id) ? ['database'] : []),
      ...(this.#redis.hasData(this.#placeOfRedis(deployment_id)) ? ['redis'] : []),
    ]
  }

  async takeSnapshot(deployment_id: string, store: string, folder: string, signal: AbortSignal): Promise<void> {
    if (store === 'database') return this.#backups.takeSnapshot(deployment_id, folder, signal)
    if (store === 'redis') return this.#redis.archive(this.#placeOfRedis(deployment_id), folder, signal)
    const name = requireDisk(store)
    await whilePaused(
      () => this.#pauseCopies(deployment_id),
      () => this.disksOf(deployment_id).archive(name, folder, signal),
    )
  }

  async restoreSnapshot(spec: RevisionSpec, store: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    const { deployment_id, resources } = spec
    if (store === 'database') {
      const hasData = this.#hasData(deployment_id)
      const makeEmpty = async () => void (await this.#databases.ensure(deployment_id, this.#requireDatabase(spec)))
      return restoreDatabase(this.#host, this.#backups, { deployment_id, hasData, makeEmpty }, from, signal)
    }
    if (!('folder' in from)) throw new SnapshotUnsupported(`A ${store} has no history: restore one of its snapshots.`)
    if (store === 'redis') return this.#restoreRedis(deployment_id, from.folder, signal)
    const name = requireDisk(store)
    const disks = this.disksOf(deployment_id)
    disks.ensure(listDisks(resources))
    const content = await disks.extract(name, from.folder, signal)
    this.#refuseWithJobs(deployment_id)
    const replace = () => disks.replace(name, content)
    await this.#host.withoutCopies(deployment_id, 'its disk is being restored', isLeft, replace)
  }

  async #restoreRedis(deployment_id: string, folder: string, signal: AbortSignal): Promise<void> {
    if (!this.#readRedis(deployment_id)) throw new PermanentError('The deployment has no Redis on this agent.')
    const replace = await this.#redis.extract(this.#placeOfRedis(deployment_id), folder, signal)
    this.#refuseWithJobs(deployment_id)
    const { provisioner } = this.#host
    await this.#host.withoutCopies(deployment_id, 'its Redis is being restored', isLeft, async () => {
      await provisioner.forget(deployment_id)
      await replace().finally(() => provisioner.start(deployment_id, true))
      await provisioner.waitUntilReady(deployment_id, signal)
    })
  }

  #refuseWithJobs(deployment_id: string): void {
    if (this.#host.hasJobs(deployment_id))
      throw new PermanentError('A job of the deployment is running. Restore once it has ended.')
  }

  async removeStore(deployment_id: string, store: string): Promise<void> {
    if (store.startsWith('disk:')) return this.disksOf(deployment_id).remove(requireDisk(store))
    if (store === 'redis') {
      await this.#redis.remove(this.#placeOfRedis(deployment_id))
      fs.rmSync(this.#host.path(deployment_id, 'redis.json'), { force: true })
    }
    if (store !== 'database' || !this.#readDatabase(deployment_id)) return
    await this.#removeDatabase(deployment_id)
    fs.rmSync(this.#host.path(deployment_id, 'database.json'), { force: true })
  }

  /** The folder of the deployment goes next. */
  async remove(deployment_id: string): Promise<void> {
    await this.#redis.stop(this.#placeOfRedis(deployment_id))
    await this.#removeDatabase(deployment_id)
  }

  async #removeDatabase(deployment_id: string): Promise<void> {
    const database = this.#readDatabase(deployment_id)
    if (database) await this.#databases.drop(deployment_id, database)
    await this.#backups.remove(deployment_id)
  }

  async stopRedis(): Promise<void> {
    for (const id of await this.#host.deployments())
      if (this.#readRedis(id)) await this.#redis.stop(this.#placeOfRedis(id))
  }

  /** The next agent takes them over as they are. */
  releaseDatabases(): Promise<void> {
    return this.#databases.release()
  }

  stopDatabases(): Promise<void> {
    return this.#databases.stop()
  }

  /** The next agent lets those that are left go on. */
  async #pauseCopies(deployment_id: string): Promise<() => Promise<void>> {
    const paused = new Set<number>()
    const list = () => this.#host.copiesOf(deployment_id).flatMap(replica => replica.pids?.(listProcesses) ?? [])
    // A process may have started another one before it stopped. One that does nothing else is not waited for.
    for (let round = 0; round < PAUSE_ROUNDS && paused.size < MAX_PAUSED; round++) {
      const running = list().filter(pid => !paused.has(pid))
      if (running.length === 0) break
      for (const pid of running) if (sendSignal(pid, 'SIGSTOP')) paused.add(pid)
    }
    return async () => {
      for (const pid of paused) sendSignal(pid, 'SIGCONT')
      paused.clear()
    }
  }

  // ---- sizes

  /** One at a time: measuring may take longer than the pause between two. */
  async enforceSizes(): Promise<void> {
    if (this.#isMeasuring) return
    this.#isMeasuring = true
    try {
      await this.#enforceStorageLimit()
      await this.#measureRedis().catch(() => {})
      await this.#enforceAllDiskSizes().catch(() => {})
      shareRoom(this.#host, this.#room, this.#host.home)
    } finally {
      this.#isMeasuring = false
    }
  }

  async #enforceAllDiskSizes(): Promise<void> {
    for (const id of await this.#host.deployments()) await this.enforceDiskSizes(id)
  }

  warnOfSpace(spec: RevisionSpec): Promise<void> {
    return warnOfSpace(this.#host, spec, this.#host.home)
  }

  async enforceDiskSizes(deployment_id: string): Promise<void> {
    const disks = this.disksOf(deployment_id)
    for (const name of disks.list()) {
      const used_mb = await disks.measure(name)
      this.#host.storeUse.note(deployment_id, `disk:${name}`, { bytes: used_mb * MIB })
      this.#room.note({ deployment_id, name, sizes: disks.sizes, used_mb })
      const change = disks.sizes.judge(name, used_mb)
      if (change) applyDiskChange(this.#host, deployment_id, change)
    }
  }

  async #measureRedis(): Promise<void> {
    for (const id of this.#host.provisioner.ready) {
      const { isWanted, port, password } = this.#readRedis(id) ?? {}
      if (!isWanted || !port || password === undefined) continue
      const bytes = await readRedisMemory(() => connectHere(port), password)
      if (bytes !== undefined) this.#host.storeUse.note(id, 'redis', { bytes })
    }
  }

  /** A database above its storage limit is read-only until it has space again. */
  async #enforceStorageLimit(): Promise<void> {
    const totals = { count: 0, bytes: 0, connections: 0 }
    for (const id of this.#host.provisioner.ready) {
      const database = this.#readDatabase(id)
      const use = database && (await this.#databases.measure(id, database).catch(() => undefined))
      if (!use) continue
      totals.count++
      totals.bytes += use.bytes
      totals.connections += use.connections
      this.#host.storeUse.note(id, 'database', use)
      await this.#enforceStorage(id, database, use.bytes / GIB).catch(() => {})
    }
    this.#databaseUse = totals
  }

  async #enforceStorage(id: string, database: Database, size: number): Promise<void> {
    const { full: wasFull, storage_gi } = database
    const full = size > storage_gi
    if (full === wasFull) return
    await this.#databases.setReadOnly(id, database, full)
    // The database may have been removed in the meantime.
    if (!this.#readDatabase(id)) return
    this.#saveDatabase(id, { full })
    const advice = 'run `SET default_transaction_read_only = off`, delete data, then run `VACUUM FULL`'
    const message = full
      ? `The database is read-only: it uses ${size.toFixed(2)} GiB of its db_storage_gi of ${storage_gi}. ` +
        `Raise db_storage_gi, or ${advice}.`
      : 'The database is writable again: it is below its db_storage_gi.'
    logToDeployment(this.#host, id, message, full ? 'ERROR' : 'INFO')
    if (full) this.#host.forEachPoolOf(id, pool => pool.recordIncident('disk_full', message))
    this.#host.events().changed(id)
  }

  backupProblemOf(deployment_id: string): string | null {
    return this.#backups.problemOf(deployment_id)
  }

  databaseTotals(): DatabaseTotals {
    return { ...this.#databaseUse, failing: this.#backups.failing }
  }

  // ---- records

  disksOf(deployment_id: string): Disks {
    return new Disks(this.#host.path(deployment_id), this.#host.userOf(deployment_id))
  }

  #hasWholeData(deployment_id: string): boolean {
    return this.#hasData(deployment_id) && !isDatabaseEmpty(this.#host, deployment_id)
  }

  #requireDatabase({ deployment_id }: RevisionSpec): Database {
    const database = this.#readDatabase(deployment_id)
    if (database) return database
    throw new PermanentError('The deployment has no database. Ask for one with a `db_*` member.')
  }

  #placeOfRedis(deployment_id: string) {
    return { deployment_id, folder: this.#host.path(deployment_id), user: this.#host.userOf(deployment_id) }
  }

  #readDatabase(deployment_id: string): Database | undefined {
    return readJson<Database>(this.#host.path(deployment_id, 'database.json'))
  }

  #readRedis(deployment_id: string): Redis | undefined {
    return readJson<Redis>(this.#host.path(deployment_id, 'redis.json'))
  }

  #saveRedis(deployment_id: string, redis: Redis): void {
    writeJson(this.#host.path(deployment_id, 'redis.json'), redis)
    this.#hideSecrets(deployment_id)
  }

  #saveDatabase(deployment_id: string, database: Partial<Database>): void {
    const known = this.#readDatabase(deployment_id)
    writeJson(this.#host.path(deployment_id, 'database.json'), { ...known, ...database })
    this.#hideSecrets(deployment_id)
  }

  #hideSecrets(deployment_id: string): void {
    const redis = this.#readRedis(deployment_id)
    const { password, uri } = this.#readDatabase(deployment_id) ?? {}
    const secrets = [password, uri, redis?.password].filter(value => value != null)
    this.#host.events().hide(deployment_id, secrets)
  }
}

const isLeft = (replica: Replica): boolean => (replica.pids?.(listProcesses) ?? []).length > 0

function requireDisk(store: string): string {
  const name = diskOfStore(store)
  if (name !== null) return name
  throw new SnapshotUnsupported(`The process engine of this agent takes no snapshots of a ${store}.`)
}
