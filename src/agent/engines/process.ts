// The engine that runs applications as processes of this machine, behind a local router.
import { dirname, join } from 'node:path'
import { readJson, remove, sizeOf, stampOf, writeJson } from '../files.ts'
import { endRevision } from '../marked.ts'
import { freePort } from '../ports.ts'
import { memoryOf, processes } from '../processes.ts'
import {
  handOver,
  isOwnedBy,
  killAllOf,
  makeEnterable,
  makeOwned,
  makePassable,
  type User,
  type Users,
} from '../users.ts'
import type { Artifact, Events, Ref, Task, Tree, Unit } from './engine.ts'
import type { Copy, Pool } from './local/pool.ts'
import { type Options, PooledEngine } from './local/pooled.ts'
import { ProcessCopy } from './process/copy.ts'
import { type Database, Databases, databaseOf } from './process/databases.ts'
import { environmentOf, pathWith } from './process/environment.ts'
import { namedServer, OwnServer, type PostgresServer } from './process/postgres.ts'
import { prepare } from './process/prepare.ts'

const IMAGES = new Set(['internal_container', 'external_container'])
/** How many times what an application writes is measured before its source is, too. */
const TREES_EVERY = 10

export type ProcessOptions = Options & {
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
  readonly #trees = new Map<string, string>()
  /** Whose folders of its own are emptied before it is started again. */
  readonly #full = new Set<string>()
  #measuring = false
  #measured = 0
  readonly #lent: Record<string, string>
  readonly #server: PostgresServer
  readonly #databases: Databases
  readonly #users: Users | undefined
  readonly #path: string

  constructor({ database_url, lent = {}, users, bin, ...options }: ProcessOptions) {
    super('process', options)
    this.#users = users
    this.#path = pathWith(bin)
    this.#lent = lent
    this.#server = database_url ? namedServer(database_url) : new OwnServer(options.home)
    this.#databases = new Databases(this.#server)
  }

  refuses({ source, needs_database }: Unit): string | null {
    if (IMAGES.has(source))
      return `This agent runs applications as processes of its machine, and cannot run container images (\`${source}\`): use a listener whose agent runs the container or kubernetes engine.`
    return needs_database ? this.#server.obstacle : null
  }

  override async open(events: Events): Promise<void> {
    await super.open(events)
    for (const id of await this.deployments()) this.#hide(id)
    this.every(this.limits.memory_ms, () => this.#weigh())
    this.every(this.limits.disk_ms, () => void this.#measure())
    let measuring = false
    this.every(this.limits.disk_ms, async () => {
      if (measuring) return
      measuring = true
      await this.#measureDatabases().catch(() => {})
      measuring = false
    })
    this.every(this.limits.probe_ms, () => {
      if (!this.#server.isUp()) for (const id of this.promised.ready) this.promised.start(id)
    })
    for (const id of await this.deployments()) if (this.#database(id)) this.promised.start(id)
  }

  async provide({ deployment_id, resources }: Unit): Promise<void> {
    const limits = { connections: resources.db_max_connections, storage_gi: resources.db_storage_gi }
    const before = this.#database(deployment_id)
    this.#keepDatabase(deployment_id, before ? limits : databaseOf(deployment_id, limits))
    this.promised.start(deployment_id)
  }

  protected async bring(deployment_id: string): Promise<void> {
    const uri = await this.#databases.ensure(this.#database(deployment_id)!)
    const kept = this.#database(deployment_id)!
    if (kept.uri === uri) return
    this.#keepDatabase(deployment_id, { uri })
    if (kept.uri) this.#poolsOf(deployment_id, pool => pool.blameAll('its database has another address now'))
  }

  override async remove(deployment_id: string): Promise<void> {
    await this.promised.forget(deployment_id)
    const database = this.#database(deployment_id)
    if (database) await this.#databases.drop(database)
    await super.remove(deployment_id)
  }

  override async close(how: { stop: boolean }): Promise<void> {
    await super.close(how)
    if (!how.stop) return
    if (this.#users?.own) for (const id of await this.deployments()) killAllOf(this.#users.of(id))
    await this.#server.stop()
  }

  prepare(unit: Unit, tree: Tree | null, task: Task): Promise<Artifact> {
    const user = this.#users?.of(unit.deployment_id)
    return prepare(unit, tree!, task, { disk_mb: this.limits.disk_mb, lent: this.#lent, user, path: this.#path })
  }

  /** What ran from a folder may have written into it. */
  async reuse(_: Unit, artifact: Artifact): Promise<Artifact | null> {
    const stamp = await stampOf(artifact.location).catch(() => undefined)
    return stamp !== undefined && stamp === artifact.stamp ? artifact : null
  }

  async start(unit: Unit, artifact: Artifact): Promise<void> {
    const folder = this.path(unit.deployment_id, 'revisions', unit.revision_id)
    const user = this.#users?.of(unit.deployment_id)
    const own = ['home', 'tmp'].map(name => join(folder, name))
    const make = () => {
      for (const path of own) makeOwned(path, user)
    }
    if (user) await this.#letIn(user, unit, artifact.location)
    make()
    this.#trees.set(unit.revision_id, artifact.location)
    this.keep(unit)
    if (unit.needs_database) await this.provide(unit)
    const launch = async () => {
      // What it may not fill stays full otherwise, and every copy that follows is killed for it.
      if (this.#full.delete(unit.revision_id)) {
        await Promise.all(own.map(remove))
        make()
      }
      const port = await freePort()
      const database = this.#database(unit.deployment_id)?.uri ?? null
      const given = { folder, port, path: this.#path, database: unit.needs_database ? database : null }
      const env = environmentOf(unit, artifact.env, given)
      return ProcessCopy.launch(this.copiesOf(unit), {
        ...{ command: artifact.start_command!, cwd: artifact.location, env, port, user },
      })
    }
    this.run(unit, artifact, launch)
  }

  override async stop(ref: Ref): Promise<void> {
    await super.stop(ref)
    await endRevision(ref.revision_id)
    this.#trees.delete(ref.revision_id)
    this.#full.delete(ref.revision_id)
  }

  protected adopt(ref: Ref): Promise<ProcessCopy[]> {
    const tell = (line: string) => this.events.log(ref, line, 'INFO')
    return ProcessCopy.adopt(this.copiesOf(ref), this.limits.stop_ms, tell)
  }

  /** Also to what an agent made that ran applications as its own user. */
  async #letIn(user: User, { deployment_id, revision_id }: Ref, tree: string): Promise<void> {
    makePassable(dirname(this.path(deployment_id)))
    const above = ['', 'revisions', join('revisions', revision_id)].map(name => this.path(deployment_id, name))
    for (const folder of above) makeEnterable(folder, user)
    if (isOwnedBy(tree, user)) return
    const build = dirname(tree)
    makePassable(dirname(dirname(build)))
    for (const folder of [dirname(build), build]) makeEnterable(folder, user)
    await handOver(tree, user)
  }

  #database(deployment_id: string): Database | undefined {
    return readJson<Database>(this.path(deployment_id, 'database.json'))
  }

  #keepDatabase(deployment_id: string, database: Partial<Database>): void {
    writeJson(this.path(deployment_id, 'database.json'), { ...this.#database(deployment_id), ...database })
    this.#hide(deployment_id)
  }

  #hide(deployment_id: string): void {
    const { password, uri } = this.#database(deployment_id) ?? {}
    this.events.hide(
      deployment_id,
      [password, uri].filter(value => value != null),
    )
  }

  #poolsOf(deployment_id: string, work: (pool: Pool, ref: Ref) => void): void {
    this.each((pool, ref) => ref.deployment_id === deployment_id && work(pool, ref))
  }

  /** Holds each database to its storage: over it, it is read until there is room again. */
  async #measureDatabases(): Promise<void> {
    const ready = this.promised.ready
    if (ready.length === 0) return
    const sizes = await this.#databases.sizes()
    for (const id of ready) {
      const database = this.#database(id)
      const size = database && sizes.get(database.name)
      if (!database || size === undefined) continue
      const { full: before, storage_gi } = database
      const full = size > storage_gi
      if (full === before) continue
      await this.#databases.hold(database, full)
      // It may have been removed meanwhile.
      if (!this.#database(id)) continue
      this.#keepDatabase(id, { full })
      const said = full
        ? `Its database holds ${size.toFixed(2)} GiB, more than its db_storage_gi of ${storage_gi}, and can only be read from now on: raise db_storage_gi, or delete something (\`SET default_transaction_read_only = off\` first, \`VACUUM FULL\` afterwards).`
        : 'Its database has room again, and can be written to.'
      this.#poolsOf(id, (_, ref) => this.events.log(ref, said, full ? 'ERROR' : 'INFO'))
    }
  }

  #weigh(): void {
    const copies: Copy[] = []
    this.each(pool => copies.push(...pool.copies()))
    if (copies.length === 0) return
    const all = processes()
    const used = new Map(copies.map(copy => [copy, memoryOf(copy.pids?.(all) ?? [])]))
    this.each(pool => pool.weigh(used))
  }

  async #measure(): Promise<void> {
    if (this.#measuring) return
    this.#measuring = true
    const limit = this.limits.disk_mb
    const all: [Pool, Ref][] = []
    this.each((pool, ref) => all.push([pool, ref]))
    // A source has many files, and few applications write among them.
    const trees = this.#measured++ % TREES_EVERY === 0
    for (const [pool, { deployment_id, revision_id }] of all) {
      const told = `it wrote more than the ${limit} MB that it may`
      const tree = trees && this.#trees.get(revision_id)
      const copies = pool.copies()
      if ((await sizeOf(this.path(deployment_id, 'revisions', revision_id), limit)) > limit) {
        this.#full.add(revision_id)
        pool.blameAll(told, copies)
        // The source alone may have had as much.
      } else if (tree && (await sizeOf(tree, 2 * limit)) > 2 * limit)
        pool.blameAll(`${told}, into the folder of its source: deploy it again, and let it write to TMPDIR`, copies)
    }
    this.#measuring = false
  }
}
