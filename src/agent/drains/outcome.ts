// The end of an attempt to send a batch.

export type Outcome =
  /** Taken, but for `rejected` of its records. */
  | { kind: 'taken'; rejected: number; reason?: string }
  /** No repeat of this batch can succeed. */
  | { kind: 'refused'; reason: string }
  /** A smaller batch may succeed. */
  | { kind: 'too_large'; reason: string }
  | { kind: 'failed'; reason: string; retryAfterMs: number }

export const failed = (reason: string, retryAfterMs = 0): Outcome => ({ kind: 'failed', reason, retryAfterMs })
