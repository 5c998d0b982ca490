// Keeps the databases and Redis of deployments: made once, found by their labels, made anew where they are to be other.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { readJson, writeJson } from '../../files.ts'
import type { Unit } from '../engine.ts'
import { type ContainerApi, EngineFailure } from './api.ts'
import type { Listed } from './copy.ts'
import { pullFailure } from './failures.ts'
import { nameOf, tagOf } from './images.ts'
import type { Inspected } from './log.ts'
import { DEPLOYMENT, networkName, OWNER, PART, ROLE } from './spec.ts'
import {
  type Kind,
  MADE_FROM,
  PASSWORD,
  STORE,
  type Store,
  storeOf,
  VARIABLES,
  volumeOf,
  type Wish,
  wishesOf,
} from './stores.ts'

/** What the copies of a deployment are given: variables, and names that the engine does not know by itself. */
export type Given = { env: Record<string, string>; hosts: string[] }
/** What is kept of a deployment's: what was wanted last, and what its copies are given since it was there. */
type Kept = { wishes: Wish[]; given: Given | null }
type Volume = { Name: string; Labels: Record<string, string> | null }

const STOP_SECONDS = 30
const PULL_WITHIN = 15 * 60_000

export class Keeper {
  readonly #api: ContainerApi
  readonly #owner: string
  readonly #images: Record<Kind, string>

  constructor(api: ContainerApi, owner: string, images: Record<Kind, string>) {
    this.#api = api
    this.#owner = owner
    this.#images = images
  }

