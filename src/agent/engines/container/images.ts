// The images that deployments run from: pulled, pinned by their digest, kept for a while, removed when nothing needs them.
import { join } from 'node:path'
import { readJson, writeJson } from '../../files.ts'
import { type Events, type Task, type Unit, Unworkable } from '../engine.ts'
import { type ContainerApi, EngineFailure } from './api.ts'
import { pullFailure } from './failures.ts'
import { loginOf, type Secrets } from './secrets.ts'
import { DEPLOYMENT, isPinned, type Labels, OWNER } from './spec.ts'

type Inspected = {
  Id: string
  RepoDigests?: string[] | null
  Config?: { ExposedPorts?: Record<string, object> | null; Labels?: Record<string, string> | null } | null
}
/** What a revision runs from: as it was named, and as it was pinned. */
type Kept = { revision_id: string; images: Record<string, string> }
type Wanted = { fresh: boolean; own: string | null }

/** Older ones of a deployment go: a rollback to those pulls by digest, or builds again. */
const KEPT = 3
const LINES_EVERY_MS = 1_000
const RESTORE_MS = 120_000

/** `running`: revisions of which copies run or are about to be started again. */
type Needs = { others: string[]; running: Set<string>; keep?: number | undefined }

export class Images {
  readonly #api: ContainerApi
  readonly #owner: string
  readonly #secrets: Secrets
  readonly #registry: Events['registry']
  /** Says which images were pulled by this agent: those that were there before are not its to remove. */
  readonly #file: string

  constructor(api: ContainerApi, owner: string, secrets: Secrets, registry: Events['registry'], file: string) {
    this.#file = file
    this.#registry = registry
    this.#api = api
    this.#owner = owner
    this.#secrets = secrets
  }

  /**
   * By digest, so that every copy runs the same one whatever its tag means tomorrow. `own` is the folder of the deployment that wants it;
   * null where the operator does.
   */
  async pinned(image: string, { fresh, own }: Wanted, unit: Unit, { log, signal }: Task): Promise<string> {
    const here = await this.#inspect(image)
    const known = here && (digestsOf(image, here)[0] ?? here.Id)
    const others = here !== undefined && own !== null && this.#isOthers(here, image, unit, own)
    if (known && !others && (!fresh || isPinned(image))) return known
    log(`Pulling ${image}`)
    try {
      await this.#pull(image, unit, { log, signal })
    } catch (error) {
      if (!(error instanceof EngineFailure) || error.status === 0) throw error
      if (!known || others) throw new Unworkable(pullFailure(image, error.message))
      log(`It cannot be pulled, so the one that is here is used: ${error.message}`, 'WARNING')
      return known
    }
    const pulled = await this.#inspect(image)
    if (!pulled) throw new Unworkable(`The image ${image} was pulled and is gone again: deploy it again.`)
    const digest = (await this.#inRegistry(digestsOf(image, pulled), unit, signal)) ?? pulled.Id
    if (pulled.Id !== here?.Id) this.#pulled(all => [...all, digest])
    log(`Pulled ${digest}`)
    return digest
  }

  /** What a Dockerfile begins with: a builder is told no password, and does not ask whose an image is. */
  async begun(image: string, wanted: Wanted, unit: Unit, task: Task): Promise<void> {
    const here = await this.#inspect(image)
    const others = here !== undefined && wanted.own !== null && this.#isOthers(here, image, unit, wanted.own)
    if (others || (await this.#login(image, unit))) await this.pinned(image, wanted, unit, task)
  }

  /** Built or pulled for another deployment: whether this one may have it too, only its registry can say. */
  #isOthers(here: Inspected, image: string, { deployment_id }: Unit, own: string): boolean {
    const built = here.Config?.Labels?.[DEPLOYMENT]
    if (built) return built !== deployment_id
    const names = [here.Id, ...digestsOf(image, here)]
    const ours = keptIn(own).flatMap(({ images }) => Object.values(images))
    return this.#pulled().some(one => names.includes(one)) && !ours.some(one => names.includes(one))
  }

  /** An engine may name an image by digests that it has got elsewhere or while it was built: the registry knows but one of them. */
  async #inRegistry(digests: string[], unit: Unit, signal: AbortSignal): Promise<string | undefined> {
    if (digests.length < 2) return digests[0]
    for (const digest of digests)
      try {
        await this.#pull(digest, unit, { log: () => {}, signal })
        return digest
      } catch (error) {
        if (!(error instanceof EngineFailure) || error.status === 0) throw error
      }
    return undefined
  }

  async #pull(image: string, unit: Unit, { log, signal }: Pick<Task, 'log' | 'signal'>): Promise<void> {
    const login = await this.#login(image, unit)
    const headers = login ? { 'X-Registry-Auth': login } : {}
    const query = { fromImage: nameOf(image), tag: tagOf(image) }
    let told = Date.now()
    for await (const { status, id, stream } of this.#api.progress('/images/create', { query, headers, signal })) {
      if (Date.now() - told < LINES_EVERY_MS || !(status ?? stream)) continue
      told = Date.now()
      log([id, status ?? stream].filter(Boolean).join(': '))
    }
  }

