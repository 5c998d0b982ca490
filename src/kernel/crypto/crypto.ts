// API keys, sealing and signing. WebCrypto alone, so that it is the same on all runtimes.
const utf8 = new TextEncoder()
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const CRC_TABLE = Int32Array.from({ length: 256 }, (_, crc) => {
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})

function checksum(text: string): string {
  let crc = -1
  for (let i = 0; i < text.length; i++) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ text.charCodeAt(i)) & 0xff]!
  let rest = ~crc >>> 0
  let digits = ''
  for (let i = 0; i < 6; i++, rest = Math.floor(rest / 62)) digits = ALPHABET[rest % 62] + digits
  return digits
}

/** A prefix, random characters and a checksum of 6: scanners find leaked tokens, the edge refuses mistyped ones. */
function createTokenKind(prefix: string, length: number, pattern: RegExp) {
  return {
    /** A new token may keep the `start` of another one, and take bytes that are derived instead of random. */
    create({ start = '', nextBytes = () => crypto.getRandomValues(new Uint8Array(48)) } = {}): string {
      let secret = start
      while (secret.length < length) {
        for (const byte of nextBytes()) {
          // Bytes from 248 on would make some of the 62 characters more likely than others.
          if (byte < 248 && secret.length < length) secret += ALPHABET[byte % 62]
        }
      }
      return `${prefix}_${secret}${checksum(secret)}`
    },
    looksValid(text: string): boolean {
      const [, secret, sum] = pattern.exec(text) ?? []
      return secret !== undefined && checksum(secret) === sum
    },
  }
}

export const { create: newApiKey, looksValid: looksLikeApiKey } = createTokenKind(
  'slw',
  36,
  /^slw_([0-9A-Za-z]{36})([0-9A-Za-z]{6})$/,
)
export const { create: newLinkToken, looksValid: looksLikeLinkToken } = createTokenKind(
  'sll',
  43,
  /^sll_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/,
)
/** Session tokens have the entropy of 32 random bytes. */
export const { create: newSessionToken, looksValid: looksLikeSessionToken } = createTokenKind(
  'sls',
  43,
  /^sls_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/,
)
/** A device polls for its key with this code, which has the entropy of 32 random bytes. */
export const { create: newDeviceCode, looksValid: looksLikeDeviceCode } = createTokenKind(
  'sld',
  43,
  /^sld_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/,
)
/** An authorization code, with the entropy of 32 random bytes. */
export const { create: newAuthorizationCode, looksValid: looksLikeAuthorizationCode } = createTokenKind(
  'sla',
  43,
  /^sla_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/,
)
/** The token of a link in an e-mail of a channel. */
export const { create: newChannelToken, looksValid: looksLikeChannelToken } = createTokenKind(
  'sln',
  43,
  /^sln_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/,
)
/** The secret of a share link, or of a machine, which passes the protection of a deployment. */
export const { create: newBypassToken } = createTokenKind('slb', 43, /^slb_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/)
/** The first 22 characters stay the same when a client replaces its token; the rest is a token as above. */
export const { create: newRefreshToken, looksValid: looksLikeRefreshToken } = createTokenKind(
  'slr',
  65,
  /^slr_([0-9A-Za-z]{65})([0-9A-Za-z]{6})$/,
)
export const tokenFamilyOf = (refreshToken: string): string => refreshToken.slice(4, 26)

/** Derives bytes from a text: the same each time, and only with the keys. */
export async function createByteSource(keys: [kid: string, key: string][], text: string, purpose: string) {
  const [, key] = keys[0]!
  const master = await crypto.subtle.importKey('raw', Buffer.from(key, 'base64url'), 'HKDF', false, ['deriveBits'])
  const derivation = { name: 'HKDF', hash: 'SHA-256', salt: utf8.encode(text), info: utf8.encode(purpose) }
  const bytes = new Uint8Array(await crypto.subtle.deriveBits(derivation, master, 8 * 48 * 8))
  let used = 0
  return () => {
    // A token needs 43 characters, and 48 bytes give 46 on average.
    if (used === bytes.length) throw new Error('the derived bytes are used up')
    used += 48
    return bytes.subarray(used - 48, used)
  }
}

/** Without vowels, so that a code is never a word (RFC 8628, section 6.1). */
export const USER_CODE_LETTERS = 'BCDFGHJKLMNPQRSTVWXZ'
export function newUserCode(): string {
  let code = ''
  while (code.length < 8) {
    for (const byte of crypto.getRandomValues(new Uint8Array(16))) {
      // Bytes from 240 on would make some of the 20 letters more likely than others.
      if (byte < 240 && code.length < 8) code += USER_CODE_LETTERS[byte % 20]
    }
  }
  return code
}

export const makeKeyHint = (key: string): string => `${key.slice(0, 8)}…${key.slice(-4)}`

