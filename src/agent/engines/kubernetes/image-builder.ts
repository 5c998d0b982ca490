// Builds images for a cluster with a container engine beside the agent, and pushes them to a registry.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { BuildPlan } from '../../../build-plan/build-plan.ts'
import { planSource } from '../../builds/source-plan.ts'
import { type Artifact, type BuildTask, PermanentError, type RevisionSpec, type SourceTree } from '../../engine.ts'
import { buildDockerfile, readBaseImages } from '../../images/build-image.ts'
import { type BaseImage, buildInBaseImage, buildSite } from '../../images/build-in-base-image.ts'
import { DEPLOYMENT_LABEL, OWNER_LABEL, REVISION_LABEL } from '../../images/container-labels.ts'
import { DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { explainPullFailure } from '../../images/image-failures.ts'
import { chooseBaseImage } from '../../images/language-images.ts'
import { pushImage } from '../../images/push-image.ts'
import { encodeLogin, parseDockerConfig, type RegistryLogin } from '../../images/registry-logins.ts'
import { buildSiteImage } from '../../images/site-image.ts'
import { removeRecursively } from '../../system/files.ts'
import { loginsFor, parseReference } from './image-reference.ts'
import type { KubernetesSettings } from './settings.ts'

type EngineObject = { Id: string; Labels?: Record<string, string> | null }
type InspectedImage = { Config?: { User?: string; Labels?: Record<string, string> | null } | null }
export type PushTarget = { repository: string; login: RegistryLogin | null }
/** Finds the user's login for an image. */
type FindLogin = (image: string) => Promise<RegistryLogin | null>
export type BuiltImage = Pick<Artifact, 'location' | 'start_command'> & Partial<Pick<Artifact, 'env' | 'health_path'>>

/** The user of applications built in the base image, unless the operator sets K8S_RUN_AS_USER. */
const DEFAULT_USER = 1000

export class ImageBuilder {
  readonly #settings: KubernetesSettings
  readonly #owner: string
  readonly #commandEnv: Record<string, string>
  readonly #buildingRevisions = new Set<string>()
  #api: Promise<DockerApi> | undefined

  constructor(settings: KubernetesSettings, agent_id: string, commandEnv: Record<string, string>) {
    this.#settings = settings
    this.#commandEnv = commandEnv
    this.#owner = createHash('sha256').update(`builds of ${agent_id}`).digest('hex').slice(0, 12)
  }

  /** Removes unfinished builds of an earlier agent, and the images and caches of removed deployments. */
  async open(deployments: string[]): Promise<void> {
    const api = await this.#connect()
    for (const { Id } of await this.#listOwned(api, 'containers')) await api.removeContainer(Id)
    const remains = [...(await this.#listOwned(api, 'images')), ...(await this.#listOwned(api, 'volumes'))]
    for (const deployment of new Set(remains.map(({ Labels }) => Labels?.[DEPLOYMENT_LABEL])))
      if (deployment && !deployments.includes(deployment)) await this.removeDeployment(deployment)
  }

  async build(
    spec: RevisionSpec,
    tree: SourceTree,
    target: PushTarget,
    loginFor: FindLogin,
    task: BuildTask,
  ): Promise<BuiltImage> {
    this.#buildingRevisions.add(spec.revision_id)
    try {
      const api = await this.#connect()
      const plan = planSource(tree, true, task)
      if (plan.provider === 'dockerfile')
        for (const image of readBaseImages(join(tree.folder, plan.root)))
          await this.#pullBaseImage(api, image, spec, await loginFor(image), task)
      const { id, ...commands } = await this.#buildImage(api, spec, tree, plan, task)
      task.signal.throwIfAborted()
      const digest = await pushImage({ api, id, ...target, tag: spec.revision_id, task })
      task.log(`Pushed ${target.repository}@${digest}`)
      // The newest image stays as a layer cache for the next build.
      await this.#removeImages(api, spec.deployment_id, id).catch(() => {})
      return { location: `${target.repository}@${digest}`, ...commands }
    } catch (error) {
      if (error instanceof DockerApiError && !task.signal.aborted)
        throw new PermanentError(`The image cannot be built: ${error.message}`)
      throw error
    } finally {
      this.#buildingRevisions.delete(spec.revision_id)
    }
  }

  async removeDeployment(deployment_id: string): Promise<void> {
    const api = await this.#connect()
    for (const { Id } of await this.#listOwned(api, 'containers', deployment_id)) await api.removeContainer(Id)
    await this.#removeImages(api, deployment_id)
    for (const { Id } of await this.#listOwned(api, 'volumes', deployment_id))
      await api.requestIfExists('DELETE', `/volumes/${Id}`)
  }

  findLogin(image: string): RegistryLogin | null {
    const file = this.#settings.build_docker_config
    if (file === null) return null
    let text: string
    try {
      text = fs.readFileSync(file, 'utf8')
    } catch {
      throw new PermanentError(
        'This agent cannot read the file that K8S_BUILD_DOCKER_CONFIG names. Ask the operator to correct the path.',
      )
    }
    return loginsFor(parseReference(image), parseDockerConfig('The file of K8S_BUILD_DOCKER_CONFIG', text))[0] ?? null
  }

  async #buildImage(
    api: DockerApi,
    spec: RevisionSpec,
    tree: SourceTree,
    plan: BuildPlan,
    task: BuildTask,
  ): Promise<{ id: string } & Omit<BuiltImage, 'location'>> {
    const { run_as_user } = this.#settings
    const job = { api, owner: this.#owner, spec, task }
    if (plan.provider !== 'dockerfile') {
      const user = run_as_user ?? DEFAULT_USER
      const base = this.#baseImageOf(api, plan, task)
      const planned = { ...job, base, plan, tree, commandEnv: this.#commandEnv, user }
      if (plan.site) {
        const { location } = await buildSite(planned, plan.site)
        const server = this.#baseImageOf(api, { provider: 'node', tools: [] }, task)
        const id = await buildSiteImage(job, server, location, user)
        await removeRecursively(location)
        return { id, start_command: null, health_path: null, env: {} }
      }
      const { location: id, ...commands } = await buildInBaseImage(planned)
      return { id, ...commands }
    }
    const id = await buildDockerfile(job, join(tree.folder, plan.root))
    const { Config } = await api.get<InspectedImage>(`/images/${id}/json`)
    // The cluster would refuse it too, but only after the push and the pull.
    if (run_as_user === null && !/^[1-9]\d*(:|$)/.test(Config?.User ?? ''))
      throw new PermanentError(
        'The image runs as root or sets its user by name, which the cluster does not allow. ' +
          'End the Dockerfile with a numeric USER above 0, like `USER 1000`.',
      )
    return { id, start_command: tree.start_command }
  }

  #baseImageOf(api: DockerApi, plan: Pick<BuildPlan, 'provider' | 'tools'>, task: BuildTask): BaseImage {
    const { build_base_image: all, build_base_images: of } = this.#settings
    const { image, warning } = chooseBaseImage(plan, { all, of })
    if (warning) task.log(warning, 'WARNING')
    const pin = async () => {
      if (!(await api.getIfExists(`/images/${image}/json`))) await this.#pull(api, image, this.findLogin(image), task)
      return image
    }
    return { name: image, pin }
  }

  /** Pulls images of other deployments again with the user's login, so that their registry decides on access. */
  async #pullBaseImage(
    api: DockerApi,
    image: string,
    spec: RevisionSpec,
    login: RegistryLogin | null,
    task: BuildTask,
  ): Promise<void> {
    const built = (await api.getIfExists<InspectedImage>(`/images/${image}/json`))?.Config?.Labels?.[DEPLOYMENT_LABEL]
    if (login || (built && built !== spec.deployment_id)) await this.#pull(api, image, login, task)
  }

  async #pull(api: DockerApi, image: string, login: RegistryLogin | null, { log, signal }: BuildTask): Promise<void> {
    log(`Pulling ${image}`)
    const { name, tag, digest } = parseReference(image)
    const headers = login ? { 'X-Registry-Auth': encodeLogin(login) } : {}
    try {
      const query = { fromImage: name, tag: digest ?? tag }
      for await (const _ of api.streamProgress('/images/create', { query, headers, signal }));
    } catch (error) {
      throw error instanceof DockerApiError && error.status
        ? new PermanentError(explainPullFailure(image, error.message))
        : error
    }
  }

  /** Removes a deployment's built images, except for `keep` and those of running builds. */
  async #removeImages(api: DockerApi, deployment_id: string, keep?: string): Promise<void> {
    for (const { Id, Labels } of await this.#listOwned(api, 'images', deployment_id)) {
      if (
        Id === keep ||
        (Labels?.[REVISION_LABEL] && this.#buildingRevisions.has(Labels[REVISION_LABEL]) && keep !== undefined)
      )
        continue
      try {
        await api.requestIfExists('DELETE', `/images/${Id}`, { query: { force: true } })
      } catch (error) {
        // The image is in use.
        if (!(error instanceof DockerApiError && error.status)) throw error
      }
    }
  }

  /** Filters by one label in the request and by the other one here: Podman finds no image for two labels. */
  async #listOwned(
    api: DockerApi,
    kind: 'containers' | 'images' | 'volumes',
    deployment_id?: string,
  ): Promise<EngineObject[]> {
    const filters = { label: [`${OWNER_LABEL}=${this.#owner}`] }
    const all = kind === 'volumes' ? await this.#listVolumes(api, filters) : await this.#listKind(api, kind, filters)
    return all.filter(({ Labels }) => deployment_id === undefined || Labels?.[DEPLOYMENT_LABEL] === deployment_id)
  }

  #listKind = (api: DockerApi, kind: string, filters: object) =>
    api.get<EngineObject[]>(`/${kind}/json`, { filters, ...(kind === 'containers' && { all: true }) })

  async #listVolumes(api: DockerApi, filters: object): Promise<EngineObject[]> {
    const { Volumes } = await api.get<{ Volumes: ({ Name: string } & EngineObject)[] | null }>('/volumes', { filters })
    return (Volumes ?? []).map(volume => ({ ...volume, Id: volume.Name }))
  }

  /** Connects on demand: the builder may be unreachable when the agent starts. */
  #connect(): Promise<DockerApi> {
    const open = async () => {
      const api = new DockerApi(this.#settings.build_socket!)
      await api.open()
      return api
    }
    this.#api ??= open().catch(error => {
      this.#api = undefined
      throw error
    })
    return this.#api
  }
}
