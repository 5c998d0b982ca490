// The body of a delivery: hashed while it streams, within limits of size, time and memory.
import { hmacSha256, isSameDigest } from '../kernel/digest.ts'
import { type Failure, fail } from '../kernel/errors.ts'

/** The most that GitHub delivers; it drops whatever is larger. */
export const MAX_BODY_BYTES = 25 * 1024 * 1024
/**
 * Of all bodies that this instance holds at once: anyone can send them until the signature is checked, which is at
 * the end.
 */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024
/** GitHub gives up after ten seconds, Gitea after five. */
const READ_TIMEOUT_MS = 15_000
const RETRY_AFTER_S = '10'

let bufferedBytes = 0

type SignedBody = {
  stream: ReadableStream<Uint8Array> | null
  /** As declared; null where the sender does not say. */
  length: number | null
  secret: string
  /** In hex. */
  signature: string
  withinMs?: number
}

/** Reads the text of a body that bears the signature. `use` has it while it still counts as held. */
export async function withSignedBody<T>(delivered: SignedBody, use: (text: string) => T): Promise<T> {
  const { stream, length, secret, signature, withinMs = READ_TIMEOUT_MS } = delivered
  if ((length ?? 0) > MAX_BODY_BYTES) throw fail('delivery_too_large')
  if (bufferedBytes + (length ?? 0) > MAX_BUFFERED_BYTES) throw busyFailure()
  const mac = hmacSha256(secret)
  const decoder = new TextDecoder()
  const parts: string[] = []
  let size = 0
  let isLate = false
  const reader = stream?.getReader()
  const cancel = () => void reader?.cancel().catch(() => {})
  const timer = setTimeout(() => {
    isLate = true
    cancel()
  }, withinMs)
  const read = async () =>
    reader?.read().catch(cause => {
      throw fail('body_cut', { cause })
    })
  try {
    for (let next = await read(); next && !next.done; next = await read()) {
      size += next.value.byteLength
      bufferedBytes += next.value.byteLength
      if (size > MAX_BODY_BYTES) throw fail('delivery_too_large')
      if (bufferedBytes > MAX_BUFFERED_BYTES) throw busyFailure()
      mac.update(next.value)
      parts.push(decoder.decode(next.value, { stream: true }))
    }
    // Cancelling ends the stream as if it were whole.
    if (isLate) throw fail('body_too_slow')
    if (!isSameDigest(mac.digest('hex'), signature)) throw fail('delivery_unsigned')
    return use(parts.join(''))
  } catch (error) {
    throw isLate ? fail('body_too_slow', { cause: error }) : error
  } finally {
    clearTimeout(timer)
    cancel()
    bufferedBytes -= size
  }
}

const busyFailure = (): Failure => fail('deliveries_busy', { headers: { 'Retry-After': RETRY_AFTER_S } })
