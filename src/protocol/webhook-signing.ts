// Signatures by Standard Webhooks: `v1` with a shared secret, `v1a` with a key pair. WebCrypto alone.

const HMAC = { name: 'HMAC', hash: 'SHA-256' }
const SECRET_BYTES = 32
const utf8 = new TextEncoder()
const toBase64 = (bytes: ArrayBuffer | Uint8Array<ArrayBuffer>): string =>
  Buffer.from(bytes as ArrayBuffer).toString('base64')

export const newSecret = (): string => `whsec_${toBase64(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)))}`

export type KeyPair = { publicKey: string; privateKey: string }

/** The public key as Standard Webhooks write it, the private key as PKCS#8 in base64. */
export async function newKeyPair(): Promise<KeyPair> {
  const { publicKey, privateKey } = (await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])) as Extract<
    Awaited<ReturnType<typeof crypto.subtle.generateKey>>,
    { privateKey: unknown }
  >
  const raw = (await crypto.subtle.exportKey('raw', publicKey)) as ArrayBuffer
  const pkcs8 = (await crypto.subtle.exportKey('pkcs8', privateKey)) as ArrayBuffer
  return { publicKey: `whpk_${toBase64(raw)}`, privateKey: toBase64(pkcs8) }
}

export type Message = { id: string; timestamp: number; body: string }
const signedBytes = ({ id, timestamp, body }: Message) => utf8.encode(`${id}.${timestamp}.${body}`)

/** After `whsec_` a secret is base64. A secret without the prefix is taken as it is. */
export async function signBySecret(secret: string, message: Message): Promise<string> {
  const bytes = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : utf8.encode(secret)
  const key = await crypto.subtle.importKey('raw', bytes, HMAC, false, ['sign'])
  return `v1,${toBase64(await crypto.subtle.sign('HMAC', key, signedBytes(message)))}`
}

export async function signByKey(privateKey: string, message: Message): Promise<string> {
  const key = await crypto.subtle.importKey('pkcs8', Buffer.from(privateKey, 'base64'), 'Ed25519', false, ['sign'])
  return `v1a,${toBase64(await crypto.subtle.sign('Ed25519', key, signedBytes(message)))}`
}

export const messageHeaders = ({ id, timestamp }: Message, signatures: string[]): Record<string, string> => ({
  'content-type': 'application/json',
  'webhook-id': id,
  'webhook-timestamp': String(timestamp),
  'webhook-signature': signatures.join(' '),
})
