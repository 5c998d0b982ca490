// Keeps the databases and Redis of deployments: made once, found by their labels, made anew where they are to be other.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DEPLOYMENT_LABEL, OWNER_LABEL, PART_LABEL, ROLE_LABEL, resourcePrefix } from '../../images/container-labels.ts'
import type { InspectedContainer } from '../../images/container-log.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { explainPullFailure } from '../../images/image-failures.ts'
import { readJson, writeJson } from '../../system/files.ts'
import type { RevisionSpec } from '../engine.ts'
import { imageName, imageTag } from './images.ts'
import type { ListedContainer } from './replica.ts'
import {
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
} from './store-specs.ts'

/** What the copies of a deployment are given: variables, and names that the engine does not know by itself. */
export type StoreAccess = { env: Record<string, string>; hosts: string[] }
/** What is kept of a deployment's: what was wanted last, and what its copies are given since it was there. */
type SavedStores = { wishes: StoreRequest[]; given: StoreAccess | null }
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

  /** They take connections when it returns; otherwise it throws what is wrong. Its network is there. */
  async ensure(deployment_id: string, wishes: StoreRequest[], signal: AbortSignal): Promise<StoreAccess> {
    const given: StoreAccess = { env: {}, hosts: [] }
    for (const wish of wishes) {
      const image = this.#images[wish.kind]
      await this.#pull(image, signal)
      signal.throwIfAborted()
      const password = await this.#ensurePassword(deployment_id, wish.kind)
      const store = storeSpecOf(wish, { owner: this.#owner, deployment_id, image, password })
      const id = await this.#ensureContainer(deployment_id, store)
      if (!(await this.#execSucceeds(id, store.readyCommand('127.0.0.1'))))
        throw new Error(await this.#describeFailure(id, wish.kind))
      // Not every engine has names in its networks.
      if (!(await this.#execSucceeds(id, store.readyCommand(wish.kind))))
        given.hosts.push(await this.#hostEntry(id, deployment_id, wish))
      Object.assign(given.env, store.env)
    }
    return given
  }

  /** The deployments of which one does not run, or not where its copies were told. */
  async listBroken(folderOf: (deployment_id: string) => string): Promise<Set<string>> {
    const all = await this.#listContainers()
    const astray = all.filter(({ State, Labels, NetworkSettings }) => {
      if (State !== 'running') return true
      const [deployment_id, kind] = [Labels[DEPLOYMENT_LABEL]!, Labels[PART_LABEL]!]
      const told = readSavedStores(folderOf(deployment_id)).given?.hosts.find(host => host.startsWith(`${kind}:`))
      const address = NetworkSettings?.Networks?.[resourcePrefix(this.#owner, deployment_id)]?.IPAddress
      return told !== undefined && address !== undefined && told !== `${kind}:${address}`
    })
    return new Set(astray.map(({ Labels }) => Labels[DEPLOYMENT_LABEL]!))
  }

  /** What they keep is kept. */
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
    const filters = this.#filters(`${DEPLOYMENT_LABEL}=${deployment_id}`, `${PART_LABEL}=${kind}`)
    const { Volumes } = await this.#api.get<{ Volumes: Volume[] | null }>('/volumes', { filters })
    const kept = Volumes?.[0]?.Labels?.[PASSWORD_LABEL]
    if (kept) return kept
    const password = randomBytes(24).toString('base64url')
    await this.#api.post('/volumes/create', storeVolumeOf(kind, { owner: this.#owner, deployment_id, password }).body)
    return password
  }

  /** Its container, by a name that only one can have. */
  async #ensureContainer(deployment_id: string, { kind, container }: StoreSpec): Promise<string> {
    const [there] = await this.#listContainers(`${DEPLOYMENT_LABEL}=${deployment_id}`, `${PART_LABEL}=${kind}`)
    const wanted = (container.body.Labels as Record<string, string>)[MADE_FROM_LABEL]
    if (there?.Labels[MADE_FROM_LABEL] === wanted) {
      if (there!.State !== 'running') await this.#api.post(`/containers/${there!.Id}/start`)
      return there!.Id
    }
    if (there) await this.#remove(there.Id)
    const { Id } = await this.#api.post<{ Id: string }>('/containers/create', container.body, { name: container.name })
    await this.#api.post(`/containers/${Id}/start`)
    return Id
  }

  async #remove(id: string): Promise<void> {
    const within = STOP_SECONDS * 1000 + 30_000
    await this.#api.requestIfExists('POST', `/containers/${id}/stop`, { query: { t: STOP_SECONDS }, timeoutMs: within })
    await this.#api.removeContainer(id)
  }

  /** In one that does not run, nothing does. */
  #execSucceeds(id: string, command: string[]): Promise<boolean> {
    return this.#api.exec(id, command).then(
      code => code === 0,
      () => false,
    )
  }

  async #hostEntry(id: string, deployment_id: string, { kind }: StoreRequest): Promise<string> {
    const { NetworkSettings } = await this.#api.get<{
      NetworkSettings: { Networks: Record<string, { IPAddress: string }> }
    }>(`/containers/${id}/json`)
    return `${kind}:${NetworkSettings.Networks[resourcePrefix(this.#owner, deployment_id)]!.IPAddress}`
  }

  async #describeFailure(id: string, kind: StoreKind): Promise<string> {
    const what = kind === 'database' ? 'The database' : 'Redis'
    const { State } = await this.#api.get<InspectedContainer>(`/containers/${id}/json`)
    const last: string[] = []
    await this.#api.streamLog(id, { follow: false, since: 0 }, ({ message }) => void last.push(message))
    const said = last.slice(-10).join('\n') || 'nothing'
    return `${what} does not take connections${State.Running ? ' yet' : `: it ended with code ${State.ExitCode}`}. Its last lines:\n${said}`
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
/** The addresses that its copies were given, which hold passwords. */
export const readStoreSecrets = (folder: string): string[] => Object.values(readSavedStores(folder).given?.env ?? {})

/** What an older revision asked for stays, since that one may serve still. Whether it is more than there was. */
export function saveStoreRequests(folder: string, unit: RevisionSpec): boolean {
  const { wishes, given } = readSavedStores(folder)
  const wanted = storeRequestsOf(unit)
  const others = wishes.filter(({ kind }) => !wanted.some(one => one.kind === kind))
  writeJson(storesFile(folder), { wishes: [...wanted, ...others], given } satisfies SavedStores)
  return wanted.some(({ kind }) => !given?.env[URI_VARIABLES[kind]])
}

/** False where the copies that run know it by another address. */
export function saveStoreAccess(folder: string, given: StoreAccess): boolean {
  const before = readSavedStores(folder)
  writeJson(storesFile(folder), { ...before, given } satisfies SavedStores)
  return before.given?.hosts.every(host => given.hosts.includes(host)) ?? true
}

/** Of what the deployment has, what that revision asked for. */
export function storeAccessFor(unit: RevisionSpec, folder: string): StoreAccess {
  const wanted = storeRequestsOf(unit).map(({ kind }) => URI_VARIABLES[kind])
  if (wanted.length === 0) return { env: {}, hosts: [] }
  const { given } = readSavedStores(folder)
  if (!given || wanted.some(name => !given.env[name])) throw new Error('its database or Redis is not there yet')
  return { env: Object.fromEntries(wanted.map(name => [name, given.env[name]!])), hosts: given.hosts }
}
