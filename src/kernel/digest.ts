// SHA-256, also fed piece by piece: WebCrypto wants the whole at once, and on Node hands even a short text to another thread. Of Node's
// modules this is the one that Workers run natively too.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

export const sha256 = () => createHash('sha256')
export const sha256Hex = (text: string): string => sha256().update(text).digest('hex')
export const hmacSha256 = (secret: string) => createHmac('sha256', secret)

/** Of two digests in hex, in constant time. */
export function isSameDigest(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one, 'hex'), Buffer.from(other, 'hex')]
  return left.byteLength === right.byteLength && timingSafeEqual(left, right)
}
