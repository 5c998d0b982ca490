// The header `Retry-After` of another server (pure).

/** Seconds, or a date. It comes to milliseconds, and to 0 without a readable value. */
export function parseRetryAfterMs(text: string | null | undefined, now: number): number {
  if (text == null) return 0
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isFinite(ms) ? Math.max(0, ms) : 0
}
