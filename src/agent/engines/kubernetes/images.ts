// The images of a cluster's pods: pins tags to digests, builds images from files, and finds credentials to pull them.
import type { V1Secret } from '@kubernetes/client-node'
import {
  type Artifact,
  type BuildTask,
  type EngineEvents,
  PermanentError,
  type RevisionSpec,
  type SourceTree,
  TransientError,
} from '../../engine.ts'
import { parseDockerConfig, type RegistryLogin } from '../../images/registry-logins.ts'
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
  commandEnv: Record<string, string>
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

  constructor({ settings, cluster, pullSecrets, requestCredential, agent_id, commandEnv }: ImagesOptions) {
    this.#settings = settings
    this.#cluster = cluster
    this.#pullSecrets = pullSecrets
    this.#requestCredential = requestCredential
    this.#builder = settings.build_socket === null ? null : new ImageBuilder(settings, agent_id, commandEnv)
  }

  refusalReason({ source }: RevisionSpec): string | null {
    return IMAGE_SOURCES.has(source) || this.#builder
      ? null
      : `This agent cannot build images, which the source \`${source}\` needs. ` +
          `Push an image and deploy it, or ask the operator to set K8S_BUILD_SOCKET.`
  }

  /** Deployments run without the builder, so a failure to open it is ignored. */
  open(deployments: () => Promise<string[]>): void {
    const builder = this.#builder
    if (builder)
      this.#builderOpened = deployments()
        .then(known => builder.open(known))
        .catch(() => {})
  }

  async prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    if (tree === null) {
      if (!spec.image_uri)
        throw new PermanentError('The deployment has no image. Set source_revision_config.image_uri.')
      const location = await this.#pinImage(spec, spec.image_uri, task)
      return { location, start_command: null, health_path: null, env: {}, commit: null }
    }
    await this.#builderOpened
    const { health_path, env, commit } = tree
    const loginFor = async (image: string) => (await this.#findLogins(spec, image, task.log))[0] ?? null
    const built = await this.#builder!.build(spec, tree, await this.#pushTarget(spec), loginFor, task)
    return { health_path, env, commit, ...built }
  }

  async isInRegistry(spec: RevisionSpec, { location }: Artifact, { signal }: BuildTask): Promise<boolean> {
    const { repository, login } = await this.#pushTarget(spec)
    const reference = parseReference(location)
    if (reference.name !== repository) return false
    const httpRegistries = this.#settings.http_registries
    return resolveDigest(reference, login ? [login] : [], signal, { httpRegistries }).then(
      digest => digest === reference.digest,
      error => {
        if (error instanceof DigestUnavailable) return false
        throw error
      },
    )
  }

  /** The spec with the Secret that its pods pull images with, if one is needed. */
  async withPullSecret(spec: RevisionSpec, { location }: Artifact): Promise<RevisionSpec> {
    const { resources } = spec
    const extraImages = [...(resources.sidecars ?? []), ...(resources.init_containers ?? [])].map(({ image }) => image)
    const name = await this.#pullSecrets.ensure(spec, [location, ...extraImages])
    if (name === null) return spec
    return {
      ...spec,
      resources: { ...resources, image_pull_secrets: [...(resources.image_pull_secrets ?? []), { name }] },
    }
  }

  async forget(deployment_id: string): Promise<void> {
    // If the builder is unreachable, the next agent that opens it removes the images.
    await this.#builder?.removeDeployment(deployment_id).catch(() => {})
  }

  async #pushTarget(spec: RevisionSpec): Promise<PushTarget> {
    const { build_registry } = this.#settings
    if (build_registry !== null) {
      const repository = `${build_registry}/${spec.deployment_id}`
      return { repository, login: this.#builder!.findLogin(repository) }
    }
    const credential = await this.#requestCredential(spec)
    if (credential === null)
      throw new PermanentError(
        'This agent has no registry for built images. ' +
          'Ask the operator to set K8S_BUILD_REGISTRY, or to give the installation a registry.',
      )
    const { registry, username, password } = credential
    return { repository: repositoryOf(credential), login: { serveraddress: registry, username, password } }
  }

  /** All replicas run the same image after the tag moves. Nodes may reach a registry that the agent cannot. */
  async #pinImage(spec: RevisionSpec, image: string, { log, signal }: BuildTask): Promise<string> {
    const reference = parseReference(image)
    if (reference.digest !== null) return image
    try {
      const logins = await this.#findLogins(spec, image, log)
      const digest = await resolveDigest(reference, logins, signal, { httpRegistries: this.#settings.http_registries })
      const pinned = `${reference.name}@${digest}`
      log(`Resolved ${image} to ${pinned}`)
      return pinned
    } catch (error) {
      if (!(error instanceof DigestUnavailable)) throw error
      log(`The digest of ${image} is unavailable (${error.message}). Each node resolves the tag itself.`, 'WARNING')
      return image
    }
  }

  /** Skips unusable credentials, because public images need none. */
  async #findLogins(spec: RevisionSpec, image: string, log: BuildTask['log']): Promise<RegistryLogin[]> {
    const skip = (error: Error) => {
      if (error instanceof TransientError) throw error
      log(`Skipped a pull credential: ${error.message}`, 'WARNING')
      return null
    }
    const names = [...(spec.resources.image_pull_secrets ?? []).map(({ name }) => name), ...this.#settings.pull_secrets]
    const logins: RegistryLogin[] = []
    for (const name of new Set(names)) {
      const secret = await this.#cluster.read<V1Secret>('Secret', namespaceOf(this.#settings, spec), name).catch(skip)
      const data = secret?.type === PULL_SECRET_TYPE ? secret.data?.['.dockerconfigjson'] : undefined
      try {
        if (data) logins.push(...parseDockerConfig(`The Secret ${name}`, Buffer.from(data, 'base64').toString()))
      } catch (error) {
        skip(error as Error)
      }
    }
    const credential = await this.#requestCredential(spec, image).catch(skip)
    if (credential)
      logins.push({
        serveraddress: repositoryOf(credential),
        username: credential.username,
        password: credential.password,
      })
    return loginsFor(parseReference(image), logins)
  }
}
