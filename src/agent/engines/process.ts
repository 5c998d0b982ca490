// The engine that runs applications as processes of this machine, behind a local router.
import { dirname, join } from 'node:path'
import { measureMegabytes, readJson, removeRecursively, stampFolder, writeJson } from '../system/files.ts'
import { findFreePort } from '../system/ports.ts'
import { listProcesses, sumResidentMegabytes } from '../system/processes.ts'
import { endRevisionProcesses } from '../system/tracked-process.ts'
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
import type { Artifact, BuildTask, EngineEvents, RevisionRef, RevisionSpec, SourceTree } from './engine.ts'
import { PooledEngine, type PooledOptions } from './local/pooled-engine.ts'
import type { Replica, ReplicaPool } from './local/replica-pool.ts'
import { type Database, Databases, newDatabase } from './process/databases.ts'
import { environmentOf, searchPath } from './process/environment.ts'
import { EmbeddedServer, externalServer, type PostgresServer } from './process/postgres-server.ts'
import { prepare } from './process/prepare.ts'
import { ProcessReplica } from './process/replica.ts'

const IMAGE_SOURCES = new Set(['internal_container', 'external_container'])
/** How many times what an application writes is measured before its source is, too. */
const SOURCE_CHECK_EVERY = 10

export type ProcessOptions = PooledOptions & {
  /** Of a Postgres whose role may make databases and roles; without one the agent runs one of its own. */
  database_url?: string | undefined
  /** Variables that install and build commands get, like those of a proxy. */
  lent?: Record<string, string>
  /** As whom applications run; otherwise as the agent's own user. */
  users?: Users | undefined
  /** The folder of Node's programs, if not that of the Node which runs the agent. */
  bin?: string | undefined
}

export class ProcessEngine extends PooledEngine {
  readonly name = 'process'
  /** Where each revision runs. */
  readonly #sourceFolders = new Map<string, string>()
  /** Whose folders of its own are emptied before it is started again. */
  readonly #overDiskLimit = new Set<string>()
  #measuring = false
  #measureCount = 0
  readonly #commandEnv: Record<string, string>
  readonly #server: PostgresServer
  readonly #databases: Databases
  readonly #users: Users | undefined
  readonly #searchPath: string

  constructor({ database_url, lent = {}, users, bin, ...options }: ProcessOptions) {
    super('process', options)
    this.#users = users
    this.#searchPath = searchPath(bin)
    this.#commandEnv = lent
    this.#server = database_url ? externalServer(database_url) : new EmbeddedServer(options.home)
    this.#databases = new Databases(this.#server)
  }

  refusalReason({ source, needs_database }: RevisionSpec): string | null {
    if (IMAGE_SOURCES.has(source))
      return `This agent runs applications as processes of its machine, and cannot run container images (\`${source}\`): use a listener whose agent runs the container or kubernetes engine.`
    return needs_database ? this.#server.obstacle : null
  }

