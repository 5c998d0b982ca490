// SHA-256 and HMAC by node:crypto, which Workers run natively. WebCrypto cannot hash a stream, and on Node it uses a
// thread even for short texts.
import { createHash, createHmac, hash, timingSafeEqual } from 'node:crypto'

export const sha256 = () => createHash('sha256')
export const sha256Hex = (text: string | Uint8Array): string => hash('sha256', text)
/**
 * The fingerprint of a secret as it is stored changes when the secret is set again, and tells nothing of its value.
 * A value that `slipway reseal` has sealed again ends with its first fingerprint, so that nothing looks changed.
 */
export const sealedFingerprint = (sealed: string): string => sealed.split('.')[3] ?? sha256Hex(sealed).slice(0, 16)

/** Derives a UUID from a text, of version 8, whose bits an application may choose. */
export function derivedUuid(text: string): string {
  const hex = sha256Hex(text)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

export const hmacSha256 = (secret: string) => createHmac('sha256', secret)

export function isSameDigest(hexA: string, hexB: string): boolean {
  const a = Buffer.from(hexA, 'hex')
  const b = Buffer.from(hexB, 'hex')
  return a.byteLength === b.byteLength && timingSafeEqual(a, b)
}
