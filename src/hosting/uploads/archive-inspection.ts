// Checks an archive while it streams: a gzip of a tar, within the size limit. Computes its size and digest.
import { sha256 } from '../../kernel/crypto/digest.ts'
import { fail } from '../../kernel/http/errors.ts'
import { paceStream } from '../../kernel/http/paced-body.ts'
import { isTarHeader } from '../../protocol/tar-reader.ts'

export const MAX_ARCHIVE_BYTES = 200 * 1024 * 1024
/** require_upload_room() counts an upload in progress for an hour. */
const MAX_RECEIVING_MS = 50 * 60_000
/** The bytes that are buffered to find the first tar header. A decompression bomb within them stays small. */
const MAX_HEAD_BYTES = 16 * 1024
const TAR_HEADER_BYTES = 512

/** Fails with `body_cut` when the body ends early or differs from its declared length. */
function checkBodyLength(body: ReadableStream<Uint8Array>, length: number | null): ReadableStream<Uint8Array> {
  let size = 0
  return paceStream(body, {
    onChunk: chunk => {
      size += chunk.byteLength
    },
    onEnd: () => {
      if (length !== null && size !== length) throw fail('body_cut')
    },
  })
}

/** Takes each chunk of the archive, and may refuse it. */
type Follower = { write: (chunk: Uint8Array) => Promise<void>; cancel: () => void }

/** Passes the body on and fails the stream if it is no archive. `summary` is complete once the stream has ended. */
export function inspectArchive(body: ReadableStream<Uint8Array>, length: number | null, follower: Follower) {
  const summary = { size: 0, sha256: '' }
  const end = performance.now() + MAX_RECEIVING_MS
  const digest = sha256()
  let head: Uint8Array | null = new Uint8Array()
  const checkHead = async (out: TransformStreamDefaultController<Uint8Array>) => {
    if (!(await isTarGzip(head!))) throw fail('archive_invalid')
    await follower.write(head!)
    out.enqueue(head!)
    head = null
  }
  const checkTime = () => {
    if (performance.now() > end) throw fail('body_too_slow')
  }
  const inspection = new TransformStream<Uint8Array, Uint8Array>({
    async transform(chunk, out) {
      summary.size += chunk.byteLength
      if (summary.size > MAX_ARCHIVE_BYTES) throw fail('archive_too_large')
      checkTime()
      digest.update(chunk)
      if (!head) {
        await follower.write(chunk)
        return out.enqueue(chunk)
      }
      head = Buffer.concat([head, chunk])
      if (head.byteLength >= MAX_HEAD_BYTES) await checkHead(out)
    },
    async flush(out) {
      if (head) await checkHead(out)
      checkTime()
      summary.sha256 = digest.digest('hex')
    },
  })
  return { stream: checkBodyLength(body, length).pipeThrough(inspection), summary }
}

async function isTarGzip(head: Uint8Array): Promise<boolean> {
  if (head[0] !== 0x1f || head[1] !== 0x8b || head[2] !== 8) return false
  const header = await decompressFirstBytes(head.slice(0, MAX_HEAD_BYTES), TAR_HEADER_BYTES)
  return header !== null && isTarHeader(header)
}

/** The first bytes of the decompressed data; the input may be truncated. */
async function decompressFirstBytes(compressed: Uint8Array<ArrayBuffer>, wanted: number): Promise<Uint8Array | null> {
  const decompression = new DecompressionStream('gzip')
  const writer = decompression.writable.getWriter()
  const writing = (async () => {
    for (let at = 0; at < compressed.byteLength; at += TAR_HEADER_BYTES)
      await writer.write(compressed.subarray(at, at + TAR_HEADER_BYTES) as never)
    await writer.close()
  })().catch(() => {})
  const reader = decompression.readable.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    while (size < wanted) {
      const { done, value } = await reader.read()
      if (done) return null
      chunks.push(value)
      size += value.byteLength
    }
    return Buffer.concat(chunks).subarray(0, wanted)
  } catch {
    return null
  } finally {
    await reader.cancel().catch(() => {})
    await writer.abort().catch(() => {})
    await writing
  }
}
