// The engine that runs applications as processes of this machine behind the local router.
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { findFreePort } from '../../postgres/free-port.ts'
import { listDisks } from '../../protocol/disks.ts'
import type { FeatureName } from '../../protocol/engine-features.ts'
import type { ListenerPolicy } from '../../protocol/listener-policy.ts'
import type { NewForward, NewTerminal } from '../../protocol/tunnels.schema.ts'
import {
  type Artifact,
  type BuildTask,
  type DatabaseTotals,
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
import { canLimitCpu } from '../system/cgroups.ts'
import { listFolder, removeRecursively } from '../system/files.ts'
import { listProcesses, type Process, sendSignal } from '../system/processes.ts'
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
import { withBackupProblem } from './backup-problem.ts'
import { graphVariables } from './graph-variables.ts'
import { connectHere, describeMissingCopy } from './local/connect.ts'
import { FreeSpace } from './local/free-space.ts'
import { largestDisk } from './local/largest-disk.ts'
import { isIntact, PooledEngine, type PooledOptions } from './local/pooled-engine.ts'
import type { Health, OutputLine, Replica } from './local/replica.ts'
import type { TokenReader } from './local/token-file.ts'
import { MODEL_TOKEN_FILE } from './model-variables.ts'
import { linksOf } from './process/disks.ts'
import { environmentOf } from './process/environment.ts'
import { spreadNetworkVariables } from './process/network-variables.ts'
import { prepare } from './process/prepare.ts'
import { ProcessReplica } from './process/replica.ts'
import { checkByCommand, forgetRun, type ProcessRun, startRun } from './process/run.ts'
import { ShortNames } from './process/short-names.ts'
import { ProcessStores } from './process/stores.ts'
import { loadPty, startTerminal } from './process/terminal.ts'
import { UsageLimits } from './process/usage-limits.ts'
import { processTypesOf, RUN_ROLE, type RunningType, WEB } from './process-types.ts'

const IMAGE_SOURCES = new Set(['internal_container', 'external_container'])

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
  /** The commands that run once and have not ended, by the folder of each. */
  readonly #runs = new Map<string, ProcessRun & { source: string }>()
  readonly #startingRuns = new Map<string, Promise<ProcessRun>>()
  readonly #freeSpace = new FreeSpace()
  readonly #usage: UsageLimits
  readonly #commandEnv: Record<string, string>
  readonly #stores: ProcessStores
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
      userOf: (id: string) => users?.of(id),
      copiesOf: (id: string) => this.#copiesOf(id),
      hasJobs: (id: string) => this.#runsOf(id).length > 0,
    }
    this.#usage = new UsageLimits({
      disk_mb: this.limits.disk_mb,
      forEachPool: work => this.forEachPool(work),
      runs: this.#runs,
      folderOf: ({ deployment_id, revision_id }) => this.path(deployment_id, 'revisions', revision_id),
      sourceOf: ({ revision_id }) => this.#sourceFolders.get(revision_id),
    })
    this.#stores = new ProcessStores(host, { database_url, path: machinePath ?? this.#searchPath })
  }

  override get policy(): ListenerPolicy {
    return { ...super.policy, max_disk_gi: largestDisk(this.limits.disk_gi, this.path('')) }
  }

  protected override missingFeatures(): FeatureName[] {
    return [...this.#stores.missingFeatures, ...(this.#limitsCpu ? [] : ['cpu_limits' as const])]
  }

  override refusalReason(spec: RevisionSpec): string | null {
    if (IMAGE_SOURCES.has(spec.source))
      return (
        `This agent cannot run container images, which the source \`${spec.source}\` needs. ` +
        `Use a listener whose agent runs the container or kubernetes engine.`
      )
    return super.refusalReason(spec) ?? this.#stores.refusalReason(spec)
  }

  override async open(events: EngineEvents): Promise<void> {
    await super.open(events)
    const hasPty = (await loadPty()) !== undefined
    this.tunnels = [
      ...(['terminal', 'forward', 'postgres'] as const),
      ...(this.#stores.hasRedis ? (['redis'] as const) : []),
      ...(hasPty ? (['tty'] as const) : []),
    ]
    let processes: Process[] | undefined
    // The agent before may have ended while it copied files.
    this.forEachPool(pool => {
      if (pool.rest) return
      for (const replica of pool.replicas())
        for (const pid of replica.pids?.(() => (processes ??= listProcesses())) ?? []) sendSignal(pid, 'SIGCONT')
    })
    await this.#stores.open()
    this.repeatEvery(this.limits.memory_ms, () => this.#usage.enforceMemory())
    this.repeatEvery(this.limits.disk_ms, () => void this.#usage.enforceDisk())
    const measureNow = async () =>
      void (await Promise.all([this.#usage.enforceDisk(true), this.#stores.enforceSizes()]))
    this.repeatEvery(this.limits.space_ms, () => void this.#freeSpace.look(this.path(''), measureNow))
    this.repeatEvery(this.limits.disk_ms, () => void this.#stores.enforceSizes())
    this.repeatEvery(this.limits.backup_ms, () => this.#stores.backUp())
    this.repeatEvery(this.limits.probe_ms, () => this.#stores.restartEnded())
    await this.#stores.startAll()
  }

  async provide(spec: RevisionSpec): Promise<void> {
    this.#stores.request(spec)
  }

  protected provideStores(deployment_id: string): Promise<void> {
    return this.#stores.ensure(deployment_id)
  }

  override async remove(deployment_id: string): Promise<void> {
    await this.provisioner.forget(deployment_id)
    const runs = this.path(deployment_id, 'runs')
    for (const id of listFolder(runs)) await this.forgetRun(deployment_id, id)
    await this.#stores.remove(deployment_id)
    await super.remove(deployment_id)
  }

  override async close(how: { stop: boolean }): Promise<void> {
    await super.close(how)
    if (!how.stop) {
      for (const run of this.#runs.values()) run.release()
      return this.#stores.releaseDatabases()
    }
    for (const run of this.#runs.values()) run.stop('was ended, because its agent was stopped')
    await Promise.allSettled([...this.#runs.values()].map(run => run.end))
    await this.#stores.stopRedis()
    if (this.#users?.isPerDeployment) for (const id of await this.deployments()) killUserProcesses(this.#users.of(id))
    await this.#stores.stopDatabases()
  }

  async prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    if (spec.parts.includes('redis')) {
      // Before the build, which may take longer.
      await this.provide(spec)
      await this.provisioner.waitUntilReady(spec.deployment_id, task.signal)
    }
    const user = this.#users?.of(spec.deployment_id)
    const disks = this.#stores.disksOf(spec.deployment_id)
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
    const disks = this.#stores.disksOf(spec.deployment_id)
    disks.ensure(listDisks(spec.resources))
    await this.#stores.enforceDiskSizes(spec.deployment_id)
    await this.#stores.warnOfSpace(spec)
    this.#sourceFolders.set(spec.revision_id, artifact.location)
    this.saveDeployment(spec)
    await this.renewModelToken(spec.deployment_id)
    const hasRedis = spec.parts.includes('redis')
    if (spec.needs_database || hasRedis) await this.provide(spec)
    if (hasRedis) this.#stores.useRedis(spec)
    const types = new Map(processTypesOf(spec, artifact).map(type => [type.name, type]))
    const placeOf = (role: string, port: number): CopyPlace => ({
      cwd: join(artifact.location, artifact.root ?? ''),
      env: this.#environmentOf(spec, artifact, { folder, port, role }),
      user,
      cpuLimit: this.#limitsCpu ? (types.get(role)?.cpu[1] ?? spec.resources.cpu_limit) : undefined,
    })
    const launch = async (type: RunningType | null) => {
      // Folders over the limit would end each new replica, too.
      if (this.#usage.overDiskLimit.delete(spec.revision_id)) {
        await Promise.all(writableFolders.map(removeRecursively))
        createFolders()
      }
      await this.untilStartable(spec.deployment_id)
      const obstacle = disks.sizes.obstacle()
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
    const { database, redis } = this.#stores.addressesOf(spec)
    const isMissingRedis = parts.includes('redis') && redis === null
    if (isMissingRedis) await this.provide(spec)
    if (isMissingRedis || (needs_database && database === null))
      throw new TransientError('The database or the Redis of the deployment is not ready yet.')
    const user = this.#users?.of(deployment_id)
    const folder = this.path(deployment_id, 'runs', run.id)
    if (user) await this.#grantAccess(user, spec, artifact.location)
    for (const path of [dirname(folder), folder]) makeEnterable(path, user)
    for (const name of ['home', 'tmp']) makeOwned(join(folder, name), user)
    await this.untilStartable(deployment_id)
    this.#stores.disksOf(deployment_id).ensure(listDisks(resources))
    this.saveNewDeployment(spec)
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
    return environmentOf(
      spec,
      { ...graphVariables(spec, artifact), ...artifact.env },
      {
        ...place,
        folder: this.#shortNames.of(place.folder),
        path: [...(artifact.programs ?? []), this.#searchPath].join(':'),
        tokenFile: join(this.tokenFolder(spec.deployment_id), MODEL_TOKEN_FILE),
        disks: this.#stores.disksOf(spec.deployment_id).variables(listDisks(spec.resources)),
        ...this.#stores.addressesOf(spec),
      },
    )
  }

  override async stop(ref: RevisionRef): Promise<void> {
    await super.stop(ref)
    await endRevisionProcesses(ref.revision_id)
    await this.#stores.releaseRedis(ref)
    this.#sourceFolders.delete(ref.revision_id)
    this.#places.delete(ref.revision_id)
    this.#usage.overDiskLimit.delete(ref.revision_id)
  }

  async openTerminal(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal> {
    return this.beside.terminal(ref.deployment_id, async () => {
      const copy = this.#copyOf(ref, request.copy)
      const place = this.#places.get(ref.revision_id)?.(WEB, copy.port)
      if (!place) throw new PermanentError('The agent is taking this revision over. Retry in a moment.')
      return startTerminal(request, { ...place, id, cgroup: copy.cgroup })
    })
  }

  async openForward(ref: RevisionRef, { store, port, copy: number }: NewForward): Promise<ForwardTarget> {
    if (store) return this.#stores.forwardTo(ref.deployment_id, store)
    const connect = (copy: ProcessReplica) => {
      const target = port ?? copy.port
      // Another program may take the port later.
      return copy.listensOn(target) ? connectHere(target) : Promise.reject(notListening(copy, target))
    }
    return this.beside.forward(ref.deployment_id, () => this.#copyOf(ref, number), connect)
  }

  #copyOf(ref: RevisionRef, number: number | null | undefined): ProcessReplica {
    const copy = this.replicaOf(ref, number)
    if (copy instanceof ProcessReplica) return copy
    throw new PermanentError(describeMissingCopy(copy, number))
  }

  override async observe(deployment_id: string): Promise<EngineObservation> {
    return withBackupProblem(await super.observe(deployment_id), this.#stores.backupProblemOf(deployment_id))
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

  async listStores(deployment_id: string): Promise<string[]> {
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

  databaseTotals(): DatabaseTotals {
    return this.#stores.databaseTotals()
  }

  #runsOf(deployment_id: string): ProcessRun[] {
    const folder = this.path(deployment_id, 'runs')
    return [...this.#runs].flatMap(([path, run]) => (path.startsWith(folder) ? [run] : []))
  }

  #copiesOf(deployment_id: string): Replica[] {
    const copies: Replica[] = this.#runsOf(deployment_id).map(({ replica }) => replica)
    // A frozen one stays so.
    this.forEachPoolOf(deployment_id, pool => pool.rest !== 'frozen' && copies.push(...pool.replicas()))
    return copies
  }
}

const notListening = ({ port: own }: ProcessReplica, port: number) =>
  new PermanentError(`The copy does not listen on port ${port}. The port in its PORT is ${own}.`)
