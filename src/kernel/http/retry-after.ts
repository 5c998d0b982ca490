// The header `Retry-After` of another server.

const MAX_RETRY_AFTER_S = 86_400

/** Seconds, or a date. */
export function parseRetryAfter(text: string | null, now: number): number {
  if (text === null) return 0
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : (Date.parse(text) - now) / 1000
  return Number.isFinite(seconds) ? Math.min(MAX_RETRY_AFTER_S, Math.max(0, Math.ceil(seconds))) : 0
}
