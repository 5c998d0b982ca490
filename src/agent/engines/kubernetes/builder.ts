// Makes images of files for a cluster: built by a container engine beside the agent, pushed to a registry, run from there.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { ContainerApi, EngineFailure } from '../container/api.ts'
import { basesOf, buildDockerfile, buildInBase, hasDockerfile } from '../container/build.ts'
import { pullFailure } from '../container/failures.ts'
import { push } from '../container/push.ts'
import { type Login, loginOf, loginsIn } from '../container/secrets.ts'
import { DEPLOYMENT, OWNER, REVISION } from '../container/spec.ts'
import { type Task, type Tree, type Unit, Unworkable } from '../engine.ts'
import { loginsFor, referenceOf } from './reference.ts'
import type { KubernetesSettings } from './settings.ts'

type Found = { Id: string; Labels?: Record<string, string> | null }
type Inspected = { Config?: { User?: string; Labels?: Record<string, string> | null } | null }
/** Where it is pushed to, and with what. */
export type Place = { repository: string; login: Login | null }
/** What whoever deployed it may pull that image with. */
type LoginFor = (image: string) => Promise<Login | null>
export type Built = { location: string; start_command: string | null }

/** Who an application is that was built in the base image, unless the operator says who. */
const USER = 1000

export class Builder {
  readonly #settings: KubernetesSettings
  readonly #owner: string
  readonly #building = new Set<string>()
  #api: Promise<ContainerApi> | undefined

  constructor(settings: KubernetesSettings, agent_id: string) {
    this.#settings = settings
    this.#owner = createHash('sha256').update(`builds of ${agent_id}`).digest('hex').slice(0, 12)
  }