  /** The installation's own registry knows the deployment; any other one whoever deployed it. */
  async #login(image: string, unit: Unit): Promise<string | undefined> {
    const own = await this.#registry(unit, image)
    if (!own) return this.#secrets.credentials(image, unit.resources.image_pull_secrets ?? [])
    return loginOf({ username: own.username, password: own.password, serveraddress: own.registry })
  }

  #inspect(image: string): Promise<Inspected | undefined> {
    return this.#api.find<Inspected>(`/images/${image}/json`)
  }

  has = async (image: string) => (await this.#inspect(image)) !== undefined

  /** Pulls again what somebody else has removed; what was built here cannot be brought back so. */
  async restore(images: string[], unit: Unit): Promise<void> {
    const task = { log: () => {}, signal: AbortSignal.timeout(RESTORE_MS) }
    for (const image of images) {
      if (!image.includes('@') || (await this.#inspect(image))) continue
      await this.#pull(image, unit, task).catch(error => {
        throw error instanceof EngineFailure && error.status ? new Unworkable(pullFailure(image, error.message)) : error
      })
    }
  }

  /** The port that it says it listens on, where it says one. */
  async portOf(image: string): Promise<number | undefined> {
    const ports = Object.keys((await this.#inspect(image))?.Config?.ExposedPorts ?? {}).filter(
      port => !port.endsWith('/udp'),
    )
    return ports.length === 1 ? Number.parseInt(ports[0]!, 10) : undefined
  }

  #pulled(change?: (all: string[]) => string[]): string[] {
    const { pulled = [] } = readJson<{ pulled: string[] }>(this.#file) ?? {}
    if (change) writeJson(this.#file, { pulled: [...new Set(change(pulled))] })
    return pulled
  }

  keep(folder: string, revision_id: string, images: Record<string, string>): void {
    const others = keptIn(folder).filter(kept => kept.revision_id !== revision_id)
    writeJson(fileIn(folder), { revisions: [...others, { revision_id, images }] })
  }

  of(folder: string, revision_id: string): Record<string, string> {
    return keptIn(folder).find(kept => kept.revision_id === revision_id)?.images ?? {}
  }

  /** Removes those of a deployment that are neither among its newest nor needed by what runs or by another; in use they stay anyway. */
  async prune(deployment: string, folder: string, { others, running, keep = KEPT }: Needs): Promise<void> {
    const all = keptIn(folder)
    const kept = all.filter(({ revision_id }, i) => i >= all.length - keep || running.has(revision_id))
    const needed = new Set([...kept, ...others.flatMap(keptIn)].flatMap(({ images }) => Object.values(images)))
    // Podman finds no image that is asked for by two labels.
    const filters = { label: [`${DEPLOYMENT}=${deployment}`] }
    const labelled = await this.#api.get<{ Id: string; Labels?: Labels | null }[]>('/images/json', { filters })
    const built = labelled.filter(({ Labels }) => Labels?.[OWNER] === this.#owner)
    const ours = this.#pulled()
    const pulled = all.flatMap(({ images }) => Object.values(images)).filter(image => ours.includes(image))
    for (const image of new Set([...pulled, ...built.map(({ Id }) => Id)])) {
      if (needed.has(image)) continue
      try {
        // By its id, all names that it was pulled by go with it.
        const known = await this.#inspect(image)
        if (known) await this.#api.quietly('DELETE', `/images/${known.Id}`)
        this.#pulled(known => known.filter(other => other !== image))
      } catch (error) {
        // It is in use.
        if (!(error instanceof EngineFailure && error.status)) throw error
      }
    }
    writeJson(fileIn(folder), { revisions: kept })
  }
}

const fileIn = (folder: string) => join(folder, 'images.json')
const keptIn = (folder: string) => readJson<{ revisions: Kept[] }>(fileIn(folder))?.revisions ?? []

const LAST_TAG = /:[^:/]*$/
export const nameOf = (image: string) => image.replace(/@.*/s, '').replace(LAST_TAG, '')
/** A digest says more than the tag before it. */
export const tagOf = (image: string) => /@(.*)/s.exec(image)?.[1] ?? LAST_TAG.exec(image)?.[0].slice(1) ?? 'latest'

/** Docker leaves out what Podman puts before the name of an image of Docker Hub. */
const shortOf = (image: string) => nameOf(image).replace(/^(docker\.io\/)?(library\/)?/, '')

/** By which it can be named. */
export function digestsOf(image: string, { RepoDigests }: Pick<Inspected, 'RepoDigests'>): string[] {
  return isPinned(image) ? [image] : (RepoDigests ?? []).filter(known => shortOf(known) === shortOf(image))
}
