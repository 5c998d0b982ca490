// Seals values for an agent: encrypts them to its P-256 key, bound to one place. PROTOCOL.md says how to open them.
import { fail } from '../../kernel/http/errors.ts'

const utf8 = new TextEncoder()
const CURVE = { name: 'ECDH', namedCurve: 'P-256' } as const
const KEY_INFO = utf8.encode('slipway sync v1')
const base64url = (bytes: ArrayBuffer | Uint8Array) => Buffer.from(bytes as Uint8Array).toString('base64url')

export type Seal = (plain: unknown, place: string) => Promise<string>

/** Refuses a point that is not on the curve. */
export async function createSeal(publicKey: string): Promise<Seal> {
  const raw = Buffer.from(publicKey, 'base64url')
  if (!isOnCurve(raw)) {
    const fault = { type: 'invalid_format', loc: ['body', 'public_key'], msg: 'is not a point of P-256' }
    throw fail('invalid_request', { errors: [fault] })
  }
  const agentKey = await crypto.subtle.importKey('raw', raw, CURVE, false, [])
  return async (plain, place) => {
    const own = await crypto.subtle.generateKey(CURVE, false, ['deriveBits'])
    const ephemeral = await crypto.subtle.exportKey('raw', own.publicKey)
    const shared = await crypto.subtle.deriveBits({ name: 'ECDH', public: agentKey }, own.privateKey, 256)
    const secret = await crypto.subtle.importKey('raw', shared, 'HKDF', false, ['deriveKey'])
    const salt = Buffer.concat([new Uint8Array(ephemeral), raw])
    const derivation = { name: 'HKDF', hash: 'SHA-256', salt, info: KEY_INFO }
    const key = await crypto.subtle.deriveKey(derivation, secret, { name: 'AES-GCM', length: 256 }, false, ['encrypt'])
    const iv = crypto.getRandomValues(new Uint8Array(12))
    const cipher = { name: 'AES-GCM', iv, additionalData: utf8.encode(place) }
    const sealed = await crypto.subtle.encrypt(cipher, key, utf8.encode(JSON.stringify(plain)))
    return ['v1', base64url(ephemeral), base64url(iv), base64url(sealed)].join('.')
  }
}

/** The curve P-256: y² = x³ - 3x + b, modulo a prime. */
const PRIME = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n
const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn

/** Deno's importKey() does not check it. The bytes are 4, x and y. */
function isOnCurve(point: Buffer): boolean {
  const [x, y] = [1, 33].map(start => BigInt(`0x0${point.toString('hex', start, start + 32)}`)) as [bigint, bigint]
  const hasForm = point.length === 65 && point[0] === 4 && x < PRIME && y < PRIME
  return hasForm && (y * y - (x * x * x - 3n * x + B)) % PRIME === 0n
}
