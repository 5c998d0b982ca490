// What pods of a deployment run: an image by the digest that its tag means now, or one that is built of files; and what nodes pull it with.
import type { V1Secret } from '@kubernetes/client-node'
import { parseDockerConfig, type RegistryLogin } from '../../images/registry-logins.ts'
import {
  type Artifact,
  type BuildTask,
  type EngineEvents,
  PermanentError,
  type RevisionSpec,
  type SourceTree,
  TransientError,
} from '../engine.ts'
import type { Cluster } from './cluster.ts'
import { DigestUnavailable, resolveDigest } from './digest-resolver.ts'
import { ImageBuilder, type PushTarget } from './image-builder.ts'
import { loginsFor, parseReference } from './image-reference.ts'
import { namespaceOf } from './names.ts'
import { type PullSecrets, repositoryOf } from './pull-secrets.ts'
import type { KubernetesSettings } from './settings.ts'

type ImagesOptions = {
  settings: KubernetesSettings
  cluster: Cluster
  pullSecrets: PullSecrets
  requestCredential: EngineEvents['registryCredential']
  agent_id: string
}

const IMAGE_SOURCES = new Set(['internal_container', 'external_container'])
const PULL_SECRET_TYPE = 'kubernetes.io/dockerconfigjson'

export class Images {
  readonly #settings: KubernetesSettings
  readonly #cluster: Cluster
  readonly #pullSecrets: PullSecrets
  readonly #requestCredential: EngineEvents['registryCredential']
  readonly #builder: ImageBuilder | null
  #builderOpened: Promise<unknown> = Promise.resolve()

  constructor({ settings, cluster, pullSecrets: pulls, requestCredential: ask, agent_id }: ImagesOptions) {
    this.#settings = settings
    this.#cluster = cluster
    this.#pullSecrets = pulls
    this.#requestCredential = ask
    this.#builder = settings.build_socket === null ? null : new ImageBuilder(settings, agent_id)
  }

  refusalReason({ source }: RevisionSpec): string | null {
    return IMAGE_SOURCES.has(source) || this.#builder
      ? null
      : `This agent runs images in a Kubernetes cluster, and has nothing to build them with (\`${source}\`): ask whoever runs it to set K8S_BUILD_SOCKET, or push an image and deploy that.`
  }

  /** A builder that is away is no reason not to run what is there. */
  open(deployments: () => Promise<string[]>): void {
    const builder = this.#builder
    if (builder)
      this.#builderOpened = deployments()
        .then(known => builder.open(known))
        .catch(() => {})
  }

  async prepare(unit: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    if (tree === null) {
      if (!unit.image_uri) throw new PermanentError('It names no image: patch source_revision_config.image_uri.')
      const location = await this.#pinImage(unit, unit.image_uri, task)
      return { location, start_command: null, health_path: null, env: {}, commit: null }
    }
    await this.#builderOpened
    const { health_path, env, commit } = tree
    const loginFor = async (image: string) => (await this.#findLogins(unit, image, task.log))[0] ?? null
    const built = await this.#builder!.build(unit, tree, await this.#pushTarget(unit), loginFor, task)
    return { ...built, health_path, env, commit }
  }

  /** What was built is still in its registry. */
  async isInRegistry(unit: RevisionSpec, { location }: Artifact, { signal }: BuildTask): Promise<boolean> {
    const { repository, login } = await this.#pushTarget(unit)
    const reference = parseReference(location)
    if (reference.name !== repository) return false
    const plain = this.#settings.http_registries
    return resolveDigest(reference, login ? [login] : [], signal, { httpRegistries: plain }).then(
      digest => digest === reference.digest,
      error => {
        if (error instanceof DigestUnavailable) return false
        throw error
      },
    )
  }

  /** With what its pods are to pull its images with. */
  async withPullSecret(unit: RevisionSpec, { location }: Artifact): Promise<RevisionSpec> {
    const { resources } = unit
    const beside = [...(resources.sidecars ?? []), ...(resources.init_containers ?? [])].map(({ image }) => image)
    const name = await this.#pullSecrets.ensure(unit, [location, ...beside])
    if (name === null) return unit
    return {
      ...unit,
      resources: { ...resources, image_pull_secrets: [...(resources.image_pull_secrets ?? []), { name }] },
    }
  }

  async forget(deployment_id: string): Promise<void> {
    // What is left with a builder that is away goes when the next agent opens it.
    await this.#builder?.removeDeployment(deployment_id).catch(() => {})
  }

  async #pushTarget(unit: RevisionSpec): Promise<PushTarget> {
    const { build_registry } = this.#settings
    if (build_registry !== null) {
      const repository = `${build_registry}/${unit.deployment_id}`
      return { repository, login: this.#builder!.findLogin(repository) }
    }
    const credential = await this.#requestCredential(unit)
    if (credential === null)
      throw new PermanentError(
        'There is no registry to push what is built to: ask whoever runs this agent to set K8S_BUILD_REGISTRY, or whoever runs the installation to give it a registry.',
      )
    const { registry, username, password } = credential
    return { repository: repositoryOf(credential), login: { serveraddress: registry, username, password } }
  }

  /** So that all copies run the same one, whatever the tag means tomorrow. A node may reach what the agent does not. */
  async #pinImage(unit: RevisionSpec, image: string, { log, signal }: BuildTask): Promise<string> {
    const reference = parseReference(image)
    if (reference.digest !== null) return image
    try {
      const logins = await this.#findLogins(unit, image, log)
      const digest = await resolveDigest(reference, logins, signal, { httpRegistries: this.#settings.http_registries })
      const pinned = `${reference.name}@${digest}`
      log(`${image} is ${pinned} now`)
      return pinned
    } catch (error) {
      if (!(error instanceof DigestUnavailable)) throw error
      log(
        `What the tag of ${image} means cannot be told (${error.message}), so each node finds out for itself.`,
        'WARNING',
      )
      return image
    }
  }

  /** What cannot be had is left out: some images need none. */
  async #findLogins(unit: RevisionSpec, image: string, log: BuildTask['log']): Promise<RegistryLogin[]> {
    const left = (error: Error) => {
      if (error instanceof TransientError) throw error
      log(`One of its credentials cannot be used: ${error.message}`, 'WARNING')
      return null
    }
    const names = [...(unit.resources.image_pull_secrets ?? []).map(({ name }) => name), ...this.#settings.pull_secrets]
    const logins: RegistryLogin[] = []
    for (const name of new Set(names)) {
      const secret = await this.#cluster.read<V1Secret>('Secret', namespaceOf(this.#settings, unit), name).catch(left)
      const data = secret?.type === PULL_SECRET_TYPE ? secret.data?.['.dockerconfigjson'] : undefined
      try {
        if (data) logins.push(...parseDockerConfig(`The Secret ${name}`, Buffer.from(data, 'base64').toString()))
      } catch (error) {
        left(error as Error)
      }
    }
    const own = await this.#requestCredential(unit, image).catch(left)
    if (own) logins.push({ serveraddress: repositoryOf(own), username: own.username, password: own.password })
    return loginsFor(parseReference(image), logins)
  }
}
