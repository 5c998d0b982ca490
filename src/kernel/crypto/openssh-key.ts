// Deploy keys and host keys in the encodings of OpenSSH. WebCrypto makes the pair, so it works in Workers too.
import { sha256 } from './digest.ts'

/** `private_key`: the content of a key file. `public_key`: a line of `authorized_keys` without its comment. */
export type DeployKey = { private_key: string; public_key: string; fingerprint: string }

const KEY_TYPE = 'ssh-ed25519'
const [SEED_BYTES, PUBLIC_BYTES, BLOCK_BYTES, LINE_LENGTH] = [32, 32, 8, 70]

export async function createDeployKey(comment: string): Promise<DeployKey> {
  const pair = (await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])) as CryptoKeyPair
  const pkcs8 = new Uint8Array(await crypto.subtle.exportKey('pkcs8', pair.privateKey))
  const publicKey = new Uint8Array((await crypto.subtle.exportKey('raw', pair.publicKey)) as ArrayBuffer)
  // The seed is the end of the structure.
  const check = crypto.getRandomValues(new Uint8Array(4))
  return encodeDeployKey(pkcs8.slice(-SEED_BYTES), publicKey.slice(0, PUBLIC_BYTES), check, comment)
}

/** `check`: four random bytes, by which OpenSSH recognizes that a key was decrypted. */
export function encodeDeployKey(
  seed: Uint8Array,
  publicKey: Uint8Array,
  check: Uint8Array,
  comment: string,
): DeployKey {
  const blob = Buffer.concat([field(KEY_TYPE), field(publicKey)])
  const secret = Buffer.concat([
    ...[check, check, field(KEY_TYPE), field(publicKey), field(Buffer.concat([seed, publicKey])), field(comment)],
  ])
  const padding = Buffer.from(
    Array.from({ length: (BLOCK_BYTES - (secret.length % BLOCK_BYTES)) % BLOCK_BYTES }, (_, i) => i + 1),
  )
  const file = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    ...[field('none'), field('none'), field(''), uint32(1), field(blob), field(Buffer.concat([secret, padding]))],
  ]).toString('base64')
  const lines = Array.from({ length: Math.ceil(file.length / LINE_LENGTH) }, (_, i) =>
    file.slice(i * LINE_LENGTH, (i + 1) * LINE_LENGTH),
  )
  const public_key = `${KEY_TYPE} ${blob.toString('base64')}`
  return {
    private_key: ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n'),
    public_key,
    fingerprint: fingerprintOf(public_key)!,
  }
}

const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
function field(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value as string)
  return Buffer.concat([uint32(bytes.length), bytes])
}

/** `SHA256:…` of a public key, as OpenSSH and git hosts show it. Null where the text is none. */
export function fingerprintOf(publicKey: string): string | null {
  const [type = '', base64 = ''] = publicKey.split(' ')
  const blob = Buffer.from(base64, 'base64')
  const length = blob.length < 4 ? 0 : blob.readUInt32BE()
  const isNamed = type !== '' && blob.toString('latin1', 4, 4 + length) === type
  // 32 bytes have one sign of padding.
  return isNamed && length < 64 ? `SHA256:${sha256().update(blob).digest('base64').slice(0, -1)}` : null
}
