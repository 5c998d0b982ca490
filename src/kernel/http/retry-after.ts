// The header `Retry-After` of another server, as whole seconds.
import { parseRetryAfterMs } from '../../protocol/retry-after.ts'

const MAX_RETRY_AFTER_S = 86_400

export const parseRetryAfter = (text: string | null, now: number): number =>
  Math.min(MAX_RETRY_AFTER_S, Math.ceil(parseRetryAfterMs(text, now) / 1000))
