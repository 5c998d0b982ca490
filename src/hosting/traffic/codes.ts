// Error codes of the split of traffic.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const trafficCodes = {
  traffic_refused: {
    status: 400,
    title: 'Traffic cannot be split so',
    problem: 'The traffic cannot be split between these revisions.',
    remedy:
      'Correct it. `shares` are of the revision that serves, and of the one in flight or one that has served before.',
  },
  traffic_name_taken: {
    status: 409,
    title: 'Name of a revision taken',
    problem: 'Another deployment, a branch or a commit has the address of this name, or there is no listener yet.',
    remedy: 'Choose another `name`.',
  },
} as const satisfies ErrorCodes
