// Bodies that a verb gets as bytes: their media type and compression, within limits of size and of memory.
import type { HonoRequest } from 'hono'
import type { BodyLimits } from '../../platform.ts'
import type { Hold } from '../limits/held-bytes.ts'
import { ValueBudget } from '../limits/value-budget.ts'
import { CONTENT_CODINGS, type ContentCoding, decompress } from './decompress.ts'
import { fail } from './errors.ts'
import { type BeforeLarge, declaredSize, gatherBytes, guardLargeBody, readChunks } from './input.ts'

export type RawBody = {
  bytes: Uint8Array<ArrayBuffer>
  mediaType: string
  /** The whole header: a multipart body needs its boundary. */
  contentType: string
  /** Bounds what is looked at and built. Every reader of the bytes uses it before it parses any of them. */
  values: ValueBudget
}
type Limits = Pick<BodyLimits, 'wireBytes' | 'bytes'>

/** All of the body counts as held, decompressed. */
export async function readRawBody(
  request: HonoRequest,
  mediaTypes: string[],
  { wireBytes, bytes: maxBytes }: Limits,
  beforeLarge: BeforeLarge,
  hold: Hold,
): Promise<RawBody> {
  const contentType = request.header('content-type') ?? ''
  const mediaType = contentType.split(';')[0]!.trim().toLowerCase()
  if (!mediaTypes.includes(mediaType)) throw fail('media_type_unsupported', { about: mediaTypes.join(', ') })
  const coding = readContentCoding(request)
  const tooLarge = () => fail('batch_too_large', { about: `${wireBytes} bytes, decompressed ${maxBytes}` })
  const allowSize = guardLargeBody(beforeLarge)
  if (declaredSize(request) > wireBytes) throw tooLarge()
  await allowSize(declaredSize(request))
  const received = limitChunks(readChunks(request), wireBytes, tooLarge)
  const bytes = await gatherBytes(coding ? decompress(received, coding) : received, async size => {
    if (size > maxBytes) throw tooLarge()
    await allowSize(size)
    hold.growTo(size)
  })
  return { bytes, mediaType, contentType, values: new ValueBudget() }
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
