// One attempt to send a message to the URL of a webhook, through the guarded fetch.
import { Failure } from '../../kernel/http/errors.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import { parseRetryAfter } from '../../kernel/http/retry-after.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { type Message, messageHeaders, signByKey, signBySecret } from '../../protocol/webhook-signing.ts'

/** Sealed keys. The previous secret is null once it no longer signs. */
export type Receiver = { id: string; url: string; secret: string; previous_secret: string | null; signing_key: string }
export type Attempt = {
  headers: Record<string, string>
  answer: { status: number; body: string } | null
  duration_ms: number
  /** Null if the receiver accepted the message. */
  error: string | null
  /** Seconds from `Retry-After`; 0 without it. */
  retryAfter: number
}

const ANSWER_BYTES = 2048
const TIMEOUT_MS = 15_000

export const SECRET_PLACE = 'webhook secret'
export const SIGNING_KEY_PLACE = 'webhook signing key'

/** Signs with the secrets and the time of now: a repeat has the same id, and another signature. */
export async function sendMessage(services: Services, receiver: Receiver, id: string, body: string): Promise<Attempt> {
  const message = { id, timestamp: Math.floor(Date.now() / 1000), body }
  const headers = messageHeaders(message, await signMessage(services, receiver, message))
  return postMessage(services, receiver.url, headers, body)
}

export async function postMessage(
  { config, platform }: Services,
  url: string,
  headers: Record<string, string>,
  body: string,
  timeoutMs: number = TIMEOUT_MS,
): Promise<Attempt> {
  const limits = { fetchMs: timeoutMs, totalMs: timeoutMs, fetches: 1, bytes: ANSWER_BYTES }
  const client = createGuardedClient({ config, platform }, configuredOrigin(config), limits)
  client.stage('webhook')
  const started = Date.now()
  const sent = { headers, duration_ms: 0, answer: null, error: null, retryAfter: 0 }
  try {
    const response = await client.fetch(url, { method: 'POST', headers, body })
    const answer = { status: response.status, body: await readStart(response) }
    const error = response.ok ? null : 'refused'
    const retryAfter = response.ok ? 0 : parseRetryAfter(response.headers.get('Retry-After'), started)
    return { ...sent, answer, error, retryAfter, duration_ms: Date.now() - started }
  } catch (error) {
    const code = error instanceof Failure ? error.code : 'internal'
    return { ...sent, error: code, duration_ms: Date.now() - started }
  }
}

async function signMessage({ sealer }: Services, receiver: Receiver, message: Message) {
  const { id, secret, previous_secret, signing_key } = receiver
  const sealed = previous_secret === null ? [secret] : [secret, previous_secret]
  const secrets = await Promise.all(sealed.map(one => sealer.open(one, id, SECRET_PLACE)))
  const key = await sealer.open(signing_key, id, SIGNING_KEY_PLACE)
  return Promise.all([...secrets.map(one => signBySecret(one, message)), signByKey(key, message)])
}

/** The status counts, so a body that breaks off or never ends is cut. */
async function readStart(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  if (!reader) return ''
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    while (bytes < ANSWER_BYTES) {
      const { done, value } = await reader.read()
      if (done) break
      chunks.push(value)
      bytes += value.byteLength
    }
  } catch {
    // The start is enough.
  }
  await reader.cancel().catch(() => {})
  // Postgres stores no NUL.
  return new TextDecoder().decode(Buffer.concat(chunks).subarray(0, ANSWER_BYTES)).replaceAll('\0', '\ufffd')
}
