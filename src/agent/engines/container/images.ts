// The images that deployments run from: pulled, pinned by their digest, kept for a while, removed when nothing needs them.
import { join } from 'node:path'
import { DEPLOYMENT_LABEL, type Labels, OWNER_LABEL } from '../../images/container-labels.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { explainPullFailure } from '../../images/image-failures.ts'
import { encodeLogin } from '../../images/registry-logins.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { type BuildTask, type EngineEvents, PermanentError, type RevisionSpec } from '../engine.ts'
import { isPinned } from './replica-spec.ts'
import type { SecretFolder } from './secret-folder.ts'

type InspectedImage = {
  Id: string
  RepoDigests?: string[] | null
  Config?: { ExposedPorts?: Record<string, object> | null; Labels?: Record<string, string> | null } | null
}
/** What a revision runs from: as it was named, and as it was pinned. */
type SavedImages = { revision_id: string; images: Record<string, string> }
type PinOptions = { fresh: boolean; own: string | null }

/** Older ones of a deployment go: a rollback to those pulls by digest, or builds again. */
const KEPT_REVISIONS = 3
const LOG_INTERVAL_MS = 1_000
const RESTORE_TIMEOUT_MS = 120_000

/** `running`: revisions of which copies run or are about to be started again. */
type PruneOptions = { others: string[]; running: Set<string>; keep?: number | undefined }

export class Images {
  readonly #api: DockerApi
  readonly #owner: string
  readonly #secrets: SecretFolder
  readonly #registryCredential: EngineEvents['registryCredential']
  /** Says which images were pulled by this agent: those that were there before are not its to remove. */
  readonly #file: string

  constructor(
    api: DockerApi,
    owner: string,
    secrets: SecretFolder,
    registry: EngineEvents['registryCredential'],
    file: string,
  ) {
    this.#file = file
    this.#registryCredential = registry
    this.#api = api
    this.#owner = owner
    this.#secrets = secrets
  }

  /**
   * By digest, so that every copy runs the same one whatever its tag means tomorrow. `own` is the folder of the deployment that wants it;
   * null where the operator does.
   */
  async pin(
    image: string,
    { fresh, own }: PinOptions,
    unit: RevisionSpec,
    { log, signal }: BuildTask,
  ): Promise<string> {
    const here = await this.#inspect(image)
    const known = here && (digestsOf(image, here)[0] ?? here.Id)
    const others = here !== undefined && own !== null && this.#belongsToOthers(here, image, unit, own)
    if (known && !others && (!fresh || isPinned(image))) return known
    log(`Pulling ${image}`)
    try {
      await this.#pull(image, unit, { log, signal })
    } catch (error) {
      if (!(error instanceof DockerApiError) || error.status === 0) throw error
      if (!known || others) throw new PermanentError(explainPullFailure(image, error.message))
      log(`It cannot be pulled, so the one that is here is used: ${error.message}`, 'WARNING')
      return known
    }
    const pulled = await this.#inspect(image)
    if (!pulled) throw new PermanentError(`The image ${image} was pulled and is gone again: deploy it again.`)
    const digest = (await this.#findInRegistry(digestsOf(image, pulled), unit, signal)) ?? pulled.Id
    if (pulled.Id !== here?.Id) this.#pulledImages(all => [...all, digest])
    log(`Pulled ${digest}`)
    return digest
  }

  /** What a Dockerfile begins with: a builder is told no password, and does not ask whose an image is. */
  async pullBaseImage(image: string, wanted: PinOptions, unit: RevisionSpec, task: BuildTask): Promise<void> {
    const here = await this.#inspect(image)
    const others = here !== undefined && wanted.own !== null && this.#belongsToOthers(here, image, unit, wanted.own)
    if (others || (await this.#encodedLogin(image, unit))) await this.pin(image, wanted, unit, task)
  }

  /** Built or pulled for another deployment: whether this one may have it too, only its registry can say. */
  #belongsToOthers(here: InspectedImage, image: string, { deployment_id }: RevisionSpec, own: string): boolean {
    const built = here.Config?.Labels?.[DEPLOYMENT_LABEL]
    if (built) return built !== deployment_id
    const names = [here.Id, ...digestsOf(image, here)]
    const ours = readSavedImages(own).flatMap(({ images }) => Object.values(images))
    return this.#pulledImages().some(one => names.includes(one)) && !ours.some(one => names.includes(one))
  }

  /** An engine may name an image by digests that it has got elsewhere or while it was built: the registry knows but one of them. */
  async #findInRegistry(digests: string[], unit: RevisionSpec, signal: AbortSignal): Promise<string | undefined> {
    if (digests.length < 2) return digests[0]
    for (const digest of digests)
      try {
        await this.#pull(digest, unit, { log: () => {}, signal })
        return digest
      } catch (error) {
        if (!(error instanceof DockerApiError) || error.status === 0) throw error
      }
    return undefined
  }

  async #pull(image: string, unit: RevisionSpec, { log, signal }: Pick<BuildTask, 'log' | 'signal'>): Promise<void> {
    const login = await this.#encodedLogin(image, unit)
    const headers = login ? { 'X-Registry-Auth': login } : {}
    const query = { fromImage: imageName(image), tag: imageTag(image) }
    let told = Date.now()
    for await (const { status, id, stream } of this.#api.streamProgress('/images/create', { query, headers, signal })) {
      if (Date.now() - told < LOG_INTERVAL_MS || !(status ?? stream)) continue
      told = Date.now()
      log([id, status ?? stream].filter(Boolean).join(': '))
    }
  }

