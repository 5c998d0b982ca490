// The body of a request on its way to a model: limited, with its first part kept, and never held as a whole.
import { type Failure, fail } from '../../kernel/http/errors.ts'
import { createPacedReader, LONG_PACE } from '../../kernel/http/paced-body.ts'

export type PassedBody = {
  stream: ReadableStream<Uint8Array> | null
  /** Bytes forwarded so far. */
  bytes: () => number
  /** The failure that kept it from being passed on as a whole. */
  failure: () => Failure | undefined
  /** The body as text, or undefined if it is longer than the kept part. */
  keptText: () => string | undefined
  /** The whole body, before any of it is sent. Fails if it is longer than `maxBytes`. */
  readAhead(maxBytes: number): Promise<Uint8Array>
}

/** Throws, also within the stream, as soon as the body is longer than `maxBytes`. */
export function passBody(request: Request, maxBytes: number, keepBytes: number): PassedBody {
  const declared = Number(request.headers.get('content-length') ?? Number.NaN)
  let limit = maxBytes
  const tooLarge = () => fail('model_body_too_large', { about: `more than ${limit} bytes` })
  if (declared > limit) throw tooLarge()
  const reader = request.body ? createPacedReader(request.body, LONG_PACE) : undefined
  const kept: Uint8Array[] = []
  const waiting: Uint8Array[] = []
  let [bytes, isEnded] = [0, !reader]
  let failure: Failure | undefined

  async function readChunk(): Promise<Uint8Array | undefined> {
    const value = await reader!.read().catch(error => {
      failure = error
      throw error
    })
    if (!value) {
      isEnded = true
      return undefined
    }
    if (bytes < keepBytes) kept.push(value)
    bytes += value.byteLength
    if (bytes > limit) {
      reader!.cancel()
      failure = tooLarge()
      throw failure
    }
    return value
  }

  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = waiting.shift() ?? (isEnded ? undefined : await readChunk())
        if (chunk) controller.enqueue(chunk)
        else controller.close()
      },
      cancel: reason => reader?.cancel(reason),
    },
    { highWaterMark: 0 },
  )
  return {
    stream: reader ? stream : null,
    bytes: () => bytes,
    failure: () => failure,
    keptText: () => (bytes > keepBytes ? undefined : decode(kept)),
    async readAhead(max) {
      limit = Math.min(limit, max)
      if (declared > limit) throw tooLarge()
      while (!isEnded) {
        const chunk = await readChunk()
        if (chunk) waiting.push(chunk)
      }
      return Buffer.concat(waiting)
    },
  }
}

const decode = (chunks: Uint8Array[]): string => new TextDecoder().decode(Buffer.concat(chunks))
