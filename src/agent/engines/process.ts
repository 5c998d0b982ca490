// The engine that runs applications as processes of this machine behind the local router.
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { findFreePort } from '../../postgres/free-port.ts'
import { listDisks } from '../../protocol/disks.ts'
import type { FeatureName } from '../../protocol/engine-features.ts'
import { diskOfStore } from '../../protocol/snapshots.schema.ts'
import type { NewForward, NewTerminal } from '../../protocol/tunnels.schema.ts'
import { FolderStore } from '../databases/archive-store.ts'
import { DatabaseBackups } from '../databases/backups.ts'
import { DatabaseHistory } from '../databases/history.ts'
import {
  type Artifact,
  type BuildTask,
  type DatabaseTotals,
  type EngineEvents,
  type ForwardTarget,
  type LogLevel,
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
import { canLimitCpu } from '../system/cgroups.ts'
import { listFolder, measureMegabytes, readJson, removeRecursively, writeJson } from '../system/files.ts'
import { listProcesses, type Process, sendSignal, sumResidentMegabytes } from '../system/processes.ts'
import { searchPath } from '../system/search-path.ts'
import { endRevisionProcesses, RUN_VARIABLE } from '../system/tracked-process.ts'
import {
  chownRecursively,
  isOwnedBy,
  killUserProcesses,
  makeEnterable,
  makeOwned,
  makePassable,
  type User,
  type Users,
} from '../system/users.ts'
import { graphVariables } from './graph-variables.ts'
import { connectHere, describeMissingCopy } from './local/connect.ts'
import { FreeSpace } from './local/free-space.ts'
import { isIntact, PooledEngine, type PooledOptions } from './local/pooled-engine.ts'
import type { Health, OutputLine, Replica, ReplicaPool } from './local/replica-pool.ts'
import type { TokenReader } from './local/token-file.ts'
import { MODEL_TOKEN_FILE } from './model-variables.ts'
import { type Database, Databases } from './process/databases.ts'
import { DeploymentServers } from './process/deployment-servers.ts'
import { Disks, linksOf, refuseDisks } from './process/disks.ts'
import { environmentOf } from './process/environment.ts'
import { spreadNetworkVariables } from './process/network-variables.ts'
import { prepare } from './process/prepare.ts'
import { newRedis, type Redis, RedisServers, redisUri } from './process/redis-servers.ts'
import { ProcessReplica } from './process/replica.ts'
import { checkByCommand, forgetRun, type ProcessRun, startRun } from './process/run.ts'
import { ShortNames } from './process/short-names.ts'
import { loadPty, startTerminal } from './process/terminal.ts'
import { processTypesOf, RUN_ROLE, type RunningType, WEB } from './process-types.ts'
import { loginOf } from './store-variables.ts'

const IMAGE_SOURCES = new Set(['internal_container', 'external_container'])
/** Requests wait so long at most while the files of their application are copied. */
const MAX_PAUSE_MS = 10_000
const MAX_PAUSED = 10_000
const PAUSE_ROUNDS = 10
/** The source folder, with many files, is measured once per this many checks. */
const SOURCE_CHECK_EVERY = 10
const GIB = 1024 ** 3
/** The history of a database may take so many times the storage of the database. */
const HISTORY_SHARE = 2

export type ProcessOptions = PooledOptions & {
  /** A Postgres whose role may create databases and roles. Without it the agent runs its own. */
  database_url?: string | undefined
  /** Variables for install and build commands, such as those of a proxy. */
  commandEnv?: Record<string, string>
  /** The PATH of the agent, whose folders may have the tools of languages. */
  machinePath?: string | undefined
  /** The users that applications run as, by default the agent's own user. */
  users?: Users | undefined
  /** Enforces `cpu_limit`, where the machine can. */
  limits_cpu?: boolean | undefined
  /** The folder of Node's programs, by default that of the agent's Node. */
  bin?: string | undefined
}

type CopyPlace = {
  cwd: string
  env: Record<string, string>
  user: User | undefined
  cpuLimit: number | undefined
}

export class ProcessEngine extends PooledEngine {
  readonly name = 'process'
  readonly #sourceFolders = new Map<string, string>()
  /** Revisions whose home and tmp folders are emptied before the next launch. */
  readonly #overDiskLimit = new Set<string>()
  /** The commands that run once and have not ended, by the folder of each. */
  readonly #runs = new Map<string, ProcessRun & { source: string }>()
  readonly #startingRuns = new Map<string, Promise<ProcessRun>>()
  #measuring = false
  readonly #freeSpace = new FreeSpace()
  #measureCount = 0
  readonly #commandEnv: Record<string, string>
  readonly #databases: Databases
  readonly #backups: DatabaseBackups
  #databaseUse = { count: 0, bytes: 0, connections: 0 }
  readonly #redis: RedisServers
  /** Running revisions that use the Redis of their deployment. */
  readonly #redisUsers = new Map<string, Set<string>>()
  readonly #users: Users | undefined
  readonly #limitsCpu: boolean
  readonly #searchPath: string
  readonly #toolsFolder: string
  readonly #shortNames: ShortNames
  readonly #machinePath: string | undefined
  /** The places of copies, by revision, for commands beside them. */
  readonly #places = new Map<string, (role: string, port: number) => CopyPlace>()

  constructor({ database_url, commandEnv = {}, users, bin, machinePath, limits_cpu, ...options }: ProcessOptions) {
    super('process', options)
    this.#users = users
    this.#limitsCpu = limits_cpu === true && canLimitCpu()
    this.#searchPath = searchPath(bin)
    const apps = options.apps ?? options.home
    this.#toolsFolder = join(apps, 'tools')
    this.#shortNames = new ShortNames(apps)
    this.#commandEnv = spreadNetworkVariables(commandEnv)
    this.#machinePath = machinePath
    const servers = new DeploymentServers(options.home, this.limits.waiting_wal)
    this.#databases = new Databases(options.home, servers, database_url)
    const work = join(options.home, 'backups.work')
    this.#backups = new DatabaseBackups({
      host: servers,
      history: new DatabaseHistory(new FolderStore(join(options.home, 'backups', this.name)), work),
      engine: this.name,
      work,
      max_waiting: this.limits.waiting_wal,
      max_bytes: id => HISTORY_SHARE * GIB * (this.#readDatabase(id)?.storage_gi ?? 1),
      report: (id, message, isProblem) => this.#logToDeployment(id, message, isProblem ? 'ERROR' : 'INFO'),
    })
    this.#redis = new RedisServers(machinePath ?? this.#searchPath)
  }

  protected override missingFeatures(): FeatureName[] {
    return [
      ...(this.#databases.obstacle ? ['database' as const] : []),
      ...(this.#databases.areBackedUp ? [] : ['database_snapshots' as const]),
      ...(this.#redis.obstacle ? ['redis' as const] : []),
      ...(this.#limitsCpu ? [] : ['cpu_limits' as const]),
    ]
  }

  override refusalReason(spec: RevisionSpec): string | null {
    const { source, needs_database, parts } = spec
    if (IMAGE_SOURCES.has(source))
      return (
        `This agent cannot run container images, which the source \`${source}\` needs. ` +
        `Use a listener whose agent runs the container or kubernetes engine.`
      )
    const storeObstacle =
      (parts.includes('redis') ? this.#redis.obstacle : null) ?? (needs_database ? this.#databases.obstacle : null)
    return super.refusalReason(spec) ?? refuseDisks(spec) ?? storeObstacle
  }

  override async open(events: EngineEvents): Promise<void> {
    await super.open(events)
    const hasPty = (await loadPty()) !== undefined
    this.tunnels = [
      ...(['terminal', 'forward', 'postgres'] as const),
      ...(this.#redis.obstacle ? [] : (['redis'] as const)),
      ...(hasPty ? (['tty'] as const) : []),
    ]
    let processes: Process[] | undefined
    // The agent before may have ended while it copied files.
    this.forEachPool(pool => {
      for (const replica of pool.replicas())
        for (const pid of replica.pids?.(() => (processes ??= listProcesses())) ?? []) sendSignal(pid, 'SIGCONT')
    })
    for (const id of await this.deployments()) {
      this.#hideStoreSecrets(id)
      await this.#disksOf(id).recover()
    }
    this.repeatEvery(this.limits.memory_ms, () => this.#enforceMemoryLimit())
    this.repeatEvery(this.limits.disk_ms, () => void this.#enforceDiskLimit())
    const measureNow = () => this.#enforceDiskLimit(true)
    this.repeatEvery(this.limits.space_ms, () => void this.#freeSpace.look(this.path(''), measureNow))
    let measuring = false
    this.repeatEvery(this.limits.disk_ms, async () => {
      if (measuring) return
      measuring = true
      await this.#enforceStorageLimit()
      await this.#enforceDiskSizes().catch(() => {})
      measuring = false
    })
    this.repeatEvery(this.limits.backup_ms, () => this.#backups.sweep(this.provisioner.ready))
    this.repeatEvery(this.limits.probe_ms, () => {
      for (const id of this.provisioner.ready) {
        const database = this.#readDatabase(id)
        const isDatabaseDown = database && !this.#databases.isUp(id, database)
        if (isDatabaseDown || (this.#readRedis(id)?.isWanted && !this.#redis.isUp(id))) this.provisioner.start(id)
      }
    })
    for (const id of await this.deployments())
      if (this.#readDatabase(id) || this.#readRedis(id)?.isWanted) this.provisioner.start(id)
  }

  async provide({ deployment_id, resources, parts, needs_database }: RevisionSpec): Promise<void> {
    if (parts.includes('redis')) {
      const memory_mb = resources.redis_memory_mb
      this.#saveRedis(deployment_id, {
        ...(this.#readRedis(deployment_id) ?? newRedis(memory_mb)),
        memory_mb,
        isWanted: true,
      })
    }
    if (needs_database) this.#requestDatabase(deployment_id, resources)
    const needsRedis = this.#readRedis(deployment_id)?.isWanted === true && !this.#redis.isUp(deployment_id)
    this.provisioner.start(deployment_id, needsRedis)
  }

  #requestDatabase(deployment_id: string, resources: RevisionSpec['resources']): void {
    const limits = {
      connections: resources.db_max_connections,
      storage_gi: resources.db_storage_gi,
      memory_mb: resources.db_memory_mb,
    }
    const exists = this.#readDatabase(deployment_id) !== undefined
    this.#saveDatabase(deployment_id, exists ? limits : this.#databases.create(deployment_id, limits))
  }

  protected async provideStores(deployment_id: string): Promise<void> {
    await this.#provideRedis(deployment_id)
    if (!this.#readDatabase(deployment_id)) return
    const uri = await this.#databases.ensure(deployment_id, this.#readDatabase(deployment_id)!)
    const { uri: previousUri } = this.#readDatabase(deployment_id)!
    if (previousUri === uri) return
    this.#saveDatabase(deployment_id, { uri })
    if (previousUri)
      this.forEachPoolOf(deployment_id, pool => pool.killAllForReason('the address of its database has changed'))
  }

  async #provideRedis(deployment_id: string): Promise<void> {
    const redis = this.#readRedis(deployment_id)
    if (!redis?.isWanted) return
    const place = { deployment_id, folder: this.path(deployment_id), user: this.#users?.of(deployment_id) }
    if (place.user) {
      makePassable(dirname(place.folder))
      makeEnterable(place.folder, place.user)
    }
    const started = await this.#redis.ensure(place, redis)
    if (started.port === redis.port) return
    this.#saveRedis(deployment_id, { ...this.#readRedis(deployment_id)!, port: started.port })
    if (redis.port !== null)
      this.forEachPoolOf(deployment_id, pool => pool.killAllForReason('the address of its Redis has changed'))
  }

  /** Stops a Redis that no revision uses any more. Its data stay until the deployment is removed. */
  async #stopUnusedRedis({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const users = this.#redisUsers.get(deployment_id)
    if (!users?.delete(revision_id) || users.size > 0) return
    const redis = this.#readRedis(deployment_id)
    if (!redis) return
    this.#saveRedis(deployment_id, { ...redis, isWanted: false })
    await this.#redis.stop({ deployment_id, folder: this.path(deployment_id) })
  }

  override async remove(deployment_id: string): Promise<void> {
    await this.provisioner.forget(deployment_id)
    const runs = this.path(deployment_id, 'runs')
    for (const id of listFolder(runs)) await this.forgetRun(deployment_id, id)
    await this.#redis.stop({ deployment_id, folder: this.path(deployment_id) })
    const database = this.#readDatabase(deployment_id)
    if (database) await this.#databases.drop(deployment_id, database)
    await this.#backups.remove(deployment_id)
    await super.remove(deployment_id)
  }

  override async close(how: { stop: boolean }): Promise<void> {
    await super.close(how)
    if (!how.stop) for (const run of this.#runs.values()) run.release()
    if (!how.stop) return
    for (const run of this.#runs.values()) run.stop('was ended, because its agent was stopped')
    await Promise.allSettled([...this.#runs.values()].map(run => run.end))
    for (const deployment_id of await this.deployments())
      if (this.#readRedis(deployment_id)) await this.#redis.stop({ deployment_id, folder: this.path(deployment_id) })
    if (this.#users?.isPerDeployment) for (const id of await this.deployments()) killUserProcesses(this.#users.of(id))
    await this.#databases.stop()
  }

  async prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    if (spec.parts.includes('redis')) {
      // Before the build, which may take longer.
      await this.provide(spec)
      await this.provisioner.waitUntilReady(spec.deployment_id, task.signal)
    }
    const user = this.#users?.of(spec.deployment_id)
    const disks = this.#disksOf(spec.deployment_id)
    const links = linksOf(spec)
    disks.ensure(listDisks(spec.resources))
    const artifact = await prepare(spec, tree!, task, {
      finish: folder => disks.link(folder, links, task.log),
      disk_mb: this.limits.disk_mb,
      commandEnv: this.#commandEnv,
      user,
      path: this.#searchPath,
      toolsFolder: this.#toolsFolder,
      machinePath: this.#machinePath,
      shortNames: this.#shortNames,
    })
    if (!artifact.site) return { ...artifact, disks: links }
    if (Object.keys(links).length > 0)
      throw new PermanentError('A static site uses no disk, because it has no process. Remove its volume_mounts.')
    return artifact
  }

  /** Null if the application has written into its folder. */
  async reuse(spec: RevisionSpec, artifact: Artifact): Promise<Artifact | null> {
    const hasLinks = isDeepStrictEqual(linksOf(spec), artifact.disks ?? {})
    return hasLinks && (await isIntact(artifact)) ? artifact : null
  }

  async start(spec: RevisionSpec, artifact: Artifact): Promise<void> {
    if (artifact.site) return this.startSite(spec, artifact, artifact.site.folder)
    const folder = this.path(spec.deployment_id, 'revisions', spec.revision_id)
    const user = this.#users?.of(spec.deployment_id)
    const writableFolders = ['home', 'tmp'].map(name => join(folder, name))
    const createFolders = () => {
      for (const path of writableFolders) makeOwned(path, user)
    }
    if (user) await this.#grantAccess(user, spec, artifact.location)
    createFolders()
    const disks = this.#disksOf(spec.deployment_id)
    disks.ensure(listDisks(spec.resources))
    await this.#enforceDiskSizesOf(spec.deployment_id)
    this.#sourceFolders.set(spec.revision_id, artifact.location)
    this.saveDeployment(spec)
    await this.renewModelToken(spec.deployment_id)
    const hasRedis = spec.parts.includes('redis')
    if (spec.needs_database || hasRedis) await this.provide(spec)
    if (hasRedis) this.#redisUsersOf(spec.deployment_id).add(spec.revision_id)
    const types = new Map(processTypesOf(spec, artifact).map(type => [type.name, type]))
    const placeOf = (role: string, port: number): CopyPlace => ({
      cwd: join(artifact.location, artifact.root ?? ''),
      env: this.#environmentOf(spec, artifact, { folder, port, role }),
      user,
      cpuLimit: this.#limitsCpu ? (types.get(role)?.cpu[1] ?? spec.resources.cpu_limit) : undefined,
    })
    const launch = async (type: RunningType | null) => {
      // Folders over the limit would end each new replica, too.
      if (this.#overDiskLimit.delete(spec.revision_id)) {
        await Promise.all(writableFolders.map(removeRecursively))
        createFolders()
      }
      await this.untilStartable(spec.deployment_id)
      const obstacle = disks.obstacle()
      if (obstacle) throw new Error(obstacle)
      const port = await findFreePort()
      const place = placeOf(type?.name ?? WEB, port)
      const command = type ? type.command : artifact.start_command
      return ProcessReplica.launch(this.replicasFolder(spec, type?.name), { command: command!, port, ...place })
    }
    const check = async ({ name, health_command }: RunningType, replica: Replica): Promise<Health> => {
      const run = { command: health_command!, ...placeOf(name, (replica as ProcessReplica).port) }
      return checkByCommand(join(this.replicasFolder(spec, name), '..', 'check'), run, this.limits.probe_timeout_ms)
    }
    this.#places.set(spec.revision_id, placeOf)
    this.startTypes(spec, artifact, { launchWeb: () => launch(null), launchOther: launch, check })
  }

  async runOnce(
    spec: RevisionSpec,
    artifact: Artifact,
    run: OneOffRun,
    log: WriteLog,
    signal: AbortSignal,
  ): Promise<RunEnd> {
    if (artifact.site) throw new PermanentError('A static site runs no commands, because it has no process.')
    const folder = this.path(spec.deployment_id, 'runs', run.id)
    const starting = this.#startingRuns.get(folder) ?? this.#startRun(spec, artifact, run, log)
    this.#startingRuns.set(folder, starting)
    const { end } = await starting.finally(() => this.#startingRuns.delete(folder))
    return waitUnlessAborted(end, signal)
  }

  async forgetRun(deployment_id: string, id: string): Promise<void> {
    const folder = this.path(deployment_id, 'runs', id)
    await forgetRun(folder, this.#runs.get(folder))
  }

  /** Its home and temporary files are its own: it may outlive the replicas of its revision. */
  async #startRun(spec: RevisionSpec, artifact: Artifact, run: OneOffRun, log: WriteLog): Promise<ProcessRun> {
    const running = this.#runs.get(this.path(spec.deployment_id, 'runs', run.id))
    if (running) return running
    const { deployment_id, needs_database, parts, resources } = spec
    const isMissingRedis = parts.includes('redis') && this.#readRedis(deployment_id)?.port == null
    if (isMissingRedis) await this.provide(spec)
    if (isMissingRedis || (needs_database && !this.#readDatabase(deployment_id)?.uri))
      throw new TransientError('The database or the Redis of the deployment is not ready yet.')
    const user = this.#users?.of(deployment_id)
    const folder = this.path(deployment_id, 'runs', run.id)
    if (user) await this.#grantAccess(user, spec, artifact.location)
    for (const path of [dirname(folder), folder]) makeEnterable(path, user)
    for (const name of ['home', 'tmp']) makeOwned(join(folder, name), user)
    await this.untilStartable(deployment_id)
    this.#disksOf(deployment_id).ensure(listDisks(resources))
    this.saveDeployment(spec)
    await this.renewModelToken(deployment_id)
    const variables = this.#environmentOf(spec, artifact, { folder, port: null, role: run.role ?? RUN_ROLE })
    const env = { ...variables, [RUN_VARIABLE]: run.id }
    const cwd = join(artifact.location, artifact.root ?? '')
    const cpuLimit = this.#limitsCpu ? resources.cpu_limit : undefined
    const started = startRun({
      folder,
      run,
      log,
      memory_mb: resources.memory_limit_mb,
      stop_ms: this.limits.stop_ms,
      launch: () => ProcessReplica.launchRun(folder, { command: run.command, cwd, env, user, cpuLimit }),
    })
    this.#runs.set(folder, { ...started, source: artifact.location })
    const ended = () => this.#runs.delete(folder)
    started.end.then(ended, ended)
    return started
  }

  #environmentOf(
    spec: RevisionSpec,
    artifact: Artifact,
    place: { folder: string; port: number | null; role: string },
  ): Record<string, string> {
    const database = this.#readDatabase(spec.deployment_id)?.uri ?? null
    const redis = spec.parts.includes('redis') ? this.#readRedis(spec.deployment_id) : undefined
    return environmentOf(
      spec,
      { ...graphVariables(spec, artifact), ...artifact.env },
      {
        ...place,
        folder: this.#shortNames.of(place.folder),
        path: [...(artifact.programs ?? []), this.#searchPath].join(':'),
        tokenFile: join(this.tokenFolder(spec.deployment_id), MODEL_TOKEN_FILE),
        disks: this.#disksOf(spec.deployment_id).variables(listDisks(spec.resources)),
        database: spec.needs_database ? database : null,
        redis: redis?.port == null ? null : redisUri(redis),
      },
    )
  }

  override async stop(ref: RevisionRef): Promise<void> {
    await super.stop(ref)
    await endRevisionProcesses(ref.revision_id)
    await this.#stopUnusedRedis(ref)
    this.#sourceFolders.delete(ref.revision_id)
    this.#places.delete(ref.revision_id)
    this.#overDiskLimit.delete(ref.revision_id)
  }

  async openTerminal(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal> {
    const copy = this.#copyOf(ref, request.copy)
    const place = this.#places.get(ref.revision_id)?.(WEB, copy.port)
    if (!place) throw new PermanentError('The agent is taking this revision over. Retry in a moment.')
    return startTerminal(request, { ...place, id, cgroup: copy.cgroup })
  }

  async openForward(ref: RevisionRef, { store, port, copy: number }: NewForward): Promise<ForwardTarget> {
    if (store === 'postgres') return this.#forwardToDatabase(ref.deployment_id)
    if (store) return this.#forwardToRedis(ref.deployment_id)
    const copy = this.#copyOf(ref, number)
    const target = port ?? copy.port
    return {
      // Another program may take the port later.
      connect: () => (copy.listensOn(target) ? connectHere(target) : Promise.reject(notListening(copy, target))),
    }
  }

  #copyOf(ref: RevisionRef, number: number | null | undefined): ProcessReplica {
    const copy = this.replicaOf(ref, number)
    if (copy instanceof ProcessReplica) return copy
    throw new PermanentError(describeMissingCopy(copy, number))
  }

  #forwardToDatabase(deployment_id: string): ForwardTarget {
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

  protected tokenReaderOf(deployment_id: string): TokenReader {
    return { user: this.#users?.of(deployment_id) }
  }

  protected async adopt(ref: RevisionRef): Promise<Map<string, Replica[]>> {
    const site = this.adoptSite(ref)
    if (site) return new Map([[WEB, [site]]])
    const found = new Map<string, Replica[]>()
    for (const type of this.startedTypes(ref)) {
      const logLine = ({ text, level }: OutputLine) => this.events.log({ ...ref, process: type }, text, level)
      found.set(type, await ProcessReplica.adopt(this.replicasFolder(ref, type), this.limits.stop_ms, logLine))
    }
    return found
  }

  /** Also changes the owner of folders from before the operator configured users. */
  async #grantAccess(user: User, { deployment_id, revision_id }: RevisionRef, tree: string): Promise<void> {
    makePassable(dirname(this.path(deployment_id)))
    const parents = ['', 'revisions', join('revisions', revision_id)].map(name => this.path(deployment_id, name))
    for (const folder of parents) makeEnterable(folder, user)
    if (isOwnedBy(tree, user)) return
    const build = dirname(tree)
    makePassable(dirname(dirname(build)))
    for (const folder of [dirname(build), build]) makeEnterable(folder, user)
    await chownRecursively(tree, user)
  }

  // ---- stores

  async listStores(deployment_id: string): Promise<string[]> {
    const disks = this.#disksOf(deployment_id)
    return [
      ...disks.listFilled().map(name => `disk:${name}`),
      ...(this.#readDatabase(deployment_id)?.isOwn ? ['database'] : []),
      ...(this.#readRedis(deployment_id) ? ['redis'] : []),
    ]
  }

  async takeSnapshot(deployment_id: string, store: string, folder: string, signal: AbortSignal): Promise<void> {
    if (store === 'database') return this.#backups.takeSnapshot(deployment_id, folder, signal)
    const name = requireDisk(store)
    const resume = await this.#pauseCopies(deployment_id)
    await this.#disksOf(deployment_id).archive(name, folder, signal).finally(resume)
  }

  async restoreSnapshot(spec: RevisionSpec, store: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    if (store === 'database') return this.#restoreDatabase(spec.deployment_id, from, signal)
    const name = requireDisk(store)
    if (!('folder' in from)) throw new SnapshotUnsupported('A disk has no history: restore one of its snapshots.')
    const { deployment_id, resources } = spec
    const disks = this.#disksOf(deployment_id)
    disks.ensure(listDisks(resources))
    const content = await disks.extract(name, from.folder, signal)
    this.#refuseWhileRunning(deployment_id)
    const replace = () => disks.replace(name, content)
    await this.withoutCopies(deployment_id, 'its disk is being restored', isLeft, replace)
  }

  async removeStore(deployment_id: string, store: string): Promise<void> {
    if (store.startsWith('disk:')) return this.#disksOf(deployment_id).remove(requireDisk(store))
    if (store === 'redis') {
      await this.#redis.remove({ deployment_id, folder: this.path(deployment_id) })
      fs.rmSync(this.path(deployment_id, 'redis.json'), { force: true })
    }
    const database = store === 'database' ? this.#readDatabase(deployment_id) : undefined
    if (!database) return
    await this.#databases.drop(deployment_id, database)
    await this.#backups.remove(deployment_id)
    fs.rmSync(this.path(deployment_id, 'database.json'), { force: true })
  }

  /** For a moment, so that a copy of their files is of one moment. The next agent lets those that are left go on. */
  async #pauseCopies(deployment_id: string): Promise<() => void> {
    const paused = new Set<number>()
    const list = () => {
      const replicas: Replica[] = []
      this.forEachPoolOf(deployment_id, pool => replicas.push(...pool.replicas()))
      const runs = [...this.#runs].filter(([folder]) => folder.startsWith(this.path(deployment_id, 'runs')))
      replicas.push(...runs.map(([, { replica }]) => replica))
      return replicas.flatMap(replica => replica.pids?.(listProcesses) ?? [])
    }
    // A process may have started another one before it stopped. One that does nothing else is not waited for.
    for (let round = 0; round < PAUSE_ROUNDS && paused.size < MAX_PAUSED; round++) {
      const running = list().filter(pid => !paused.has(pid))
      if (running.length === 0) break
      for (const pid of running) if (sendSignal(pid, 'SIGSTOP')) paused.add(pid)
    }
    const resume = () => {
      clearTimeout(timer)
      for (const pid of paused) sendSignal(pid, 'SIGCONT')
      paused.clear()
    }
    const timer = setTimeout(resume, MAX_PAUSE_MS)
    return resume
  }

  #refuseWhileRunning(deployment_id: string): void {
    const runs = this.path(deployment_id, 'runs')
    if ([...this.#runs.keys()].some(folder => folder.startsWith(runs)))
      throw new PermanentError('A job of the deployment is running. Restore once it has ended.')
  }

  #disksOf(deployment_id: string): Disks {
    return new Disks(this.path(deployment_id), this.#users?.of(deployment_id))
  }

  #readDatabase(deployment_id: string): Database | undefined {
    return readJson<Database>(this.path(deployment_id, 'database.json'))
  }

  #redisUsersOf(deployment_id: string): Set<string> {
    const users = this.#redisUsers.get(deployment_id) ?? new Set<string>()
    this.#redisUsers.set(deployment_id, users)
    return users
  }

  #readRedis(deployment_id: string): Redis | undefined {
    return readJson<Redis>(this.path(deployment_id, 'redis.json'))
  }

  #saveRedis(deployment_id: string, redis: Redis): void {
    writeJson(this.path(deployment_id, 'redis.json'), redis)
    this.#hideStoreSecrets(deployment_id)
  }

  #saveDatabase(deployment_id: string, database: Partial<Database>): void {
    writeJson(this.path(deployment_id, 'database.json'), { ...this.#readDatabase(deployment_id), ...database })
    this.#hideStoreSecrets(deployment_id)
  }

  #hideStoreSecrets(deployment_id: string): void {
    const redis = this.#readRedis(deployment_id)
    const { password, uri } = this.#readDatabase(deployment_id) ?? {}
    this.events.hide(
      deployment_id,
      [password, uri, redis?.password].filter(value => value != null),
    )
  }

  /** A database above its storage limit is read-only until it has space again. */
  async #enforceStorageLimit(): Promise<void> {
    const totals = { count: 0, bytes: 0, connections: 0 }
    for (const id of this.provisioner.ready) {
      const database = this.#readDatabase(id)
      const use = database && (await this.#databases.measure(id, database).catch(() => undefined))
      if (!use) continue
      totals.count++
      totals.bytes += use.bytes
      totals.connections += use.connections
      await this.#enforceStorage(id, database, use.bytes / GIB).catch(() => {})
    }
    this.#databaseUse = totals
  }

  databaseTotals(): DatabaseTotals {
    return { ...this.#databaseUse, failing: this.#backups.failing }
  }

  async #enforceDiskSizes(): Promise<void> {
    for (const id of await this.deployments()) await this.#enforceDiskSizesOf(id)
  }

  async #enforceDiskSizesOf(deployment_id: string): Promise<void> {
    for (const { state, message } of await this.#disksOf(deployment_id).measure())
      this.forEachPoolOf(deployment_id, (pool, ref) => {
        this.events.log(ref, message, state.full ? 'ERROR' : 'INFO')
        if (state.stopped) pool.killAllForReason(message, pool.replicas(), 'disk_full')
        else if (state.full) pool.recordIncident('disk_full', message)
      })
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
    this.#logToDeployment(id, message, full ? 'ERROR' : 'INFO')
    if (full) this.forEachPoolOf(id, pool => pool.recordIncident('disk_full', message))
    this.events.changed(id)
  }

  #logToDeployment(id: string, message: string, level: LogLevel): void {
    this.forEachPoolOf(id, (_, ref) => this.events.log(ref, message, level))
  }

  async #restoreDatabase(deployment_id: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    try {
      await this.#backups.restore(deployment_id, from, signal)
    } finally {
      // The role may not log in now, or has the password of another time or deployment.
      this.provisioner.start(deployment_id, true)
    }
    await this.provisioner.waitUntilReady(deployment_id, signal)
    this.forEachPoolOf(deployment_id, pool => pool.killAllForReason('its database was restored'))
  }

  #enforceMemoryLimit(): void {
    const replicas: Replica[] = [...this.#runs.values()].map(({ replica }) => replica)
    this.forEachPool(pool => replicas.push(...pool.replicas()))
    if (replicas.length === 0) return
    let processes: Process[] | undefined
    const list = () => (processes ??= listProcesses())
    const used = new Map(replicas.map(replica => [replica, sumResidentMegabytes(replica.pids?.(list) ?? [])]))
    this.forEachPool(pool => pool.enforceMemory(used))
    for (const { replica, memory_mb, stop } of this.#runs.values()) {
      const megabytes = used.get(replica) ?? 0
      if (megabytes > memory_mb)
        stop(`used ${Math.round(megabytes)} MB of memory, more than the memory_limit_mb of ${memory_mb}, and was ended`)
    }
  }

  async #enforceDiskLimit(isUrgent = false): Promise<void> {
    if (this.#measuring) return
    this.#measuring = true
    const limit = this.limits.disk_mb
    const all: [ReplicaPool, RevisionRef][] = []
    this.forEachPool((pool, ref) => all.push([pool, ref]))
    const checksSource = isUrgent || this.#measureCount++ % SOURCE_CHECK_EVERY === 0
    const fullSources = new Set<string>()
    for (const [pool, { deployment_id, revision_id }] of all) {
      const reason = `it exceeded its disk limit of ${limit} MB`
      const source = checksSource && this.#sourceFolders.get(revision_id)
      const replicas = pool.replicas()
      if ((await measureMegabytes(this.path(deployment_id, 'revisions', revision_id), limit)) > limit) {
        this.#overDiskLimit.add(revision_id)
        pool.killAllForReason(reason, replicas, 'disk_full')
        // Twice the limit, because the source itself may be as large as the limit.
      } else if (source && (await measureMegabytes(source, 2 * limit)) > 2 * limit) {
        fullSources.add(source)
        pool.killAllForReason(
          `${reason} in its source folder: make it write to TMPDIR instead, and deploy it again`,
          replicas,
          'disk_full',
        )
      }
    }
    for (const [folder, run] of this.#runs)
      if (fullSources.has(run.source) || (await measureMegabytes(folder, limit)) > limit)
        run.stop(`exceeded the disk limit of ${limit} MB and was ended`)
    this.#measuring = false
  }
}

const isLeft = (replica: Replica): boolean => (replica.pids?.(listProcesses) ?? []).length > 0

function requireDisk(store: string): string {
  const name = diskOfStore(store)
  if (name !== null) return name
  throw new SnapshotUnsupported(`The process engine of this agent takes no snapshots of a ${store}.`)
}

const notListening = ({ port: own }: ProcessReplica, port: number) =>
  new PermanentError(`The copy does not listen on port ${port}. The port in its PORT is ${own}.`)
