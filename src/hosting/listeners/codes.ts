// Error codes of listeners.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const listenersCodes = {
  listener_not_found: {
    status: 404,
    title: 'Listener not found',
    problem: 'This workspace has no such listener, or the key belongs to none.',
    remedy: 'GET /v2/listeners lists the listeners.',
  },
  archive_not_found: {
    status: 404,
    title: 'Archive not found',
    problem: 'This archive no longer exists.',
    remedy: 'Poll again for the current work.',
  },
  listener_exists: {
    status: 409,
    title: 'Listener exists',
    problem: 'A listener with this `compute_id` already exists.',
    remedy: 'Use it, or choose another id.',
  },
  listener_in_use: {
    status: 409,
    title: 'Listener in use',
    problem: 'The listener, or a namespace that this change removes, still serves deployments.',
    remedy: 'Delete them first.',
  },
  lease_held: {
    status: 409,
    title: 'Lease held by another agent',
    problem: 'Another agent holds the lease of this listener.',
    remedy: 'Wait for the time in `Retry-After`, then poll again without `fence`.',
  },
  fence_stale: {
    status: 409,
    title: 'Lease lost',
    problem: 'This agent no longer holds the lease.',
    remedy: 'Stop all work, then poll without `fence` to acquire a new one.',
  },
} as const satisfies ErrorCodes
