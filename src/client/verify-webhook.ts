// Verifies messages of webhooks by Standard Webhooks: `v1` with the secret, `v1a` with the public key. WebCrypto alone.
import type { Reply } from './client.ts'

/** An event of the workspace, as a webhook gets it. */
export type WebhookEvent = Reply<'GET /v2/events'>['resources'][number] & {
  /** The deployment that the event is about, as it was when the event was written. */
  deployment: { id: string; name: string; status: string; url: string | null } | null
  /** Members that were too large for a message. They are empty, and `read_at` has them. */
  omitted?: ('changes' | 'data')[]
  /** The URL that answers the whole event, with an API key. */
  read_at?: string
}
export type WebhookMessage<Data = WebhookEvent> = { type: string; timestamp: string; data: Data }

/** The headers of a `Request`, or of an `IncomingMessage` of Node. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>

export type ReceivedWebhook = {
  /** The body as it was received. The signature does not match JSON that was parsed and printed again. */
  body: string | Uint8Array
  headers: WebhookHeaders
  /** Secrets (`whsec_…`) and public keys (`whpk_…`). One of them has to match: send both during a rotation. */
  key: string | readonly string[]
  /** The largest difference between the time of the message and the clock of this machine. Default: 300. */
  toleranceSeconds?: number
}

/** The message is not one that this installation has just sent. Answer 401. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError'
  readonly code: 'headers_missing' | 'timestamp_outside_tolerance' | 'signature_mismatch' | 'body_not_json'

  constructor(code: WebhookError['code'], message: string) {
    super(message)
    this.code = code
  }
}

const DEFAULT_TOLERANCE_SECONDS = 300
/** A message has one for each key that is valid. Each costs a look at the whole body, before the sender is known. */
const MAX_SIGNATURES = 16
const HMAC = { name: 'HMAC', hash: 'SHA-256' }
type Bytes = Uint8Array<ArrayBuffer>

/**
 * Throws `WebhookError` unless the message was signed with one of the keys and is recent. A repeat has the same `id`.
 */
export async function verifyWebhook<Data = WebhookEvent>(
  received: ReceivedWebhook,
): Promise<WebhookMessage<Data> & { id: string }> {
  const { body, key, toleranceSeconds = DEFAULT_TOLERANCE_SECONDS } = received
  const id = readHeader(received.headers, 'webhook-id')
  const timestamp = readHeader(received.headers, 'webhook-timestamp')
  const signatures = readHeader(received.headers, 'webhook-signature')
  if (!id || !timestamp || !signatures)
    throw new WebhookError('headers_missing', '`webhook-id`, `webhook-timestamp` or `webhook-signature` is missing.')
  const skew = Math.abs(Date.now() / 1000 - (/^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN))
  if (!(skew <= toleranceSeconds))
    throw new WebhookError(
      'timestamp_outside_tolerance',
      `\`webhook-timestamp\` differs from the clock by more than ${toleranceSeconds} seconds.`,
    )
  const signed = join(encode(`${id}.${timestamp}.`), typeof body === 'string' ? encode(body) : body)
  if (!(await isSignedBy([key].flat(), signatures.split(' ', MAX_SIGNATURES), signed)))
    throw new WebhookError('signature_mismatch', 'No signature matches. Check the key, and verify the body unchanged.')
  // The id last: that of the header is the one that is signed.
  return { ...parseMessage<Data>(typeof body === 'string' ? body : new TextDecoder().decode(body)), id }
}

function readHeader(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const [, value] = Object.entries(headers).find(([given]) => given.toLowerCase() === name) ?? []
  return typeof value === 'string' ? value : value?.[0]
}

async function isSignedBy(keys: string[], signatures: string[], signed: Bytes): Promise<boolean> {
  for (const key of keys) {
    const version = key.startsWith('whpk_') ? 'v1a' : 'v1'
    const imported = await importKey(key)
    for (const signature of signatures) {
      const [given, text = ''] = signature.split(',', 2)
      const bytes = given === version ? decodeBase64(text) : undefined
      if (bytes && (await crypto.subtle.verify(imported.algorithm.name, imported, bytes, signed))) return true
    }
  }
  return false
}

/** After `whsec_` a secret is base64. A secret without the prefix is taken as it is. */
function importKey(key: string): Promise<CryptoKey> {
  const [, prefix, text] = /^(whsec_|whpk_)?(.*)$/s.exec(key)!
  const bytes = prefix ? decodeBase64(text!) : encode(key)
  if (!bytes?.length) throw new TypeError('`key` is empty, or is no base64 after its prefix.')
  if (prefix === 'whpk_') return crypto.subtle.importKey('raw', bytes, 'Ed25519', false, ['verify'])
  return crypto.subtle.importKey('raw', bytes, HMAC, false, ['verify'])
}

function parseMessage<Data>(text: string): WebhookMessage<Data> {
  try {
    return JSON.parse(text) as WebhookMessage<Data>
  } catch {
    throw new WebhookError('body_not_json', 'The body is signed, but is no JSON.')
  }
}

const encode = (text: string): Bytes => new TextEncoder().encode(text)

function decodeBase64(text: string): Bytes | undefined {
  try {
    return Uint8Array.from(atob(text), character => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

function join(first: Uint8Array, second: Uint8Array): Bytes {
  const joined = new Uint8Array(first.length + second.length)
  joined.set(first)
  joined.set(second, first.length)
  return joined
}
