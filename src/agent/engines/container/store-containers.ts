// Runs the databases and Redis of deployments as containers: finds them by label, recreates them after a change.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { RevisionSpec } from '../../engine.ts'
import { DEPLOYMENT_LABEL, OWNER_LABEL, PART_LABEL, ROLE_LABEL, resourcePrefix } from '../../images/container-labels.ts'
import type { InspectedContainer } from '../../images/container-log.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { explainPullFailure } from '../../images/image-failures.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { removeVolume } from './disks.ts'
import { imageName, imageTag } from './images.ts'
import type { ListedContainer } from './replica.ts'
import {
  DATA_FOLDER,
  DATA_LABEL,
  MADE_FROM_LABEL,
  PASSWORD_LABEL,
  STORE_ROLE,
  type StoreKind,
  type StoreRequest,
  type StoreSpec,
  storeRequestsOf,
  storeSpecOf,
  storeVolumeOf,
  URI_VARIABLES,
  walFolderOf,
} from './store-specs.ts'

/** The variables of replicas, and host entries (`name:address`) for an engine without DNS in its networks. */
export type StoreAccess = { env: Record<string, string>; hosts: string[] }
/** Stored as JSON. `given` is null before the stores were ready. */
type SavedStores = {
  wishes: StoreRequest[]
  given: StoreAccess | null
  /** The data folder of the database, once a restore has made another one. */
  data?: string
  /** A data folder to remove: of a restore that has not ended, or the one that it replaced. */
  unused?: string | undefined
}
type Volume = { Name: string; Labels: Record<string, string> | null }

const STOP_SECONDS = 30
const PULL_TIMEOUT_MS = 15 * 60_000

export class StoreContainers {
  readonly #api: DockerApi
  readonly #owner: string
  readonly #images: Record<StoreKind, string>

  constructor(api: DockerApi, owner: string, images: Record<StoreKind, string>) {
    this.#api = api
    this.#owner = owner
    this.#images = images
  }

