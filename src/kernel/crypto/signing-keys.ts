// The Ed25519 keys by which this installation signs JSON Web Tokens (RFC 7519), and their public halves for verifiers.
// WebCrypto alone, so that it is the same on all runtimes.
import type { Config } from '../../env.ts'
import { sha256 } from './digest.ts'

export type SigningSettings = Pick<Config, 'signingSeeds' | 'sealingKeys'>
export type PublicJwk = { kty: 'OKP'; crv: 'Ed25519'; use: 'sig'; alg: 'EdDSA'; kid: string; x: string }
type SigningKey = { jwk: PublicJwk; privateKey: CryptoKey; publicKey: CryptoKey }
export type Claims = Record<string, unknown>

const utf8 = new TextEncoder()
/** The prefix of the 32 bytes of an Ed25519 key in PKCS#8 (RFC 8410, section 7). */
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex')
const toBase64Url = (bytes: Uint8Array | ArrayBuffer | string): string =>
  Buffer.from(bytes as never).toString('base64url')

/** Values, not promises: on Workers, a request must not wait for a promise of another request. */
const loaded = new WeakMap<object, SigningKey[]>()

/** The first key signs, all of them verify. Without SIGNING_JWKS each sealing key gives one, in the same order. */
async function loadKeys({ signingSeeds, sealingKeys }: SigningSettings): Promise<SigningKey[]> {
  const source = signingSeeds ?? sealingKeys
  const known = loaded.get(source)
  if (known) return known
  const seeds =
    signingSeeds ?? (await Promise.all(sealingKeys.map(async ([, key]) => ({ seed: await deriveSeed(key) }))))
  const keys = await Promise.all(seeds.map(importSeed))
  loaded.set(source, keys)
  return keys
}

async function deriveSeed(sealingKey: string): Promise<Uint8Array> {
  const master = await crypto.subtle.importKey('raw', Buffer.from(sealingKey, 'base64url'), 'HKDF', false, [
    'deriveBits',
  ])
  const derivation = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: utf8.encode('signing keys') }
  return new Uint8Array(await crypto.subtle.deriveBits(derivation, master, 256))
}

async function importSeed({ seed, kid }: { seed: Uint8Array; kid?: string | undefined }): Promise<SigningKey> {
  const pkcs8 = Buffer.concat([PKCS8_HEAD, seed])
  const privateKey = await crypto.subtle.importKey('pkcs8', pkcs8, 'Ed25519', true, ['sign'])
  // WebCrypto computes the public half only on export.
  const { x } = (await crypto.subtle.exportKey('jwk', privateKey)) as { x: string }
  const publicKey = await crypto.subtle.importKey('raw', Buffer.from(x, 'base64url'), 'Ed25519', true, ['verify'])
  const jwk: PublicJwk = { kty: 'OKP', crv: 'Ed25519', use: 'sig', alg: 'EdDSA', kid: kid ?? makeThumbprint(x), x }
  return { jwk, privateKey, publicKey }
}

/** RFC 7638: a hash of the required members, in the order of their names. */
const makeThumbprint = (x: string): string =>
  sha256()
    .update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }))
    .digest('base64url')

export const publicJwks = async (settings: SigningSettings): Promise<{ keys: PublicJwk[] }> => ({
  keys: (await loadKeys(settings)).map(({ jwk }) => jwk),
})

/** `typ` names the kind of token (RFC 8725, section 3.11), so that one kind is never taken for another. */
export async function signJwt(settings: SigningSettings, claims: Claims, typ = 'JWT'): Promise<string> {
  const { jwk, privateKey } = (await loadKeys(settings))[0]!
  const header = { alg: 'EdDSA', typ, kid: jwk.kid }
  const text = [header, claims].map(part => toBase64Url(JSON.stringify(part))).join('.')
  const signature = await crypto.subtle.sign('Ed25519', privateKey, utf8.encode(text))
  return `${text}.${toBase64Url(signature)}`
}

/** `at` is in milliseconds since 1970. */
export type Expected = { typ: string; issuer: string; audience: string; at: number }
export type Refusal = 'malformed' | 'untrusted' | 'not_for_us' | 'expired'
const COMPACT_JWT = /^([\w-]{1,1000})\.([\w-]{1,8000})\.([\w-]{86})$/

/** The claims, or why the token is refused. `nbf` and `exp` are required, with no tolerance: we set both clocks. */
export async function verifyJwt(
  settings: SigningSettings,
  token: string,
  expected: Expected,
): Promise<{ claims: Claims } | { refusal: Refusal }> {
  const [, head, body, signature] = COMPACT_JWT.exec(token) ?? []
  const header = parseObject(head)
  if (!header || !body || !signature) return { refusal: 'malformed' }
  const key = (await loadKeys(settings)).find(({ jwk }) => jwk.kid === header.kid)
  // `crit` names extensions that a verifier has to know (RFC 7515, section 4.1.11). We know none.
  if (!key || header.alg !== 'EdDSA' || header.crit !== undefined) return { refusal: 'untrusted' }
  const bytes = Buffer.from(signature, 'base64url')
  // The last character holds two bits that are not decoded. A signature has one spelling.
  if (toBase64Url(bytes) !== signature) return { refusal: 'malformed' }
  const isSigned = await crypto.subtle.verify('Ed25519', key.publicKey, bytes, utf8.encode(`${head}.${body}`))
  if (!isSigned) return { refusal: 'untrusted' }
  const claims = parseObject(body)
  if (!claims) return { refusal: 'malformed' }
  const { iss, aud, nbf, exp } = claims
  if (header.typ !== expected.typ || iss !== expected.issuer || aud !== expected.audience)
    return { refusal: 'not_for_us' }
  const now = expected.at / 1000
  if (typeof nbf !== 'number' || typeof exp !== 'number' || nbf > now || exp <= now) return { refusal: 'expired' }
  return { claims }
}

function parseObject(part: string | undefined): Claims | undefined {
  if (!part) return undefined
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Claims) : undefined
  } catch {
    return undefined
  }
}
