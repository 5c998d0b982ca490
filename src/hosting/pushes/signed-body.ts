// Reads the body of a delivery and verifies its signature or token, within limits of size, time and memory.
import { hmacSha256, isSameDigest, sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Failure, fail } from '../../kernel/http/errors.ts'

/** GitHub's limit: it does not deliver larger payloads. */
export const MAX_BODY_BYTES = 25 * 1024 * 1024
/** The limit of all bodies together: anyone can send one, since the signature is checked only at its end. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024
/** GitHub waits 10 s for the answer, Gitea 5 s. */
const READ_TIMEOUT_MS = 15_000
const RETRY_AFTER_S = '10'

let bufferedBytes = 0

/** GitHub and Gitea sign the body with the secret, in hexadecimal. GitLab sends the secret itself. */
export type Proof = { signature: string } | { token: string }
type SignedBody = {
  stream: ReadableStream<Uint8Array> | null
  length: number | null
  secret: string
  proof: Proof
  timeoutMs?: number
}

/** Passes the text to `use` if the proof is valid. The body counts as buffered until `use` returns. */
export async function withSignedBody<T>(signedBody: SignedBody, use: (text: string) => T): Promise<T> {
  const { stream, length, secret, proof, timeoutMs = READ_TIMEOUT_MS } = signedBody
  if ('token' in proof && !isSameDigest(sha256Hex(proof.token), sha256Hex(secret))) throw fail('delivery_unsigned')
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
  }, timeoutMs)
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
    // A cancelled stream ends like a complete one.
    if (isLate) throw fail('body_too_slow')
    if ('signature' in proof && !isSameDigest(mac.digest('hex'), proof.signature)) throw fail('delivery_unsigned')
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
