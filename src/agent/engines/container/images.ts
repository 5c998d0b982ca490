// The images of deployments in a container engine: pulls them, pins them to digests and prunes them.
import { join } from 'node:path'
import { type BuildTask, type EngineEvents, PermanentError, type RevisionSpec } from '../../engine.ts'
import { DEPLOYMENT_LABEL, type Labels, OWNER_LABEL } from '../../images/container-labels.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { explainPullFailure } from '../../images/image-failures.ts'
import { encodeLogin } from '../../images/registry-logins.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { isPinned } from './replica-spec.ts'
import type { SecretFolder } from './secret-folder.ts'

type InspectedImage = {
  Id: string
  RepoDigests?: string[] | null
  Config?: { ExposedPorts?: Record<string, object> | null; Labels?: Record<string, string> | null } | null
}
/** The images of a revision: from the name to the digest. */
type SavedImages = { revision_id: string; images: Record<string, string> }
/** `fresh`: pull even if present. `own`: the folder of the deployment; null for an image of the operator. */
type PinOptions = { fresh: boolean; own: string | null }

/** A rollback to an older revision pulls its image by digest, or builds it again. */
const KEPT_REVISIONS = 3
const LOG_INTERVAL_MS = 1_000
const RESTORE_TIMEOUT_MS = 120_000

/** `running`: revisions with replicas that run or will restart. */
type PruneOptions = { others: string[]; running: Set<string>; keep?: number | undefined }

export class Images {
  readonly #api: DockerApi
  readonly #owner: string
  readonly #secrets: SecretFolder
  readonly #registryCredential: EngineEvents['registryCredential']
  /** Lists the images that this agent pulled. It never removes others. */
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

  /** Pins an image to its digest, so that all replicas run the same image after the tag moves. */
  async pin(
    image: string,
    { fresh, own }: PinOptions,
    spec: RevisionSpec,
    { log, signal }: BuildTask,
  ): Promise<string> {
    const here = await this.#inspect(image)
    const known = here && (digestsOf(image, here)[0] ?? here.Id)
    const others = here !== undefined && own !== null && this.#belongsToOthers(here, image, spec, own)
    if (known && !others && (!fresh || isPinned(image))) return known
    log(`Pulling ${image}`)
    try {
      await this.#pull(image, spec, { log, signal })
    } catch (error) {
      if (!(error instanceof DockerApiError) || error.status === 0) throw error
      if (!known || others) throw new PermanentError(explainPullFailure(image, error.message))
      log(`Pull failed, using the image that is present: ${error.message}`, 'WARNING')
      return known
    }
    const pulled = await this.#inspect(image)
    if (!pulled) throw new PermanentError(`The image ${image} was removed right after the pull. Deploy again.`)
    const digest = (await this.#findInRegistry(digestsOf(image, pulled), spec, signal)) ?? pulled.Id
    if (pulled.Id !== here?.Id) this.#pulledImages(all => [...all, digest])
    log(`Pulled ${digest}`)
    return digest
  }

  /** The builder pulls public images itself. Private ones and those of other deployments need a pull with a login. */
  async pullBaseImage(image: string, wanted: PinOptions, spec: RevisionSpec, task: BuildTask): Promise<void> {
    const here = await this.#inspect(image)
    const others = here !== undefined && wanted.own !== null && this.#belongsToOthers(here, image, spec, wanted.own)
    if (others || (await this.#encodedLogin(image, spec))) await this.pin(image, wanted, spec, task)
  }

  /** True if it was built or pulled for another deployment, so only the registry can decide if this one may use it. */
  #belongsToOthers(here: InspectedImage, image: string, { deployment_id }: RevisionSpec, own: string): boolean {
    const built = here.Config?.Labels?.[DEPLOYMENT_LABEL]
    if (built) return built !== deployment_id
    const names = [here.Id, ...digestsOf(image, here)]
    const ours = readSavedImages(own).flatMap(({ images }) => Object.values(images))
    return this.#pulledImages().some(name => names.includes(name)) && !ours.some(name => names.includes(name))
  }

  /** An engine may list several digests of an image, but the registry has only one of them. */
  async #findInRegistry(digests: string[], spec: RevisionSpec, signal: AbortSignal): Promise<string | undefined> {
    if (digests.length < 2) return digests[0]
    for (const digest of digests)
      try {
        await this.#pull(digest, spec, { log: () => {}, signal })
        return digest
      } catch (error) {
        if (!(error instanceof DockerApiError) || error.status === 0) throw error
      }
    return undefined
  }

  async #pull(image: string, spec: RevisionSpec, { log, signal }: Pick<BuildTask, 'log' | 'signal'>): Promise<void> {
    const login = await this.#encodedLogin(image, spec)
    const headers = login ? { 'X-Registry-Auth': login } : {}
    const query = { fromImage: imageName(image), tag: imageTag(image) }
    let lastLogAt = Date.now()
    for await (const { status, id, stream } of this.#api.streamProgress('/images/create', { query, headers, signal })) {
      if (Date.now() - lastLogAt < LOG_INTERVAL_MS || !(status ?? stream)) continue
      lastLogAt = Date.now()
      log([id, status ?? stream].filter(Boolean).join(': '))
    }
  }

