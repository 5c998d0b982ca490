// A folder in the layout of OCI images: blobs by digest, and an index that names the images. skopeo, podman, buildah
// and containerd read it. https://github.com/opencontainers/image-spec
import * as fs from 'node:fs'
import { join } from 'node:path'
import { sha256 } from './layer.ts'

const INDEX = 'application/vnd.oci.image.index.v1+json'
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
export const MEDIA_TYPES = {
  index: INDEX,
  manifest: MANIFEST,
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
  empty: 'application/vnd.oci.empty.v1+json',
} as const

export type Descriptor = {
  mediaType: string
  digest: string
  size: number
  platform?: { architecture: string; os: string; variant?: string }
  artifactType?: string
  annotations?: Record<string, string>
}
export type Index = { manifests: Descriptor[]; annotations?: Record<string, string> }
export type Manifest = { config: Descriptor; layers: Descriptor[]; subject?: Descriptor; artifactType?: string }
export type OciLayout = ReturnType<typeof createOciLayout>

export const blobPath = (folder: string, digest: string) => join(folder, 'blobs', digest.replace(':', '/'))
export const readBlobJson = <T>(folder: string, digest: string): T =>
  JSON.parse(fs.readFileSync(blobPath(folder, digest), 'utf8'))

export function createOciLayout(folder: string) {
  fs.rmSync(folder, { recursive: true, force: true })
  fs.mkdirSync(join(folder, 'blobs/sha256'), { recursive: true })
  const named: Descriptor[] = []

  const addBlob = (mediaType: string, bytes: Uint8Array): Descriptor => {
    const digest = sha256(bytes)
    fs.writeFileSync(blobPath(folder, digest), bytes)
    return { mediaType, digest, size: bytes.length }
  }
  const addJson = (mediaType: string, value: object) => addBlob(mediaType, Buffer.from(JSON.stringify(value)))

  return {
    addBlob,
    addConfig: (value: object) => addJson(MEDIA_TYPES.config, value),
    addManifest: (value: object) => addJson(MANIFEST, { schemaVersion: 2, mediaType: MANIFEST, ...value }),
    addIndex: (value: object) => addJson(INDEX, { schemaVersion: 2, mediaType: INDEX, ...value }),

    /** A document about an image, which registries list as its referrer. */
    addReferrer(subject: Descriptor, artifactType: string, document: Uint8Array): Descriptor {
      const config = addBlob(MEDIA_TYPES.empty, Buffer.from('{}'))
      const { mediaType, digest, size } = subject
      const value = {
        artifactType,
        config,
        layers: [addBlob(artifactType, document)],
        subject: { mediaType, digest, size },
      }
      return { ...this.addManifest(value), artifactType }
    },

    /** Names it in the index of the folder, as skopeo and podman find it. */
    name(descriptor: Descriptor, name?: string): void {
      const annotations = name ? { 'org.opencontainers.image.ref.name': name } : undefined
      named.push({ ...descriptor, ...(annotations && { annotations }) })
    },

    close(): void {
      fs.writeFileSync(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
      const index = { schemaVersion: 2, mediaType: INDEX, manifests: named }
      fs.writeFileSync(join(folder, 'index.json'), JSON.stringify(index))
    },
  }
}
