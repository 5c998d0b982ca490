// The engine that runs applications as containers of a Docker-compatible engine, behind a local router.
import { createHash, randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { ContainerApi } from './container/api.ts'
import { basesOf, buildDockerfile, buildInBase, hasDockerfile } from './container/build.ts'
import { asTheyGo, ContainerCopy, type Home, type Listed } from './container/copy.ts'
import { Images } from './container/images.ts'
import { give, givenTo, Keeper, secretsIn, want, wishesIn } from './container/keeper.ts'
import { refusal } from './container/refusal.ts'
import { Secrets } from './container/secrets.ts'
import {
  COPY,
  DEFAULT_PORT,
  DEPLOYMENT,
  imagesOf,
  networkName,
  OWNER,
  REVISION,
  ROLE,
  recipe,
} from './container/spec.ts'
import { STORE, type Kind as StoreKind, wishesOf } from './container/stores.ts'
import { type Artifact, type Events, type Ref, type Task, type Tree, type Unit, Unworkable } from './engine.ts'
import { type Options, PooledEngine } from './local/pooled.ts'

export type ContainerOptions = Options & {
  socket: string
  /** Tells this agent's containers from those of others that use the same engine. */
  owner: string
  /** What sources without a Dockerfile are built and run in. */
  base_image: string | null
  /** A folder of secrets, `<secret>/<key>`. */
  secrets: string | null
  /** The images of databases and of Redis. */
  stores: Record<StoreKind, string>
}

export class ContainerEngine extends PooledEngine {
  readonly name = 'container'
  readonly #api: ContainerApi
  readonly #owner: string
  readonly #base: string | null
  readonly #secrets: Secrets
  readonly #images: Images
  readonly #keeper: Keeper
  readonly #living = new Set<string>()
  readonly #building = new Set<string>()
  readonly #networks = new Map<string, Promise<void>>()
  #found: Listed[] = []

  constructor({ socket, owner, base_image, secrets, stores, ...options }: ContainerOptions) {
    super('container', options)
    this.#api = new ContainerApi(socket)
    // Names of containers are stricter than those of agents.
    this.#owner = createHash('sha256').update(owner).digest('hex').slice(0, 12)
    this.#base = base_image
    this.#secrets = new Secrets(secrets)
    this.#keeper = new Keeper(this.#api, this.#owner, stores)
    const registry: Events['registry'] = (of, image) => this.events.registry(of, image)
    this.#images = new Images(this.#api, this.#owner, this.#secrets, registry, join(options.home, 'images.json'))
  }

  refuses(unit: Unit): string | null {
    return refusal(unit)
  }

  override async open(events: Events): Promise<void> {
    await this.#api.open()
    this.#found = await this.#containers()
    for (const { Labels } of this.#found) {
      if (Labels[ROLE] === 'build' || Labels[ROLE] === STORE) continue
      const ref = { deployment_id: Labels[DEPLOYMENT]!, revision_id: Labels[REVISION]! }
      fs.mkdirSync(this.copiesOf(ref), { recursive: true, mode: 0o700 })
    }
    // Also where the folder was lost, what was made for a deployment makes it known.
    for (const kind of ['networks', 'volumes'] as const)
      for (const { Labels } of await this.#all(kind))
        fs.mkdirSync(this.path(Labels[DEPLOYMENT]!), { recursive: true, mode: 0o700 })
    await super.open(events)
    for (const id of await this.deployments()) events.hide(id, secretsIn(this.path(id)))
    await this.#sweep()
    this.every(this.limits.disk_ms, () => void this.#measure().catch(() => {}))
    this.every(this.limits.probe_ms, () => void this.#attend().catch(() => {}))
    for (const id of await this.deployments()) if (wishesIn(this.path(id)).length > 0) this.promised.start(id)
  }

  async provide(unit: Unit): Promise<void> {
    this.promised.start(unit.deployment_id, want(this.path(unit.deployment_id), unit))
  }

  protected async bring(deployment_id: string, signal: AbortSignal): Promise<void> {
    await this.#network(deployment_id)
    const folder = this.path(deployment_id)
    const given = await this.#keeper.ensure(deployment_id, wishesIn(folder), signal)
    this.events.hide(deployment_id, Object.values(given.env))
    if (give(folder, given)) return
    this.each((pool, ref) => {
      if (ref.deployment_id === deployment_id) pool.blameAll('its database or Redis has another address now')
    })
  }

  async prepare(unit: Unit, tree: Tree | null, task: Task): Promise<Artifact> {
    const images = await this.#beside(unit, task)
    const made = await this.#make(unit, tree, task)
    const artifact: Artifact = {
      ...{ env: {}, health_path: null, commit: null },
      ...(tree && { env: tree.env, health_path: tree.health_path, commit: tree.commit }),
      ...made,
    }
    return this.#settled(unit, artifact, images, task)
  }

  async reuse(unit: Unit, artifact: Artifact, task: Task): Promise<Artifact | null> {
    if (!(await this.#images.has(artifact.location))) return null
    return this.#settled(unit, artifact, await this.#beside(unit, task), task)
  }

  /** What the containers beside it run, as they were named and as they were pinned. */
  async #beside(unit: Unit, task: Task): Promise<Record<string, string>> {
    const folder = this.path(unit.deployment_id)
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    const images: Record<string, string> = {}
    for (const { image, fresh } of imagesOf(unit.resources))
      images[image] ??= await this.#images.pinned(image, { fresh, own: folder }, unit, task)
    return images
  }

  async #settled(unit: Unit, artifact: Artifact, images: Record<string, string>, task: Task): Promise<Artifact> {
    this.#images.keep(this.path(unit.deployment_id), unit.revision_id, { ...images, '': artifact.location })
    if (unit.parts.includes('redis')) {
      await this.provide(unit)
      await this.promised.wait(unit.deployment_id, task.signal)
    }
    // What it names and nobody has is told now, not by a crash.
    recipe(unit, artifact, { ...this.#place(unit, images), port: DEFAULT_PORT })
    return artifact
  }

  async start(unit: Unit, artifact: Artifact): Promise<void> {
    this.keep(unit)
    if (wishesOf(unit).length > 0) await this.provide(unit)
    const images = this.#images.of(this.path(unit.deployment_id), unit.revision_id)
    const home = this.#home(unit)
    fs.mkdirSync(home.folder, { recursive: true, mode: 0o700 })
    const launch = async () => {
      await this.#images.restore([artifact.location, ...Object.values(images)], unit)
      const port = (await this.#images.portOf(artifact.location).catch(() => undefined)) ?? DEFAULT_PORT
      const given = givenTo(unit, this.path(unit.deployment_id))
      const made = recipe(unit, artifact, { ...this.#place(unit, images), given, port })
      // Each time: whoever tidies up an engine takes networks that nobody is in.
      return ContainerCopy.launch(home, made, () => this.#network(unit.deployment_id))
    }
    // What it names and nobody has is told before anything is made.
    recipe(unit, artifact, { ...this.#place(unit, images), port: DEFAULT_PORT })
    this.run(unit, artifact, launch)
  }

  override async stop(ref: Ref): Promise<void> {
    await super.stop(ref)
    await this.#prune(ref.deployment_id)
  }

  override async remove(deployment_id: string): Promise<void> {
    await this.promised.forget(deployment_id)
    const running: Ref[] = []
    this.each((_, ref) => ref.deployment_id === deployment_id && running.push(ref))
    await Promise.all(running.map(ref => super.stop(ref)))
    const filter = `${DEPLOYMENT}=${deployment_id}`
    await this.#networks.get(deployment_id)?.catch(() => {})
    for (const { Id } of await this.#containers(filter)) await this.#api.discard(Id)
    for (const { Name } of await this.#all('volumes', filter))
      await this.#api.quietly('DELETE', `/volumes/${Name}`, { query: { force: true } })
    for (const { Name } of await this.#all('networks', filter)) await this.#api.quietly('DELETE', `/networks/${Name}`)
    await this.#prune(deployment_id, 0)
    await super.remove(deployment_id)
  }

  override async close(how: { stop: boolean }): Promise<void> {
    await super.close(how)
    if (how.stop) await this.#keeper.stop()
  }

  protected async adopt({ revision_id, deployment_id }: Ref): Promise<ContainerCopy[]> {
    const own = this.#found.filter(({ Labels }) => Labels[REVISION] === revision_id && Labels[ROLE] !== 'build')
    const home = this.#home({ revision_id, deployment_id })
    const copies = Object.entries(Object.groupBy(own, ({ Labels }) => Labels[COPY]!))
    const adopted = await Promise.all(copies.map(([id, containers]) => ContainerCopy.adopt(home, id, containers!)))
    return adopted.filter(copy => copy !== undefined)
  }

  /** What it runs from, and what starts it. */
  async #make(unit: Unit, tree: Tree | null, task: Task): Promise<Pick<Artifact, 'location' | 'start_command'>> {
    if (!tree) {
      if (!unit.image_uri) throw new Unworkable('It names no image: give one as source_revision_config.image_uri.')
      const own = this.path(unit.deployment_id)
      const location = await this.#images.pinned(unit.image_uri, { fresh: true, own }, unit, task)
      return { location, start_command: null }
    }
    this.#building.add(unit.revision_id)
    try {
      const job = { api: this.#api, owner: this.#owner, unit, tree, task }
      if (hasDockerfile(tree)) {
        const own = this.path(unit.deployment_id)
        for (const base of basesOf(tree)) await this.#images.begun(base, { fresh: false, own }, unit, task)
        return { location: await buildDockerfile(job), start_command: tree.start_command }
      }
      if (!this.#base)
        throw new Unworkable(
          'It has no Dockerfile, and this agent was given no base image to build it in: add a Dockerfile, or ask whoever runs the agent to name a base image.',
        )
      const base = await this.#images.pinned(this.#base, { fresh: false, own: null }, unit, task)
      const [location, start_command] = await buildInBase(base, job)
      return { location, start_command }
    } finally {
      this.#building.delete(unit.revision_id)
    }
  }

  #place({ deployment_id }: Ref, images: Record<string, string>) {
    const hidden = (values: Record<string, string>) => {
      this.events.hide(deployment_id, Object.values(values))
      return values
    }
    const secret: Secrets['value'] = (name, key) => hidden({ [key]: this.#secrets.value(name, key) })[key]!
    const secrets: Secrets['all'] = name => hidden(this.#secrets.all(name))
    return { owner: this.#owner, copy: randomBytes(6).toString('hex'), images, secret, secrets }
  }

  #home(ref: Ref): Home {
    return { api: this.#api, living: this.#living, folder: this.copiesOf(ref) }
  }

  /** An engine may allow two of one name: it is looked for first, by one at a time. */
  #network(deployment_id: string): Promise<void> {
    const coming =
      this.#networks.get(deployment_id) ??
      this.#makeNetwork(deployment_id).finally(() => this.#networks.delete(deployment_id))
    this.#networks.set(deployment_id, coming)
    return coming
  }

  async #makeNetwork(deployment_id: string): Promise<void> {
    if ((await this.#all('networks', `${DEPLOYMENT}=${deployment_id}`)).length) return
    const Name = networkName(this.#owner, deployment_id)
    const Labels = { [OWNER]: this.#owner, [DEPLOYMENT]: deployment_id }
    await this.#api.post('/networks/create', { Name, Driver: 'bridge', CheckDuplicate: true, Labels })
  }

  /** The engine starts again what ended; where it does not, we do. */
  async #attend(): Promise<void> {
    const ready = this.promised.ready
    if (ready.length === 0) return
    const astray = await this.#keeper.astray(id => this.path(id))
    for (const id of ready) if (astray.has(id)) this.promised.start(id)
  }

  async #prune(deployment_id: string, keep?: number): Promise<void> {
    const others = (await this.deployments()).filter(other => other !== deployment_id).map(other => this.path(other))
    const running = new Set<string>()
    this.each((_, { revision_id }) => running.add(revision_id))
    await this.#images.prune(deployment_id, this.path(deployment_id), { others, running, keep })
  }

  /** Removes what nobody knows: made by the last request of an agent that was killed, or left of what could not be removed. */
  async #sweep(): Promise<void> {
    for (const { Id, Labels } of await this.#containers()) {
      if (Labels[ROLE] === STORE) continue
      const known = Labels[ROLE] === 'build' ? this.#building.has(Labels[REVISION]!) : this.#living.has(Labels[COPY]!)
      // One that cannot be removed now keeps no other.
      if (!known) await this.#api.discard(Id).catch(() => {})
    }
    for (const { Name, Labels } of await this.#all('volumes'))
      if (Labels[COPY] && !this.#living.has(Labels[COPY])) await this.#api.quietly('DELETE', `/volumes/${Name}`)
  }

  /** Holds each copy to what it may write outside of its volumes. */
  async #measure(): Promise<void> {
    await this.#sweep()
    const limit = this.limits.disk_mb
    const full = (await this.#containers(`${ROLE}=app`, true)).filter(({ SizeRw = 0 }) => SizeRw > limit * 1024 * 1024)
    const copies = new Set(full.map(({ Labels }) => Labels[COPY]))
    this.each(pool => {
      for (const copy of pool.copies())
        if (copy instanceof ContainerCopy && copies.has(copy.id))
          pool.blame(copy, `it wrote more than the ${limit} MB that it may outside of its volumes`)
    })
  }

  async #containers(label?: string, size = false): Promise<Listed[]> {
    const filters = { label: [`${OWNER}=${this.#owner}`, ...(label ? [label] : [])] }
    return asTheyGo(await this.#api.get<Listed[]>('/containers/json', { all: true, size, filters }))
  }

  async #all(
    kind: 'networks' | 'volumes',
    label?: string,
  ): Promise<{ Name: string; Labels: Record<string, string> }[]> {
    const filters = { label: [`${OWNER}=${this.#owner}`, ...(label ? [label] : [])] }
    type Named = { Name: string; Labels: Record<string, string> }[]
    const said = await this.#api.get<Named | { Volumes: Named | null }>(`/${kind}`, { filters })
    return 'Volumes' in said ? (said.Volumes ?? []) : (said as Named)
  }
}