  async #encodedLogin(image: string, spec: RevisionSpec): Promise<string | undefined> {
    const credential = await this.#registryCredential(spec, image)
    if (!credential) return this.#secrets.registryAuth(image, spec.resources.image_pull_secrets ?? [])
    const { username, password, registry } = credential
    return encodeLogin({ username, password, serveraddress: registry })
  }

  #inspect(image: string): Promise<InspectedImage | undefined> {
    return this.#api.getIfExists<InspectedImage>(`/images/${image}/json`)
  }

  exists = async (image: string) => (await this.#inspect(image)) !== undefined

  /** Pulls images again that were removed from outside. Images that were built here cannot be restored. */
  async restore(images: string[], spec: RevisionSpec): Promise<void> {
    const task = { log: () => {}, signal: AbortSignal.timeout(RESTORE_TIMEOUT_MS) }
    for (const image of images) {
      if (!image.includes('@') || (await this.#inspect(image))) continue
      await this.#pull(image, spec, task).catch(error => {
        throw error instanceof DockerApiError && error.status
          ? new PermanentError(explainPullFailure(image, error.message))
          : error
      })
    }
  }

  /** Undefined unless the image exposes exactly one TCP port. */
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

  /** Removes a deployment's images, except for its newest revisions, running revisions and other deployments. */
  async prune(
    deployment: string,
    folder: string,
    { others, running, keep = KEPT_REVISIONS }: PruneOptions,
  ): Promise<void> {
    const all = readSavedImages(folder)
    const kept = all.filter(({ revision_id }, i) => i >= all.length - keep || running.has(revision_id))
    const needed = new Set([...kept, ...others.flatMap(readSavedImages)].flatMap(({ images }) => Object.values(images)))
    // Podman finds no image for two labels.
    const filters = { label: [`${DEPLOYMENT_LABEL}=${deployment}`] }
    const labelled = await this.#api.get<{ Id: string; Labels?: Labels | null }[]>('/images/json', { filters })
    const built = labelled.filter(({ Labels }) => Labels?.[OWNER_LABEL] === this.#owner)
    const ours = this.#pulledImages()
    const pulled = all.flatMap(({ images }) => Object.values(images)).filter(image => ours.includes(image))
    for (const image of new Set([...pulled, ...built.map(({ Id }) => Id)])) {
      if (needed.has(image)) continue
      try {
        // The id removes all names of the image.
        const inspected = await this.#inspect(image)
        if (inspected) await this.#api.requestIfExists('DELETE', `/images/${inspected.Id}`)
        this.#pulledImages(names => names.filter(name => name !== image))
      } catch (error) {
        // The image is in use.
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
/** The digest if there is one, else the tag. */
export const imageTag = (image: string) => /@(.*)/s.exec(image)?.[1] ?? LAST_TAG.exec(image)?.[0].slice(1) ?? 'latest'

/** Podman prefixes images of Docker Hub with `docker.io/library/`, Docker does not. */
const shortImageName = (image: string) => imageName(image).replace(/^(docker\.io\/)?(library\/)?/, '')

/** The references by digest under which the image can be pulled. */
export function digestsOf(image: string, { RepoDigests }: Pick<InspectedImage, 'RepoDigests'>): string[] {
  return isPinned(image)
    ? [image]
    : (RepoDigests ?? []).filter(known => shortImageName(known) === shortImageName(image))
}
