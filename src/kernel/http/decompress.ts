// Decompression of request bodies while they arrive. The output waits for its reader, so a small body that grows
// a thousandfold never stands in memory.
import { Failure } from './errors.ts'
import { invalidRequest } from './input.ts'
import { createFrameReader } from './zstd-frames.ts'

export const CONTENT_CODINGS = ['gzip', 'zstd'] as const
export type ContentCoding = (typeof CONTENT_CODINGS)[number]

const OUTPUT_CHUNK_BYTES = 64 * 1024
/** 8 MiB, which RFC 8878 asks of every decoder. A frame may demand 128 MiB of memory before its first byte. */
const MAX_ZSTD_WINDOW_LOG = 23
/** Blocks and frames, each of which costs the decoder a call. Encoders make blocks of 128 KiB, unless they flush. */
const MAX_ZSTD_PARTS = 4096

export async function* decompress(chunks: AsyncIterable<Uint8Array>, coding: ContentCoding): AsyncIterable<Uint8Array> {
  // Loaded with the first body that is compressed.
  const [{ Readable, pipeline }, zlib] = await Promise.all([import('node:stream'), import('node:zlib')])
  const params = { [zlib.constants.ZSTD_d_windowLogMax]: MAX_ZSTD_WINDOW_LOG }
  const decoder =
    coding === 'gzip'
      ? zlib.createGunzip({ chunkSize: OUTPUT_CHUNK_BYTES })
      : zlib.createZstdDecompress({ chunkSize: OUTPUT_CHUNK_BYTES, params })
  const frames = createFrameReader()
  let received = 0
  async function* countBytes() {
    for await (const chunk of chunks) {
      received += chunk.byteLength
      yield chunk
    }
  }
  pipeline(Readable.from(coding === 'zstd' ? splitBlocks(chunks, frames) : countBytes()), decoder, () => {})
  try {
    yield* decoder as AsyncIterable<Uint8Array>
    // The decoder of gzip ends at a zero after a member, and drops the rest.
    const isWhole = coding === 'zstd' ? frames.isWhole() : decoder.bytesWritten === received
    if (!isWhole) throw new Error('The body is cut, or goes on after its end')
  } catch (error) {
    if (error instanceof Failure) throw error
    const msg = `says ${coding}, but the body is not valid ${coding}`
    throw invalidRequest([{ type: 'encoding_invalid', loc: ['header', 'Content-Encoding'], msg }])
  }
}

/**
 * The decoders of Node and Deno drop what follows a frame in the same chunk. Deno's ends the process with an error if a
 * block is invalid that comes after others in the same chunk. Ends where no frame begins.
 */
async function* splitBlocks(
  chunks: AsyncIterable<Uint8Array>,
  frames: ReturnType<typeof createFrameReader>,
): AsyncIterable<Uint8Array> {
  let count = 0
  for await (const chunk of chunks) {
    let start = 0
    for (const end of frames.push(chunk)) {
      if (++count > MAX_ZSTD_PARTS) throw new Error('The body has too many blocks')
      yield chunk.subarray(start, end)
      start = end
    }
    if (frames.isBroken()) return
    if (start < chunk.length) yield chunk.subarray(start)
  }
}