  /** The installation's own registry knows the deployment; any other one whoever deployed it. */
  async #encodedLogin(image: string, unit: RevisionSpec): Promise<string | undefined> {
    const own = await this.#registryCredential(unit, image)
    if (!own) return this.#secrets.registryAuth(image, unit.resources.image_pull_secrets ?? [])
    return encodeLogin({ username: own.username, password: own.password, serveraddress: own.registry })
  }

  #inspect(image: string): Promise<InspectedImage | undefined> {
    return this.#api.getIfExists<InspectedImage>(`/images/${image}/json`)
  }

  exists = async (image: string) => (await this.#inspect(image)) !== undefined

  /** Pulls again what somebody else has removed; what was built here cannot be brought back so. */
  async restore(images: string[], unit: RevisionSpec): Promise<void> {
    const task = { log: () => {}, signal: AbortSignal.timeout(RESTORE_TIMEOUT_MS) }
    for (const image of images) {
      if (!image.includes('@') || (await this.#inspect(image))) continue
      await this.#pull(image, unit, task).catch(error => {
        throw error instanceof DockerApiError && error.status
          ? new PermanentError(explainPullFailure(image, error.message))
          : error
      })
    }
  }

  /** The port that it says it listens on, where it says one. */
  async exposedPort(image: string): Promise<number | undefined> {
    const ports = Object.keys((await this.#inspect(image))?.Config?.ExposedPorts ?? {}).filter(
      port => !port.endsWith('/udp'),
    )
    return ports.length === 1 ? Number.parseInt(ports[0]!, 10) : undefined
  }

  #pulledImages(change?: (all: string[]) => string[]): string[] {
    const { pulled = [] } = readJson<{ pulled: string[] }>(this.#file) ?? {}
    if (change) writeJson(this.#file, { pulled: [...new Set(change(pulled))] })
    return pulled
  }

  savePinned(folder: string, revision_id: string, images: Record<string, string>): void {
    const others = readSavedImages(folder).filter(kept => kept.revision_id !== revision_id)
    writeJson(savedImagesFile(folder), { revisions: [...others, { revision_id, images }] })
  }

  readPinned(folder: string, revision_id: string): Record<string, string> {
    return readSavedImages(folder).find(kept => kept.revision_id === revision_id)?.images ?? {}
  }

  /** Removes those of a deployment that are neither among its newest nor needed by what runs or by another; in use they stay anyway. */
  async prune(
    deployment: string,
    folder: string,
    { others, running, keep = KEPT_REVISIONS }: PruneOptions,
  ): Promise<void> {
    const all = readSavedImages(folder)
    const kept = all.filter(({ revision_id }, i) => i >= all.length - keep || running.has(revision_id))
    const needed = new Set([...kept, ...others.flatMap(readSavedImages)].flatMap(({ images }) => Object.values(images)))
    // Podman finds no image that is asked for by two labels.
    const filters = { label: [`${DEPLOYMENT_LABEL}=${deployment}`] }
    const labelled = await this.#api.get<{ Id: string; Labels?: Labels | null }[]>('/images/json', { filters })
    const built = labelled.filter(({ Labels }) => Labels?.[OWNER_LABEL] === this.#owner)
    const ours = this.#pulledImages()
    const pulled = all.flatMap(({ images }) => Object.values(images)).filter(image => ours.includes(image))
    for (const image of new Set([...pulled, ...built.map(({ Id }) => Id)])) {
      if (needed.has(image)) continue
      try {
        // By its id, all names that it was pulled by go with it.
        const known = await this.#inspect(image)
        if (known) await this.#api.requestIfExists('DELETE', `/images/${known.Id}`)
        this.#pulledImages(known => known.filter(other => other !== image))
      } catch (error) {
        // It is in use.
        if (!(error instanceof DockerApiError && error.status)) throw error
      }
    }
    writeJson(savedImagesFile(folder), { revisions: kept })
  }
}

const savedImagesFile = (folder: string) => join(folder, 'images.json')
const readSavedImages = (folder: string) =>
  readJson<{ revisions: SavedImages[] }>(savedImagesFile(folder))?.revisions ?? []

const LAST_TAG = /:[^:/]*$/
export const imageName = (image: string) => image.replace(/@.*/s, '').replace(LAST_TAG, '')
/** A digest says more than the tag before it. */
export const imageTag = (image: string) => /@(.*)/s.exec(image)?.[1] ?? LAST_TAG.exec(image)?.[0].slice(1) ?? 'latest'

/** Docker leaves out what Podman puts before the name of an image of Docker Hub. */
const shortImageName = (image: string) => imageName(image).replace(/^(docker\.io\/)?(library\/)?/, '')

/** By which it can be named. */
export function digestsOf(image: string, { RepoDigests }: Pick<InspectedImage, 'RepoDigests'>): string[] {
  return isPinned(image)
    ? [image]
    : (RepoDigests ?? []).filter(known => shortImageName(known) === shortImageName(image))
}
