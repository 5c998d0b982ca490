// SHA-256 and HMAC by node:crypto, which Workers run natively. WebCrypto cannot hash a stream, and on Node it uses a
// thread even for short texts.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

export const sha256 = () => createHash('sha256')
export const sha256Hex = (text: string | Uint8Array): string => sha256().update(text).digest('hex')
export const hmacSha256 = (secret: string) => createHmac('sha256', secret)

export function isSameDigest(hexA: string, hexB: string): boolean {
  const a = Buffer.from(hexA, 'hex')
  const b = Buffer.from(hexB, 'hex')
  return a.byteLength === b.byteLength && timingSafeEqual(a, b)
}