  /** Creates the stores, and throws if one does not accept connections yet. The network must exist. */
  async ensure(
    deployment_id: string,
    requests: StoreRequest[],
    data: string,
    signal: AbortSignal,
  ): Promise<StoreAccess> {
    const access: StoreAccess = { env: {}, hosts: [] }
    for (const request of requests) {
      const image = this.#images[request.kind]
      await this.#pull(image, signal)
      signal.throwIfAborted()
      const password = await this.#ensurePassword(deployment_id, request.kind)
      const store = storeSpecOf(request, { owner: this.#owner, deployment_id, image, password, data })
      const id = await this.#ensureContainer(deployment_id, store)
      if (!(await this.#execSucceeds(id, store.readyCommand('127.0.0.1'))))
        throw new Error(await this.#describeFailure(id, request.kind))
      if (request.kind === 'database') await this.#makeWalFolder(id, data)
      // Not every engine resolves names in its networks.
      if (!(await this.#execSucceeds(id, store.readyCommand(request.kind))))
        access.hosts.push(await this.#hostEntry(id, deployment_id, request))
      Object.assign(access.env, store.env)
    }
    return access
  }

  /** The deployments with a store that does not run, or whose address has changed. */
  async listBroken(folderOf: (deployment_id: string) => string): Promise<Set<string>> {
    const all = await this.#listContainers()
    const broken = all.filter(({ State, Labels, NetworkSettings }) => {
      if (State !== 'running') return true
      const [deployment_id, kind] = [Labels[DEPLOYMENT_LABEL]!, Labels[PART_LABEL]!]
      const hostEntry = readSavedStores(folderOf(deployment_id)).given?.hosts.find(host => host.startsWith(`${kind}:`))
      const address = NetworkSettings?.Networks?.[resourcePrefix(this.#owner, deployment_id)]?.IPAddress
      return hostEntry !== undefined && address !== undefined && hostEntry !== `${kind}:${address}`
    })
    return new Set(broken.map(({ Labels }) => Labels[DEPLOYMENT_LABEL]!))
  }

  async removeStore(deployment_id: string, kind: StoreKind): Promise<void> {
    const labels = [`${DEPLOYMENT_LABEL}=${deployment_id}`, `${PART_LABEL}=${kind}`]
    for (const { Id } of await this.#listContainers(...labels)) await this.#remove(Id)
    await removeVolume(this.#api, `${resourcePrefix(this.#owner, deployment_id)}-${kind}`)
  }

  async findRunning(deployment_id: string, kind: StoreKind): Promise<string | undefined> {
    const all = await this.#listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`, `${PART_LABEL}=${kind}`)
    return all.find(({ State }) => State === 'running')?.Id
  }

  /** Keeps the volumes. */
  async stop(): Promise<void> {
    await Promise.all((await this.#listContainers()).map(({ Id }) => this.#remove(Id)))
  }

  async #pull(image: string, ending: AbortSignal): Promise<void> {
    if (await this.#api.requestIfExists('GET', `/images/${image}/json`)) return
    const query = { fromImage: imageName(image), tag: imageTag(image) }
    try {
      const signal = AbortSignal.any([ending, AbortSignal.timeout(PULL_TIMEOUT_MS)])
      for await (const _ of this.#api.streamProgress('/images/create', { query, signal }));
    } catch (error) {
      throw error instanceof DockerApiError && error.status !== 0
        ? new Error(explainPullFailure(image, error.message))
        : error
    }
  }

  async #ensurePassword(deployment_id: string, kind: StoreKind): Promise<string> {
    const password = randomBytes(24).toString('base64url')
    const volume = storeVolumeOf(kind, { owner: this.#owner, deployment_id, password })
    const existing = (await this.#api.getIfExists<Volume>(`/volumes/${volume.name}`))?.Labels?.[PASSWORD_LABEL]
    if (existing) return existing
    await this.#api.post('/volumes/create', volume.body)
    return password
  }

  async #ensureContainer(deployment_id: string, { kind, container }: StoreSpec): Promise<string> {
    const [existing] = await this.#listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`, `${PART_LABEL}=${kind}`)
    const wantedHash = (container.body.Labels as Record<string, string>)[MADE_FROM_LABEL]
    if (existing?.Labels[MADE_FROM_LABEL] === wantedHash) {
      if (existing!.State !== 'running') await this.#api.post(`/containers/${existing!.Id}/start`)
      return existing!.Id
    }
    if (existing) await this.#remove(existing.Id)
    const { Id } = await this.#api.post<{ Id: string }>('/containers/create', container.body, { name: container.name })
    await this.#api.post(`/containers/${Id}/start`)
    return Id
  }

  async #remove(id: string): Promise<void> {
    await this.#api.stopContainer(id, STOP_SECONDS)
    await this.#api.removeContainer(id)
  }

  /** False also if the container does not run. */
  #execSucceeds(id: string, command: string[]): Promise<boolean> {
    return this.#api.exec(id, command).then(
      code => code === 0,
      () => false,
    )
  }

  /** The container knows it, too, if the folder of the deployment was lost. */
  async findDataFolder(deployment_id: string): Promise<string> {
    const [found] = await this.#listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`, `${PART_LABEL}=database`)
    return found?.Labels[DATA_LABEL] ?? DATA_FOLDER
  }

  /** For the user that owns the data. */
  async #makeWalFolder(id: string, data: string): Promise<void> {
    const script = 'mkdir -p "$1" && chown "$(stat -c %u:%g "$0")" "$1"'
    await this.#execSucceeds(id, ['sh', '-c', script, `/data/${data}`, `/data/${walFolderOf(data)}`])
  }

  async #hostEntry(id: string, deployment_id: string, { kind }: StoreRequest): Promise<string> {
    const { NetworkSettings } = await this.#api.get<{
      NetworkSettings: { Networks: Record<string, { IPAddress: string }> }
    }>(`/containers/${id}/json`)
    return `${kind}:${NetworkSettings.Networks[resourcePrefix(this.#owner, deployment_id)]!.IPAddress}`
  }

  async #describeFailure(id: string, kind: StoreKind): Promise<string> {
    const store = kind === 'database' ? 'The database' : 'Redis'
    const { State } = await this.#api.get<InspectedContainer>(`/containers/${id}/json`)
    const last: string[] = []
    await this.#api.streamLog(id, { follow: false, since: 0 }, ({ message }) => void last.push(message))
    const state = State.Running ? 'does not accept connections yet' : `ended with code ${State.ExitCode}`
    return `${store} ${state}. Its last lines:\n${last.slice(-10).join('\n') || '(none)'}`
  }

  #listContainers(...labels: string[]): Promise<ListedContainer[]> {
    return this.#api.get<ListedContainer[]>('/containers/json', { all: true, filters: this.#filters(...labels) })
  }

  #filters(...labels: string[]) {
    return { label: [`${OWNER_LABEL}=${this.#owner}`, `${ROLE_LABEL}=${STORE_ROLE}`, ...labels] }
  }
}

const storesFile = (folder: string) => join(folder, 'stores.json')
const readSavedStores = (folder: string): SavedStores =>
  readJson<SavedStores>(storesFile(folder)) ?? { wishes: [], given: null }

export const readStoreRequests = (folder: string): StoreRequest[] => readSavedStores(folder).wishes
/** The URLs of its stores, which contain passwords. */
export const readStoreSecrets = (folder: string): string[] => Object.values(readSavedStores(folder).given?.env ?? {})

/** Null before it was ready. */
export const readStoreUri = (folder: string, kind: StoreKind): string | null =>
  readSavedStores(folder).given?.env[URI_VARIABLES[kind]] ?? null
/** The login of its database, and its data folder. Undefined before the database was ready. */
export function readDatabase(folder: string): { password: string; data: string } | undefined {
  const { given, data = DATA_FOLDER } = readSavedStores(folder)
  const uri = given?.env[URI_VARIABLES.database]
  return uri === undefined ? undefined : { password: new URL(uri).password, data }
}
export const readDataFolder = (folder: string): string | undefined => readSavedStores(folder).data
export const readUnusedFolder = (folder: string): string | undefined => readSavedStores(folder).unused
export function saveDataFolders(folder: string, folders: Pick<SavedStores, 'data' | 'unused'>): void {
  writeJson(storesFile(folder), { ...readSavedStores(folder), ...folders } satisfies SavedStores)
}

/** Keeps the requests of older revisions, which may still serve. True if the revision needs another store. */
export function saveStoreRequests(folder: string, spec: RevisionSpec): boolean {
  const { wishes, given, ...rest } = readSavedStores(folder)
  const wanted = storeRequestsOf(spec)
  const others = wishes.filter(({ kind }) => !wanted.some(request => request.kind === kind))
  writeJson(storesFile(folder), { ...rest, wishes: [...wanted, ...others], given } satisfies SavedStores)
  return wanted.some(({ kind }) => !given?.env[URI_VARIABLES[kind]])
}

export function removeStoreRequest(folder: string, kind: StoreKind): void {
  const { wishes, given } = readSavedStores(folder)
  const { [URI_VARIABLES[kind]]: _, ...env } = given?.env ?? {}
  const others = wishes.filter(wish => wish.kind !== kind)
  writeJson(storesFile(folder), { wishes: others, given: given && { ...given, env } } satisfies SavedStores)
}

/** False if running replicas use an outdated address. */
export function saveStoreAccess(folder: string, access: StoreAccess): boolean {
  const previous = readSavedStores(folder)
  writeJson(storesFile(folder), { ...previous, given: access } satisfies SavedStores)
  return previous.given?.hosts.every(host => access.hosts.includes(host)) ?? true
}

/** Only the stores that this revision needs. */
export function storeAccessFor(spec: RevisionSpec, folder: string): StoreAccess {
  const wanted = storeRequestsOf(spec).map(({ kind }) => URI_VARIABLES[kind])
  if (wanted.length === 0) return { env: {}, hosts: [] }
  const { given } = readSavedStores(folder)
  if (!given || wanted.some(name => !given.env[name])) throw new Error('its database or Redis is not ready yet')
  return { env: Object.fromEntries(wanted.map(name => [name, given.env[name]!])), hosts: given.hosts }
}