  /** Of an earlier agent: what it was building, and whatever is kept for deployments that are no more. */
  async open(deployments: string[]): Promise<void> {
    const api = await this.#opened()
    for (const { Id } of await this.#all(api, 'containers')) await api.discard(Id)
    const left = [...(await this.#all(api, 'images')), ...(await this.#all(api, 'volumes'))]
    for (const deployment of new Set(left.map(({ Labels }) => Labels?.[DEPLOYMENT])))
      if (deployment && !deployments.includes(deployment)) await this.forget(deployment)
  }

  async build(unit: Unit, tree: Tree, place: Place, loginFor: LoginFor, task: Task): Promise<Built> {
    this.#building.add(unit.revision_id)
    try {
      const api = await this.#opened()
      if (hasDockerfile(tree))
        for (const image of basesOf(tree)) await this.#begun(api, image, unit, await loginFor(image), task)
      const { id, start_command } = await this.#image(api, unit, tree, task)
      task.signal.throwIfAborted()
      const digest = await push({ api, id, ...place, tag: unit.revision_id, task })
      task.log(`Pushed ${place.repository}@${digest}`)
      // The newest stays: what the next one has in common with it is not built again.
      await this.#remove(api, unit.deployment_id, id).catch(() => {})
      return { location: `${place.repository}@${digest}`, start_command }
    } catch (error) {
      if (error instanceof EngineFailure && !task.signal.aborted)
        throw new Unworkable(`It cannot be built: ${error.message}`)
      throw error
    } finally {
      this.#building.delete(unit.revision_id)
    }
  }

  /** What is kept between its builds. */
  async forget(deployment_id: string): Promise<void> {
    const api = await this.#opened()
    for (const { Id } of await this.#all(api, 'containers', deployment_id)) await api.discard(Id)
    await this.#remove(api, deployment_id)
    for (const { Id } of await this.#all(api, 'volumes', deployment_id)) await api.quietly('DELETE', `/volumes/${Id}`)
  }

  login(image: string): Login | null {
    const file = this.#settings.build_docker_config
    if (file === null) return null
    let text: string
    try {
      text = fs.readFileSync(file, 'utf8')
    } catch {
      throw new Unworkable('This agent cannot read the file that K8S_BUILD_DOCKER_CONFIG names: ask whoever runs it.')
    }
    return loginsFor(referenceOf(image), loginsIn('The file of K8S_BUILD_DOCKER_CONFIG', text))[0] ?? null
  }

  async #image(
    api: ContainerApi,
    unit: Unit,
    tree: Tree,
    task: Task,
  ): Promise<{ id: string; start_command: string | null }> {
    const { build_base_image: base, run_as_user } = this.#settings
    const job = { api, owner: this.#owner, unit, tree, task }
    if (!hasDockerfile(tree)) {
      if (base === null)
        throw new Unworkable(
          'It has no Dockerfile, and this agent was given no base image to build it in: add a Dockerfile, or ask whoever runs the agent to set K8S_BUILD_BASE_IMAGE.',
        )
      if (!(await api.find(`/images/${base}/json`))) await this.#pull(api, base, this.login(base), task)
      const [id, start_command] = await buildInBase(base, { ...job, user: run_as_user ?? USER })
      return { id, start_command }
    }
    const id = await buildDockerfile(job)
    const { Config } = await api.get<Inspected>(`/images/${id}/json`)
    // The cluster would say so too, but only after it was pushed and pulled.
    if (run_as_user === null && !/^[1-9]\d*(:|$)/.test(Config?.User ?? ''))
      throw new Unworkable(
        'The image that its Dockerfile makes runs as root, or names its user by name, which a cluster does not let run: end the Dockerfile with a numeric USER above 0, like `USER 1000`.',
      )
    return { id, start_command: tree.start_command }
  }

  /** What a Dockerfile begins with: with their login, never the operator's; what was built for others here, only if its registry lets them have it. */
  async #begun(api: ContainerApi, image: string, unit: Unit, login: Login | null, task: Task): Promise<void> {
    const built = (await api.find<Inspected>(`/images/${image}/json`))?.Config?.Labels?.[DEPLOYMENT]
    if (login || (built && built !== unit.deployment_id)) await this.#pull(api, image, login, task)
  }

  async #pull(api: ContainerApi, image: string, login: Login | null, { log, signal }: Task): Promise<void> {
    log(`Pulling ${image}`)
    const { name, tag, digest } = referenceOf(image)
    const headers = login ? { 'X-Registry-Auth': loginOf(login) } : {}
    try {
      const query = { fromImage: name, tag: digest ?? tag }
      for await (const _ of api.progress('/images/create', { query, headers, signal }));
    } catch (error) {
      throw error instanceof EngineFailure && error.status ? new Unworkable(pullFailure(image, error.message)) : error
    }
  }

  /** Those that were built of a deployment, but the one to keep and those that are being built. */
  async #remove(api: ContainerApi, deployment_id: string, keep?: string): Promise<void> {
    for (const { Id, Labels } of await this.#all(api, 'images', deployment_id)) {
      if (Id === keep || (Labels?.[REVISION] && this.#building.has(Labels[REVISION]) && keep !== undefined)) continue
      try {
        await api.quietly('DELETE', `/images/${Id}`, { query: { force: true } })
      } catch (error) {
        // It is in use.
        if (!(error instanceof EngineFailure && error.status)) throw error
      }
    }
  }

  /** Podman finds no image that is asked for by two labels. */
  async #all(api: ContainerApi, kind: 'containers' | 'images' | 'volumes', deployment_id?: string): Promise<Found[]> {
    const filters = { label: [`${OWNER}=${this.#owner}`] }
    const all = kind === 'volumes' ? await this.#volumes(api, filters) : await this.#listed(api, kind, filters)
    return all.filter(({ Labels }) => deployment_id === undefined || Labels?.[DEPLOYMENT] === deployment_id)
  }

  #listed = (api: ContainerApi, kind: string, filters: object) =>
    api.get<Found[]>(`/${kind}/json`, { filters, ...(kind === 'containers' && { all: true }) })

  async #volumes(api: ContainerApi, filters: object): Promise<Found[]> {
    const { Volumes } = await api.get<{ Volumes: ({ Name: string } & Found)[] | null }>('/volumes', { filters })
    return (Volumes ?? []).map(one => ({ ...one, Id: one.Name }))
  }

  /** It may be away when the agent starts, and when a build begins. */
  #opened(): Promise<ContainerApi> {
    const open = async () => {
      const api = new ContainerApi(this.#settings.build_socket!)
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
