// The engine that runs applications as processes of this machine, behind a local router.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { sizeOf } from '../files.ts'
import { freePort } from '../ports.ts'
import { memoryOf } from '../processes.ts'
import type { Artifact, Events, Ref, Task, Tree, Unit } from './engine.ts'
import type { Pool } from './local/pool.ts'
import { type Options, PooledEngine } from './local/pooled.ts'
import { ProcessCopy } from './process/copy.ts'
import { environmentOf } from './process/environment.ts'
import { prepare } from './process/prepare.ts'

const IMAGES = new Set(['internal_container', 'external_container'])

export class ProcessEngine extends PooledEngine {
  readonly name = 'process'

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
    for (const own of ['home', 'tmp']) fs.mkdirSync(join(folder, own), { recursive: true, mode: 0o700 })
    this.keep(unit)
    const launch = async () => {
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
    const limit = this.limits.disk_mb
    const all: [Pool, Ref][] = []
    this.each((pool, ref) => all.push([pool, ref]))
    for (const [pool, { deployment_id, revision_id }] of all)
      if ((await sizeOf(this.path(deployment_id, 'revisions', revision_id), limit)) > limit)
        pool.blameAll(`it wrote more than the ${limit} MB that it may`)
  }
}
