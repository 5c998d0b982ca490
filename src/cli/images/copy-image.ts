// Copies an image from one registry to another: manifests as they are, and layers as streams.
import { createHash } from 'node:crypto'
import { CommandFailure, EXIT } from '../failure.ts'
import { parseImageName, readDockerCredentials } from './image-name.ts'
import { createRegistryClient, type RegistryClient } from './registry-client.ts'

type Descriptor = { mediaType: string; digest: string; size: number; platform?: { os: string; architecture: string } }
type Manifest = { mediaType: string; text: string; digest: string }
/** `manifests`: the last one is that of the image, and names the others. */
export type SourceImage = {
  name: string
  digest: string
  manifests: Manifest[]
  blobs: Descriptor[]
  from: RegistryClient
}
export type ImageTarget = { registry_url: string; token: string; name: string }

const INDEXES = ['application/vnd.oci.image.index.v1+json', 'application/vnd.docker.distribution.manifest.list.v2+json']
const MANIFESTS = ['application/vnd.oci.image.manifest.v1+json', 'application/vnd.docker.distribution.manifest.v2+json']
/** No agent runs on others. */
const ARCHITECTURES = ['amd64', 'arm64']
const MAX_MANIFEST_BYTES = 4 * 1024 ** 2
const DIGEST = /^sha256:[0-9a-f]{64}$/

/** The digest is that of what will be copied. */
export async function readImage(name: string, signal: AbortSignal): Promise<SourceImage> {
  const { host, repository, reference } = parseImageName(name)
  const credentials = readDockerCredentials(host)
  const from = createRegistryClient({ host, repository, actions: 'pull', credentials, signal })
  const named = await readManifest(from, name, reference, [...INDEXES, ...MANIFESTS])
  if (MANIFESTS.includes(named.mediaType)) return describeImage(name, [named], from)
  const index = keepArchitectures(name, named)
  const listed = (JSON.parse(index.text) as { manifests: Descriptor[] }).manifests
  const manifests: Manifest[] = []
  for (const { digest } of listed) manifests.push(await readManifest(from, name, digest, MANIFESTS))
  return describeImage(name, [...manifests, index], from)
}

async function readManifest(from: RegistryClient, name: string, reference: string, types: string[]): Promise<Manifest> {
  const headers = { Accept: types.join(', ') }
  const response = await from.send({ to: `manifests/${reference}`, headers, expects: [200] })
  const text = await readText(name, response)
  const mediaType = (response.headers.get('Content-Type') ?? '').split(';', 1)[0]!.trim()
  const digest = digestOf(text)
  if (!types.includes(mediaType)) throw unusable(name, `has a manifest of the type ${mediaType || '(none)'}`)
  if (DIGEST.test(reference) && digest !== reference) throw unusable(name, `has a manifest that is not ${reference}`)
  return { mediaType, text, digest }
}

async function readText(name: string, { body }: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body ?? []) {
    bytes += part.length
    if (bytes > MAX_MANIFEST_BYTES) throw unusable(name, 'has a manifest of more than 4 MB')
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

/** Leaves out other systems, and attestations of builds. */
function keepArchitectures(name: string, index: Manifest): Manifest {
  const content = JSON.parse(index.text) as { manifests: Descriptor[] }
  const kept = content.manifests.filter(
    ({ platform }) => platform?.os === 'linux' && ARCHITECTURES.includes(platform.architecture),
  )
  if (kept.length === content.manifests.length) return index
  if (kept.length === 0) throw unusable(name, `is for no Linux on ${ARCHITECTURES.join(' or ')}`)
  const text = JSON.stringify({ ...content, manifests: kept })
  return { mediaType: index.mediaType, text, digest: digestOf(text) }
}

function describeImage(name: string, manifests: Manifest[], from: RegistryClient): SourceImage {
  const blobs = new Map<string, Descriptor>()
  for (const { mediaType, text } of manifests) {
    if (INDEXES.includes(mediaType)) continue
    const { config, layers } = JSON.parse(text) as { config: Descriptor; layers: Descriptor[] }
    for (const blob of [config, ...layers]) {
      if (!DIGEST.test(blob.digest)) throw unusable(name, `has a layer ${blob.digest}`)
      blobs.set(blob.digest, blob)
    }
  }
  return { name, digest: manifests.at(-1)!.digest, manifests, blobs: [...blobs.values()], from }
}

/** Returns the URI of the copy. `onBytes` gets the bytes that were copied or are there, and those of all. */
export async function copyImage(
  { digest, manifests, blobs, from }: SourceImage,
  { registry_url, token, name: copyName }: ImageTarget,
  onBytes: (done: number, all: number) => void,
  signal: AbortSignal,
): Promise<string> {
  const [host = '', ...path] = `${registry_url}/${copyName}`.split('/')
  const credentials = { username: 'slipway', password: token }
  const to = createRegistryClient({ host, repository: path.join('/'), actions: 'pull,push', credentials, signal })
  const all = blobs.reduce((sum, { size }) => sum + size, 0)
  let done = 0
  for (const blob of blobs) {
    const before = done
    onBytes(done, all)
    await copyBlob(from, to, blob, bytes => {
      done += bytes
      onBytes(done, all)
    })
    done = before + blob.size
  }
  for (const manifest of manifests) await sendManifest(to, manifest, manifest.digest)
  // A registry may delete manifests without a tag.
  await sendManifest(to, manifests.at(-1)!, digest.slice('sha256:'.length, 'sha256:'.length + TAG_LENGTH))
  return `${registry_url}/${copyName}@${digest}`
}
const TAG_LENGTH = 32

async function copyBlob(
  from: RegistryClient,
  to: RegistryClient,
  { digest }: Descriptor,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const { status } = await to.send({ method: 'HEAD', to: `blobs/${digest}`, expects: [200, 404] })
  if (status === 200) return
  const begun = await to.send({ method: 'POST', to: 'blobs/uploads/', expects: [202] })
  const { body } = await from.send({ to: `blobs/${digest}`, expects: [200] })
  const counted = body!.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        onBytes(chunk.length)
        controller.enqueue(chunk)
      },
    }),
  )
  const headers = { 'Content-Type': 'application/octet-stream' }
  const sent = await to.send({ method: 'PATCH', to: locationOf(begun), headers, body: counted, expects: [202] })
  const end = locationOf(sent)
  end.searchParams.set('digest', digest)
  await to.send({ method: 'PUT', to: end, expects: [201] })
}

const locationOf = ({ headers, url }: Response): URL => new URL(headers.get('Location') ?? '', url)

async function sendManifest(to: RegistryClient, { mediaType, text }: Manifest, reference: string): Promise<void> {
  const headers = { 'Content-Type': mediaType }
  await to.send({ method: 'PUT', to: `manifests/${reference}`, headers, body: text, expects: [201] })
}

const digestOf = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`

const unusable = (name: string, what: string) =>
  new CommandFailure(EXIT.failed, 'image_not_copied', `The image ${name} cannot be copied: it ${what}.`)
