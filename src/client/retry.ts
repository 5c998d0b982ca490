// When a failed request is repeated, and how long to wait before.
import { ApiError, ConnectionError } from './errors.ts'

export type RetryPolicy = {
  /** The maximum number of times that a request is sent. */
  attempts: number
  /** The first wait. It doubles with each attempt, and a random part of up to half is taken off. */
  firstDelayMs: number
  /** The longest wait. A server that asks for a longer one is not asked again. */
  maxDelayMs: number
}

export const DEFAULT_RETRY: RetryPolicy = { attempts: 5, firstDelayMs: 250, maxDelayMs: 20_000 }

const isTemporary = (error: unknown): boolean =>
  error instanceof ConnectionError ||
  (error instanceof ApiError &&
    error.code !== 'not_configured' &&
    ([429, 502, 503, 504].includes(error.status) || error.code === 'idempotency_in_flight'))

/** The wait before the next attempt, or undefined if there is none. `attempt` counts from 1. */
export function retryDelay(error: unknown, attempt: number, policy: RetryPolicy): number | undefined {
  if (attempt >= policy.attempts || !isTemporary(error)) return undefined
  const backoff = backoffDelay(attempt, policy)
  const wanted = error instanceof ApiError ? error.retryAfterMs : undefined
  if (wanted === undefined) return backoff
  return wanted > policy.maxDelayMs ? undefined : Math.max(wanted, backoff)
}

export const backoffDelay = (attempt: number, { firstDelayMs, maxDelayMs }: RetryPolicy): number =>
  Math.min(firstDelayMs * 2 ** (attempt - 1), maxDelayMs) * (1 - Math.random() / 2)

/** Throws the signal's reason if it aborts. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', abort, { once: true })
  })
}
