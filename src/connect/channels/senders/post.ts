// One HTTPS request to the receiver of a channel, through the guarded fetch.
import { Failure } from '../../../kernel/http/errors.ts'
import { createGuardedClient } from '../../../kernel/http/guarded-fetch.ts'
import { configuredOrigin } from '../../../kernel/http/origin.ts'
import { parseRetryAfter } from '../../../kernel/http/retry-after.ts'
import { type SendServices, UndeliveredError } from './outgoing.ts'

const TIMEOUT_MS = 10_000
const ANSWER_BYTES = 64 * 1024
const BUSY_STATUSES = [429, 502, 503, 504]

/** `bytes` limits the answer. */
export type Post = { url: string; headers?: Record<string, string>; body: string; bytes?: number }
export type Answer = { status: number; text: string; retryAfter: number }

/** Throws where there is no answer. Any status is an answer. */
export async function post(
  services: SendServices,
  { url, headers, body, bytes = ANSWER_BYTES }: Post,
): Promise<Answer> {
  const origin = configuredOrigin(services.config)
  const client = createGuardedClient(services, origin, {
    fetchMs: TIMEOUT_MS,
    totalMs: TIMEOUT_MS,
    fetches: 1,
    bytes,
  })
  client.stage('channel')
  try {
    const response = await client.fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json; charset=utf-8', ...headers },
      body,
    })
    const retryAfter = parseRetryAfter(response.headers.get('Retry-After'), Date.now())
    // The status counts, so a body that breaks off is no failure.
    return { status: response.status, text: await response.text().catch(() => ''), retryAfter }
  } catch (error) {
    const code = error instanceof Failure ? error.code : 'internal'
    throw new UndeliveredError(code, {
      isBusy: code === 'upstream_timeout' || code === 'upstream_error',
      isFinal: code === 'blocked_url',
    })
  }
}

/** The refusal of an answer by its status alone. */
export const refusalOf = ({ status, retryAfter }: Answer, gone: readonly number[]): UndeliveredError =>
  new UndeliveredError('refused', {
    status,
    retryAfter,
    endsChannel: gone.includes(status),
    isBusy: BUSY_STATUSES.includes(status),
    isFinal: status >= 400 && status < 500 && ![401, 403, 408, 409, 425, 429].includes(status),
  })