const AES = { name: 'AES-GCM', length: 256, uses: ['encrypt', 'decrypt'] as KeyUsage[] }
const HMAC = { name: 'HMAC', hash: 'SHA-256', length: 256, uses: ['sign', 'verify'] as KeyUsage[] }
const MAX_DERIVED_KEYS = 1_000
/** Keys, not promises of them: a request of workerd must not wait for the work of another. */
const derivedKeys = new Map<string, CryptoKey>()

/** Derives a key from a master key by HKDF. The newest are kept: to derive one costs more than to use it. */
async function deriveKey(key: string, salt: string, info: string, kind: typeof AES | typeof HMAC): Promise<CryptoKey> {
  const name = JSON.stringify([key, salt, info, kind.name])
  const known = derivedKeys.get(name)
  if (known) return known
  const master = await crypto.subtle.importKey('raw', Buffer.from(key, 'base64url'), 'HKDF', false, ['deriveKey'])
  const derivation = { name: 'HKDF', hash: 'SHA-256', salt: utf8.encode(salt), info: utf8.encode(info) }
  const derived = await crypto.subtle.deriveKey(derivation, master, kind, false, kind.uses)
  if (derivedKeys.size >= MAX_DERIVED_KEYS) derivedKeys.delete(derivedKeys.keys().next().value!)
  derivedKeys.set(name, derived)
  return derived
}

/**
 * Seals small secrets with AES-256-GCM, as `kid.nonce.ciphertext`. Each owner (a workspace, an actor) has its own data
 * key, derived from the key named by `kid`. The ciphertext is bound to its `place` and opens nowhere else. The first
 * key seals, all keys open: rotate by putting a new key first.
 */
export function createSealer(keys: [kid: string, key: string][]) {
  const dataKey = async (kid: string, owner: string) => {
    const [, key] = keys.find(([name]) => name === kid) ?? []
    if (key === undefined) throw new Error(`no sealing key named ${kid}`)
    return deriveKey(key, '', owner, AES)
  }
  return {
    async seal(plain: string, owner: string, place: string): Promise<string> {
      const [kid] = keys[0]!
      const iv = crypto.getRandomValues(new Uint8Array(12))
      const cipher = { name: 'AES-GCM', iv, additionalData: utf8.encode(place) }
      const sealed = await crypto.subtle.encrypt(cipher, await dataKey(kid, owner), utf8.encode(plain))
      return [kid, Buffer.from(iv).toString('base64url'), Buffer.from(sealed).toString('base64url')].join('.')
    },
    async open(sealed: string, owner: string, place: string): Promise<string> {
      const [kid = '', iv = '', ciphertext = ''] = sealed.split('.')
      const cipher = { name: 'AES-GCM', iv: Buffer.from(iv, 'base64url'), additionalData: utf8.encode(place) }
      const plain = await crypto.subtle.decrypt(cipher, await dataKey(kid, owner), Buffer.from(ciphertext, 'base64url'))
      return new TextDecoder().decode(plain)
    },
    /**
     * For comparing values without opening them: a keyed hash under each key, the first key's to be stored. It does not
     * show that two owners or places have the same value. With the keys, one can guess a short value by it.
     */
    async fingerprinter(owner: string): Promise<(plain: string, place: string) => Promise<string[]>> {
      const hashKeys = await Promise.all(
        keys.map(async ([kid, key]) => [kid, await deriveKey(key, 'fingerprint', owner, HMAC)] as const),
      )
      return (plain, place) =>
        Promise.all(
          hashKeys.map(async ([kid, key]) => {
            const hash = await crypto.subtle.sign('HMAC', key, utf8.encode(`${place}\0${plain}`))
            return `${kid}.${Buffer.from(hash).toString('base64url')}`
          }),
        )
    },
  }
}

/** Signs texts that clients send back, as `kid.mac`, with a key for one purpose. Verification is in constant time. */
export function createSigner(keys: [kid: string, key: string][], purpose: string) {
  const keyOf = (key: string) => deriveKey(key, '', purpose, HMAC)
  return {
    async sign(text: string): Promise<string> {
      const [kid, key] = keys[0]!
      const mac = await crypto.subtle.sign('HMAC', await keyOf(key), utf8.encode(text))
      return `${kid}.${Buffer.from(mac).toString('base64url')}`
    },
    async verify(signature: string, text: string): Promise<boolean> {
      const [kid, mac = ''] = signature.split('.')
      const [, key] = keys.find(([name]) => name === kid) ?? []
      if (key === undefined) return false
      return crypto.subtle.verify('HMAC', await keyOf(key), Buffer.from(mac, 'base64url'), utf8.encode(text))
    },
  }
}

export type Sealer = ReturnType<typeof createSealer>
