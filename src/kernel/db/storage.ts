// Storage in a bucket: an archive is uploaded part by part while it streams in, and bytes by one request.
import type { Storage } from '../../platform.ts'

type Part = { partNumber: number; etag: string }
type Multipart = {
  uploadPart(number: number, part: Uint8Array<ArrayBuffer>): Promise<Part>
  complete(parts: Part[]): Promise<unknown>
  abort(): Promise<void>
}
export type Bucket = {
  put(path: string, body: Uint8Array<ArrayBuffer>): Promise<unknown>
  createMultipartUpload(path: string): Promise<Multipart>
  get(path: string): Promise<{ body: ReadableStream<Uint8Array> } | null>
  delete(paths: string[]): Promise<void>
}

/** R2 needs parts of equal size, at least 5 MiB each, and takes no stream of unknown length. */
const PART_BYTES = 8 * 1024 * 1024

export const MISSING_STORAGE =
  'There is no storage for uploads. Bind an R2 bucket as `UPLOADS`, or set the settings `UPLOADS_S3_…`.'

export const createBucketStorage = (bucket: Bucket): Storage => ({
  async put(path, body) {
    if (body instanceof Uint8Array) return void (await bucket.put(path, body))
    const upload = await bucket.createMultipartUpload(path)
    try {
      const parts: Part[] = []
      for await (const part of splitIntoParts(body)) parts.push(await upload.uploadPart(parts.length + 1, part))
      await upload.complete(parts)
    } catch (error) {
      // If this fails too, the bucket's lifecycle rule removes the unfinished upload.
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
