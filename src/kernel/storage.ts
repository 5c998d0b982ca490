// Where archives are kept, and how they come into a bucket: written as they arrive.
import type { Config, Storage } from '../env.ts'
import { openS3Bucket } from './s3.ts'

type Part = { partNumber: number; etag: string }
type Multipart = {
  uploadPart(number: number, part: Uint8Array<ArrayBuffer>): Promise<Part>
  complete(parts: Part[]): Promise<unknown>
  abort(): Promise<void>
}
/** R2's binding, as far as we use it. */
export type Bucket = {
  createMultipartUpload(path: string): Promise<Multipart>
  get(path: string): Promise<{ body: ReadableStream<Uint8Array> } | null>
  delete(paths: string[]): Promise<void>
}

/** R2 wants parts of at least 5 MiB and of one size, and takes no stream of unknown length: one part at a time is in memory. */
const PART_BYTES = 8 * 1024 * 1024

/** What the log says where archives are asked for and there is none. */
export const MISSING_STORAGE =
  'There is no storage of archives: UPLOADS is not bound, and UPLOADS_S3_ENDPOINT is not set.'

/** In the S3 store that the settings name, or where the host keeps them: in its bucket, in a folder, or nowhere. */
export const chooseStorage = ({ s3, uploads }: Pick<Config, 's3' | 'uploads'>): Storage | undefined =>
  s3 ? createBucketStorage(openS3Bucket(s3)) : uploads

export const createBucketStorage = (bucket: Bucket): Storage => ({
  async put(path, body) {
    const upload = await bucket.createMultipartUpload(path)
    try {
      const parts: Part[] = []
      for await (const part of splitIntoParts(body)) parts.push(await upload.uploadPart(parts.length + 1, part))
      await upload.complete(parts)
    } catch (error) {
      // What this leaves behind, the bucket's own rule for unfinished uploads takes.
      await upload.abort().catch(() => {})
      throw error
    }
  },
  get: async path => (await bucket.get(path))?.body ?? null,
  remove: paths => bucket.delete(paths),
})

async function* splitIntoParts(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  let part = new Uint8Array(PART_BYTES)
  let filled = 0
  for await (let chunk of body as unknown as AsyncIterable<Uint8Array>) {
    while (chunk.byteLength > 0) {
      const taken = chunk.subarray(0, PART_BYTES - filled)
      part.set(taken, filled)
      filled += taken.byteLength
      chunk = chunk.subarray(taken.byteLength)
      if (filled === PART_BYTES) {
        yield part
        part = new Uint8Array(PART_BYTES)
        filled = 0
      }
    }
  }
  if (filled > 0) yield part.subarray(0, filled)
}
