// Error codes of pushes.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const pushesCodes = {
  delivery_unsigned: {
    status: 401,
    title: 'Invalid signature',
    problem: 'The SHA-256 signature of this delivery, or its token, is missing or wrong.',
    remedy: 'Set the same secret at the git host and here.',
  },
  delivery_too_large: {
    status: 413,
    title: 'Delivery too large',
    problem: 'The delivery is larger than 25 MiB.',
    remedy: 'Reduce what the git host sends.',
  },
  deliveries_busy: {
    status: 503,
    title: 'Too many deliveries at once',
    problem: 'The memory reserved for incoming deliveries is full.',
    remedy: 'Deliver this one again after the time in `Retry-After`.',
  },
} as const satisfies ErrorCodes
