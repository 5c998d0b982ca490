// Bodies that a verb gets as bytes: their media type and compression, within limits of size and of memory.
import type { HonoRequest } from 'hono'
import type { BodyLimits } from '../platform.ts'
import { CONTENT_CODINGS, type ContentCoding, decompress } from './decompress.ts'
import { fail } from './errors.ts'
import { type BeforeLarge, declaredSize, gatherBytes, guardLargeBody, readChunks } from './input.ts'

/** `contentType` is the whole header, because a multipart body needs its boundary. */
export type RawBody = { bytes: Uint8Array<ArrayBuffer>; mediaType: string; contentType: string }

const RETRY_AFTER_S = '1'
/** Of all requests that this instance reads and processes. */
let heldBytes = 0

/** Passes the body to `use`. It counts as held until `use` has finished. */
export async function withRawBody<T>(
  request: HonoRequest,
  mediaTypes: string[],
  { wireBytes, bytes: maxBytes, heldBytes: maxHeldBytes }: BodyLimits,
  beforeLarge: BeforeLarge,
  use: (body: RawBody) => Promise<T>,
): Promise<T> {
  const contentType = request.header('content-type') ?? ''
  const mediaType = contentType.split(';')[0]!.trim().toLowerCase()
  if (!mediaTypes.includes(mediaType)) throw fail('media_type_unsupported', { about: mediaTypes.join(', ') })
  const coding = readContentCoding(request)
  const tooLarge = () => fail('batch_too_large', { about: `${wireBytes} bytes, decompressed ${maxBytes}` })
  const allowSize = guardLargeBody(beforeLarge)
  if (declaredSize(request) > wireBytes) throw tooLarge()
  await allowSize(declaredSize(request))
  let held = 0
  const hold = (size: number) => {
    if (size > maxBytes) throw tooLarge()
    heldBytes += size - held
    held = size
    if (heldBytes > maxHeldBytes) throw fail('bodies_busy', { headers: { 'Retry-After': RETRY_AFTER_S } })
    return allowSize(size)
  }
  const received = limitChunks(readChunks(request), wireBytes, tooLarge)
  try {
    const bytes = await gatherBytes(coding ? decompress(received, coding) : received, hold)
    return await use({ bytes, mediaType, contentType })
  } finally {
    heldBytes -= held
  }
}

function readContentCoding(request: HonoRequest): ContentCoding | null {
  const sent = request.header('content-encoding')?.trim().toLowerCase() || 'identity'
  if (sent === 'identity') return null
  const coding = CONTENT_CODINGS.find(one => one === sent)
  // RFC 7694 names the header that tells the client what it may send.
  if (!coding) throw fail('encoding_unsupported', { headers: { 'Accept-Encoding': CONTENT_CODINGS.join(', ') } })
  return coding
}

async function* limitChunks(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
  tooLarge: () => Error,
): AsyncIterable<Uint8Array> {
  let size = 0
  for await (const chunk of chunks) {
    size += chunk.byteLength
    if (size > maxBytes) throw tooLarge()
    yield chunk
  }
}