  override async open(events: EngineEvents): Promise<void> {
    await super.open(events)
    for (const id of await this.deployments()) this.#hideDatabaseSecrets(id)
    this.repeatEvery(this.limits.memory_ms, () => this.#enforceMemoryLimit())
    this.repeatEvery(this.limits.disk_ms, () => void this.#enforceDiskLimit())
    let measuring = false
    this.repeatEvery(this.limits.disk_ms, async () => {
      if (measuring) return
      measuring = true
      await this.#enforceStorageLimit().catch(() => {})
      measuring = false
    })
    this.repeatEvery(this.limits.probe_ms, () => {
      if (!this.#server.isUp()) for (const id of this.provisioner.ready) this.provisioner.start(id)
    })
    for (const id of await this.deployments()) if (this.#readDatabase(id)) this.provisioner.start(id)
  }

  async provide({ deployment_id, resources }: RevisionSpec): Promise<void> {
    const limits = { connections: resources.db_max_connections, storage_gi: resources.db_storage_gi }
    const before = this.#readDatabase(deployment_id)
    this.#saveDatabase(deployment_id, before ? limits : newDatabase(deployment_id, limits))
    this.provisioner.start(deployment_id)
  }

  protected async provideStores(deployment_id: string): Promise<void> {
    const uri = await this.#databases.ensure(this.#readDatabase(deployment_id)!)
    const kept = this.#readDatabase(deployment_id)!
    if (kept.uri === uri) return
    this.#saveDatabase(deployment_id, { uri })
    if (kept.uri)
      this.#forEachPoolOf(deployment_id, pool => pool.killAllForReason('its database has another address now'))
  }

  override async remove(deployment_id: string): Promise<void> {
    await this.provisioner.forget(deployment_id)
    const database = this.#readDatabase(deployment_id)
    if (database) await this.#databases.drop(database)
    await super.remove(deployment_id)
  }

  override async close(how: { stop: boolean }): Promise<void> {
    await super.close(how)
    if (!how.stop) return
    if (this.#users?.isPerDeployment) for (const id of await this.deployments()) killUserProcesses(this.#users.of(id))
    await this.#server.stop()
  }

  prepare(unit: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    const user = this.#users?.of(unit.deployment_id)
    return prepare(unit, tree!, task, {
      disk_mb: this.limits.disk_mb,
      lent: this.#commandEnv,
      user,
      path: this.#searchPath,
    })
  }

  /** What ran from a folder may have written into it. */
  async reuse(_: RevisionSpec, artifact: Artifact): Promise<Artifact | null> {
    const stamp = await stampFolder(artifact.location).catch(() => undefined)
    return stamp !== undefined && stamp === artifact.stamp ? artifact : null
  }

  async start(unit: RevisionSpec, artifact: Artifact): Promise<void> {
    const folder = this.path(unit.deployment_id, 'revisions', unit.revision_id)
    const user = this.#users?.of(unit.deployment_id)
    const own = ['home', 'tmp'].map(name => join(folder, name))
    const make = () => {
      for (const path of own) makeOwned(path, user)
    }
    if (user) await this.#grantAccess(user, unit, artifact.location)
    make()
    this.#sourceFolders.set(unit.revision_id, artifact.location)
    this.saveDeployment(unit)
    if (unit.needs_database) await this.provide(unit)
    const launch = async () => {
      // What it may not fill stays full otherwise, and every copy that follows is killed for it.
      if (this.#overDiskLimit.delete(unit.revision_id)) {
        await Promise.all(own.map(removeRecursively))
        make()
      }
      const port = await findFreePort()
      const database = this.#readDatabase(unit.deployment_id)?.uri ?? null
      const given = { folder, port, path: this.#searchPath, database: unit.needs_database ? database : null }
      const env = environmentOf(unit, artifact.env, given)
      return ProcessReplica.launch(this.replicasFolder(unit), {
        ...{ command: artifact.start_command!, cwd: artifact.location, env, port, user },
      })
    }
    this.startPool(unit, artifact, launch)
  }

  override async stop(ref: RevisionRef): Promise<void> {
    await super.stop(ref)
    await endRevisionProcesses(ref.revision_id)
    this.#sourceFolders.delete(ref.revision_id)
    this.#overDiskLimit.delete(ref.revision_id)
  }

  protected adopt(ref: RevisionRef): Promise<ProcessReplica[]> {
    const tell = (line: string) => this.events.log(ref, line, 'INFO')
    return ProcessReplica.adopt(this.replicasFolder(ref), this.limits.stop_ms, tell)
  }

  /** Also to what an agent made that ran applications as its own user. */
  async #grantAccess(user: User, { deployment_id, revision_id }: RevisionRef, tree: string): Promise<void> {
    makePassable(dirname(this.path(deployment_id)))
    const above = ['', 'revisions', join('revisions', revision_id)].map(name => this.path(deployment_id, name))
    for (const folder of above) makeEnterable(folder, user)
    if (isOwnedBy(tree, user)) return
    const build = dirname(tree)
    makePassable(dirname(dirname(build)))
    for (const folder of [dirname(build), build]) makeEnterable(folder, user)
    await chownRecursively(tree, user)
  }

  #readDatabase(deployment_id: string): Database | undefined {
    return readJson<Database>(this.path(deployment_id, 'database.json'))
  }

  #saveDatabase(deployment_id: string, database: Partial<Database>): void {
    writeJson(this.path(deployment_id, 'database.json'), { ...this.#readDatabase(deployment_id), ...database })
    this.#hideDatabaseSecrets(deployment_id)
  }

  #hideDatabaseSecrets(deployment_id: string): void {
    const { password, uri } = this.#readDatabase(deployment_id) ?? {}
    this.events.hide(
      deployment_id,
      [password, uri].filter(value => value != null),
    )
  }

  #forEachPoolOf(deployment_id: string, work: (pool: ReplicaPool, ref: RevisionRef) => void): void {
    this.forEachPool((pool, ref) => ref.deployment_id === deployment_id && work(pool, ref))
  }

  /** Holds each database to its storage: over it, it is read until there is room again. */
  async #enforceStorageLimit(): Promise<void> {
    const ready = this.provisioner.ready
    if (ready.length === 0) return
    const sizes = await this.#databases.sizes()
    for (const id of ready) {
      const database = this.#readDatabase(id)
      const size = database && sizes.get(database.name)
      if (!database || size === undefined) continue
      const { full: before, storage_gi } = database
      const full = size > storage_gi
      if (full === before) continue
      await this.#databases.setReadOnly(database, full)
      // It may have been removed meanwhile.
      if (!this.#readDatabase(id)) continue
      this.#saveDatabase(id, { full })
      const said = full
        ? `Its database holds ${size.toFixed(2)} GiB, more than its db_storage_gi of ${storage_gi}, and can only be read from now on: raise db_storage_gi, or delete something (\`SET default_transaction_read_only = off\` first, \`VACUUM FULL\` afterwards).`
        : 'Its database has room again, and can be written to.'
      this.#forEachPoolOf(id, (_, ref) => this.events.log(ref, said, full ? 'ERROR' : 'INFO'))
    }
  }

  #enforceMemoryLimit(): void {
    const copies: Replica[] = []
    this.forEachPool(pool => copies.push(...pool.replicas()))
    if (copies.length === 0) return
    const all = listProcesses()
    const used = new Map(copies.map(copy => [copy, sumResidentMegabytes(copy.pids?.(all) ?? [])]))
    this.forEachPool(pool => pool.enforceMemory(used))
  }

  async #enforceDiskLimit(): Promise<void> {
    if (this.#measuring) return
    this.#measuring = true
    const limit = this.limits.disk_mb
    const all: [ReplicaPool, RevisionRef][] = []
    this.forEachPool((pool, ref) => all.push([pool, ref]))
    // A source has many files, and few applications write among them.
    const trees = this.#measureCount++ % SOURCE_CHECK_EVERY === 0
    for (const [pool, { deployment_id, revision_id }] of all) {
      const told = `it wrote more than the ${limit} MB that it may`
      const tree = trees && this.#sourceFolders.get(revision_id)
      const copies = pool.replicas()
      if ((await measureMegabytes(this.path(deployment_id, 'revisions', revision_id), limit)) > limit) {
        this.#overDiskLimit.add(revision_id)
        pool.killAllForReason(told, copies)
        // The source alone may have had as much.
      } else if (tree && (await measureMegabytes(tree, 2 * limit)) > 2 * limit)
        pool.killAllForReason(
          `${told}, into the folder of its source: deploy it again, and let it write to TMPDIR`,
          copies,
        )
    }
    this.#measuring = false
  }
}
