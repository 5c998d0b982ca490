// The engine that runs applications as processes of this machine, behind a local router.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { remove, sizeOf } from '../files.ts'
import { freePort } from '../ports.ts'
import { memoryOf } from '../processes.ts'
import type { Artifact, Events, Ref, Task, Tree, Unit } from './engine.ts'
import type { Pool } from './local/pool.ts'
import { type Options, PooledEngine } from './local/pooled.ts'
import { ProcessCopy } from './process/copy.ts'
import { environmentOf } from './process/environment.ts'
import { prepare } from './process/prepare.ts'

const IMAGES = new Set(['internal_container', 'external_container'])
/** How many times what an application writes is measured before its source is, too. */
const TREES_EVERY = 10

export class ProcessEngine extends PooledEngine {
  readonly name = 'process'
  /** Where each revision runs. */
  readonly #trees = new Map<string, string>()
  /** Whose folders of its own are emptied before it is started again. */
  readonly #full = new Set<string>()
  #measuring = false
  #measured = 0

  constructor(options: Options) {
    super('process', options)
  }

  refuses({ source, needs_database }: Unit): string | null {
    if (IMAGES.has(source))
      return `This agent runs applications as processes of its machine, and cannot run container images (\`${source}\`): use a listener whose agent runs the container or kubernetes engine.`
    return needs_database
      ? 'This agent runs applications as processes of its machine, and has no database to give: leave the `db_*` members out of resource_spec, and give an address of your own as a secret.'
      : null
  }

  override async open(events: Events): Promise<void> {
    await super.open(events)
    this.every(this.limits.memory_ms, () => this.#weigh())
    this.every(this.limits.disk_ms, () => void this.#measure())
  }

  prepare(unit: Unit, tree: Tree | null, task: Task): Promise<Artifact> {
    return prepare(unit, tree!, task, this.limits.disk_mb)
  }

  async start(unit: Unit, artifact: Artifact): Promise<void> {
    const folder = this.path(unit.deployment_id, 'revisions', unit.revision_id)
    const own = ['home', 'tmp'].map(name => join(folder, name))
    const make = () => {
      for (const path of own) fs.mkdirSync(path, { recursive: true, mode: 0o700 })
    }
    make()
    this.#trees.set(unit.revision_id, artifact.location)
    this.keep(unit)
    const launch = async () => {
      // What it may not fill stays full otherwise, and every copy that follows is killed for it.
      if (this.#full.delete(unit.revision_id)) {
        await Promise.all(own.map(remove))
        make()
      }
      const port = await freePort()
      const env = environmentOf(unit, artifact.env, { folder, port })
      return ProcessCopy.launch(this.copiesOf(unit), {
        ...{ command: artifact.start_command!, cwd: artifact.location, env, port },
      })
    }
    this.pool(unit, true).start({
      launch,
      health_path: artifact.health_path,
      copies: Math.max(1, unit.resources.min_scale),
      memory_mb: unit.resources.memory_limit_mb,
    })
  }

  override async stop(ref: Ref): Promise<void> {
    await super.stop(ref)
    this.#trees.delete(ref.revision_id)
    this.#full.delete(ref.revision_id)
  }

  protected adopt(ref: Ref): Promise<ProcessCopy[]> {
    return ProcessCopy.adopt(this.copiesOf(ref), ref.revision_id, this.limits.stop_ms)
  }

  #weigh(): void {
    const groups = new Set<number>()
    this.each(pool => {
      for (const { group } of pool.copies()) if (group) groups.add(group)
    })
    if (groups.size === 0) return
    const used = memoryOf(groups)
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
      if ((await sizeOf(this.path(deployment_id, 'revisions', revision_id), limit)) > limit) {
        this.#full.add(revision_id)
        pool.blameAll(told)
        // The source alone may have had as much.
      } else if (tree && (await sizeOf(tree, 2 * limit)) > 2 * limit)
        pool.blameAll(`${told}, into the folder of its source: deploy it again, and let it write to TMPDIR`)
    }
    this.#measuring = false
  }
}
