// The body of a delivery: hashed while it streams, within limits of size, time and memory.
import { hmacSha256, isSameDigest } from '../kernel/digest.ts'
import { type Failure, fail } from '../kernel/errors.ts'

/** The most that GitHub delivers; it drops whatever is larger. */
export const MOST_BYTES = 25 * 1024 * 1024
/**
 * Of all bodies that this instance holds at once: anyone can send them until the signature is checked, which is at
 * the end.
 */
const MOST_HELD = 32 * 1024 * 1024
/** GitHub gives up after ten seconds, Gitea after five. */
const WITHIN_MS = 15_000
const RETRY_S = '10'

let held = 0

type Delivered = {
  stream: ReadableStream<Uint8Array> | null
  /** As declared; null where the sender does not say. */
  length: number | null
  secret: string
  /** In hex. */
  signature: string
  withinMs?: number
}

/** Reads the text of a body that bears the signature. `use` has it while it still counts as held. */
export async function withSignedBody<T>(delivered: Delivered, use: (text: string) => T): Promise<T> {
  const { stream, length, secret, signature, withinMs = WITHIN_MS } = delivered
  if ((length ?? 0) > MOST_BYTES) throw fail('delivery_too_large')
  if (held + (length ?? 0) > MOST_HELD) throw busy()
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
      held += next.value.byteLength
      if (size > MOST_BYTES) throw fail('delivery_too_large')
      if (held > MOST_HELD) throw busy()
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
    held -= size
  }
}

const busy = (): Failure => fail('deliveries_busy', { headers: { 'Retry-After': RETRY_S } })