  /** They take connections when it returns; otherwise it throws what is wrong. Its network is there. */
  async ensure(deployment_id: string, wishes: Wish[], signal: AbortSignal): Promise<Given> {
    const given: Given = { env: {}, hosts: [] }
    for (const wish of wishes) {
      const image = this.#images[wish.kind]
      await this.#pull(image, signal)
      signal.throwIfAborted()
      const password = await this.#password(deployment_id, wish.kind)
      const store = storeOf(wish, { owner: this.#owner, deployment_id, image, password })
      const id = await this.#run(deployment_id, store)
      if (!(await this.#succeeds(id, store.asks('127.0.0.1')))) throw new Error(await this.#trouble(id, wish.kind))
      // Not every engine has names in its networks.
      if (!(await this.#succeeds(id, store.asks(wish.kind))))
        given.hosts.push(await this.#host(id, deployment_id, wish))
      Object.assign(given.env, store.env)
    }
    return given
  }

  /** The deployments of which one does not run, or not where its copies were told. */
  async astray(folderOf: (deployment_id: string) => string): Promise<Set<string>> {
    const all = await this.#containers()
    const astray = all.filter(({ State, Labels, NetworkSettings }) => {
      if (State !== 'running') return true
      const [deployment_id, kind] = [Labels[DEPLOYMENT]!, Labels[PART]!]
      const told = keptIn(folderOf(deployment_id)).given?.hosts.find(host => host.startsWith(`${kind}:`))
      const address = NetworkSettings?.Networks?.[networkName(this.#owner, deployment_id)]?.IPAddress
      return told !== undefined && address !== undefined && told !== `${kind}:${address}`
    })
    return new Set(astray.map(({ Labels }) => Labels[DEPLOYMENT]!))
  }

  /** What they keep is kept. */
  async stop(): Promise<void> {
    await Promise.all((await this.#containers()).map(({ Id }) => this.#remove(Id)))
  }

  async #pull(image: string, ending: AbortSignal): Promise<void> {
    if (await this.#api.quietly('GET', `/images/${image}/json`)) return
    const query = { fromImage: nameOf(image), tag: tagOf(image) }
    try {
      const signal = AbortSignal.any([ending, AbortSignal.timeout(PULL_WITHIN)])
      for await (const _ of this.#api.progress('/images/create', { query, signal }));
    } catch (error) {
      throw error instanceof EngineFailure && error.status !== 0 ? new Error(pullFailure(image, error.message)) : error
    }
  }

  async #password(deployment_id: string, kind: Kind): Promise<string> {
    const filters = this.#filters(`${DEPLOYMENT}=${deployment_id}`, `${PART}=${kind}`)
    const { Volumes } = await this.#api.get<{ Volumes: Volume[] | null }>('/volumes', { filters })
    const kept = Volumes?.[0]?.Labels?.[PASSWORD]
    if (kept) return kept
    const password = randomBytes(24).toString('base64url')
    await this.#api.post('/volumes/create', volumeOf(kind, { owner: this.#owner, deployment_id, password }).body)
    return password
  }

  /** Its container, by a name that only one can have. */
  async #run(deployment_id: string, { kind, container }: Store): Promise<string> {
    const [there] = await this.#containers(`${DEPLOYMENT}=${deployment_id}`, `${PART}=${kind}`)
    const wanted = (container.body.Labels as Record<string, string>)[MADE_FROM]
    if (there?.Labels[MADE_FROM] === wanted) {
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
    await this.#api.quietly('POST', `/containers/${id}/stop`, { query: { t: STOP_SECONDS }, within })
    await this.#api.discard(id)
  }

  /** In one that does not run, nothing does. */
  #succeeds(id: string, command: string[]): Promise<boolean> {
    return this.#api.exec(id, command).then(
      code => code === 0,
      () => false,
    )
  }

  async #host(id: string, deployment_id: string, { kind }: Wish): Promise<string> {
    const { NetworkSettings } = await this.#api.get<{
      NetworkSettings: { Networks: Record<string, { IPAddress: string }> }
    }>(`/containers/${id}/json`)
    return `${kind}:${NetworkSettings.Networks[networkName(this.#owner, deployment_id)]!.IPAddress}`
  }

  async #trouble(id: string, kind: Kind): Promise<string> {
    const what = kind === 'database' ? 'The database' : 'Redis'
    const { State } = await this.#api.get<Inspected>(`/containers/${id}/json`)
    const last: string[] = []
    await this.#api.log(id, { follow: false, since: 0 }, ({ message }) => void last.push(message))
    const said = last.slice(-10).join('\n') || 'nothing'
    return `${what} does not take connections${State.Running ? ' yet' : `: it ended with code ${State.ExitCode}`}. Its last lines:\n${said}`
  }

  #containers(...labels: string[]): Promise<Listed[]> {
    return this.#api.get<Listed[]>('/containers/json', { all: true, filters: this.#filters(...labels) })
  }

  #filters(...labels: string[]) {
    return { label: [`${OWNER}=${this.#owner}`, `${ROLE}=${STORE}`, ...labels] }
  }
}

const fileIn = (folder: string) => join(folder, 'stores.json')
const keptIn = (folder: string): Kept => readJson<Kept>(fileIn(folder)) ?? { wishes: [], given: null }

export const wishesIn = (folder: string): Wish[] => keptIn(folder).wishes
/** The addresses that its copies were given, which hold passwords. */
export const secretsIn = (folder: string): string[] => Object.values(keptIn(folder).given?.env ?? {})

/** What an older revision asked for stays, since that one may serve still. Whether it is more than there was. */
export function want(folder: string, unit: Unit): boolean {
  const { wishes, given } = keptIn(folder)
  const wanted = wishesOf(unit)
  const others = wishes.filter(({ kind }) => !wanted.some(one => one.kind === kind))
  writeJson(fileIn(folder), { wishes: [...wanted, ...others], given } satisfies Kept)
  return wanted.some(({ kind }) => !given?.env[VARIABLES[kind]])
}

/** False where the copies that run know it by another address. */
export function give(folder: string, given: Given): boolean {
  const before = keptIn(folder)
  writeJson(fileIn(folder), { ...before, given } satisfies Kept)
  return before.given?.hosts.every(host => given.hosts.includes(host)) ?? true
}

/** Of what the deployment has, what that revision asked for. */
export function givenTo(unit: Unit, folder: string): Given {
  const wanted = wishesOf(unit).map(({ kind }) => VARIABLES[kind])
  if (wanted.length === 0) return { env: {}, hosts: [] }
  const { given } = keptIn(folder)
  if (!given || wanted.some(name => !given.env[name])) throw new Error('its database or Redis is not there yet')
  return { env: Object.fromEntries(wanted.map(name => [name, given.env[name]!])), hosts: given.hosts }
}
