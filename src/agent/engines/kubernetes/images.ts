// What pods of a deployment run: an image by the digest that its tag means now, or one that is built of files; and what nodes pull it with.
import type { V1Secret } from '@kubernetes/client-node'
import { type Login, loginsIn } from '../container/secrets.ts'
import { type Artifact, type Events, Passing, type Task, type Tree, type Unit, Unworkable } from '../engine.ts'
import { Builder, type Place } from './builder.ts'
import type { Cluster } from './cluster.ts'
import { namespaceOf } from './names.ts'
import { type Pulls, placeOf } from './pulls.ts'
import { loginsFor, referenceOf } from './reference.ts'
import { digestOf, Untold } from './registry.ts'
import type { KubernetesSettings } from './settings.ts'

type Options = {
  settings: KubernetesSettings
  cluster: Cluster
  pulls: Pulls
  ask: Events['registry']
  agent_id: string
}

const BROUGHT = new Set(['internal_container', 'external_container'])
const PULL_SECRET = 'kubernetes.io/dockerconfigjson'

export class Images {
  readonly #settings: KubernetesSettings
  readonly #cluster: Cluster
  readonly #pulls: Pulls
  readonly #ask: Events['registry']
  readonly #builder: Builder | null
  #opened: Promise<unknown> = Promise.resolve()

  constructor({ settings, cluster, pulls, ask, agent_id }: Options) {
    this.#settings = settings
    this.#cluster = cluster
    this.#pulls = pulls
    this.#ask = ask
    this.#builder = settings.build_socket === null ? null : new Builder(settings, agent_id)
  }

  refuses({ source }: Unit): string | null {
    return BROUGHT.has(source) || this.#builder
      ? null
      : `This agent runs images in a Kubernetes cluster, and has nothing to build them with (\`${source}\`): ask whoever runs it to set K8S_BUILD_SOCKET, or push an image and deploy that.`
  }

  /** A builder that is away is no reason not to run what is there. */
  open(deployments: () => Promise<string[]>): void {
    const builder = this.#builder
    if (builder)
      this.#opened = deployments()
        .then(known => builder.open(known))
        .catch(() => {})
  }

  async prepare(unit: Unit, tree: Tree | null, task: Task): Promise<Artifact> {
    if (tree === null) {
      if (!unit.image_uri) throw new Unworkable('It names no image: patch source_revision_config.image_uri.')
      const location = await this.#pinned(unit, unit.image_uri, task)
      return { location, start_command: null, health_path: null, env: {}, commit: null }
    }
    await this.#opened
    const { health_path, env, commit } = tree
    const loginFor = async (image: string) => (await this.#logins(unit, image, task.log))[0] ?? null
    const built = await this.#builder!.build(unit, tree, await this.#place(unit), loginFor, task)
    return { ...built, health_path, env, commit }
  }

  /** What was built is still in its registry. */
  async has(unit: Unit, { location }: Artifact, { signal }: Task): Promise<boolean> {
    const { repository, login } = await this.#place(unit)
    const reference = referenceOf(location)
    if (reference.name !== repository) return false
    const plain = this.#settings.http_registries
    return digestOf(reference, login ? [login] : [], signal, { plain }).then(
      digest => digest === reference.digest,
      error => {
        if (error instanceof Untold) return false
        throw error
      },
    )
  }

  /** With what its pods are to pull its images with. */
  async pulling(unit: Unit, { location }: Artifact): Promise<Unit> {
    const { resources } = unit
    const beside = [...(resources.sidecars ?? []), ...(resources.init_containers ?? [])].map(({ image }) => image)
    const name = await this.#pulls.ensure(unit, [location, ...beside])
    if (name === null) return unit
    return {
      ...unit,
      resources: { ...resources, image_pull_secrets: [...(resources.image_pull_secrets ?? []), { name }] },
    }
  }

  async forget(deployment_id: string): Promise<void> {
    // What is left with a builder that is away goes when the next agent opens it.
    await this.#builder?.forget(deployment_id).catch(() => {})
  }

  async #place(unit: Unit): Promise<Place> {
    const { build_registry } = this.#settings
    if (build_registry !== null) {
      const repository = `${build_registry}/${unit.deployment_id}`
      return { repository, login: this.#builder!.login(repository) }
    }
    const credential = await this.#ask(unit)
    if (credential === null)
      throw new Unworkable(
        'There is no registry to push what is built to: ask whoever runs this agent to set K8S_BUILD_REGISTRY, or whoever runs the installation to give it a registry.',
      )
    const { registry, username, password } = credential
    return { repository: placeOf(credential), login: { serveraddress: registry, username, password } }
  }

  /** So that all copies run the same one, whatever the tag means tomorrow. A node may reach what the agent does not. */
  async #pinned(unit: Unit, image: string, { log, signal }: Task): Promise<string> {
    const reference = referenceOf(image)
    if (reference.digest !== null) return image
    try {
      const logins = await this.#logins(unit, image, log)
      const digest = await digestOf(reference, logins, signal, { plain: this.#settings.http_registries })
      const pinned = `${reference.name}@${digest}`
      log(`${image} is ${pinned} now`)
      return pinned
    } catch (error) {
      if (!(error instanceof Untold)) throw error
      log(
        `What the tag of ${image} means cannot be told (${error.message}), so each node finds out for itself.`,
        'WARNING',
      )
      return image
    }
  }

  /** What cannot be had is left out: some images need none. */
  async #logins(unit: Unit, image: string, log: Task['log']): Promise<Login[]> {
    const left = (error: Error) => {
      if (error instanceof Passing) throw error
      log(`One of its credentials cannot be used: ${error.message}`, 'WARNING')
      return null
    }
    const names = [...(unit.resources.image_pull_secrets ?? []).map(({ name }) => name), ...this.#settings.pull_secrets]
    const logins: Login[] = []
    for (const name of new Set(names)) {
      const secret = await this.#cluster.read<V1Secret>('Secret', namespaceOf(this.#settings, unit), name).catch(left)
      const data = secret?.type === PULL_SECRET ? secret.data?.['.dockerconfigjson'] : undefined
      try {
        if (data) logins.push(...loginsIn(`The Secret ${name}`, Buffer.from(data, 'base64').toString()))
      } catch (error) {
        left(error as Error)
      }
    }
    const own = await this.#ask(unit, image).catch(left)
    if (own) logins.push({ serveraddress: placeOf(own), username: own.username, password: own.password })
    return loginsFor(referenceOf(image), logins)
  }
}
