// Error codes of shares.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const sharesCodes = {
  run_share_not_found: {
    status: 404,
    title: 'Shared run not found',
    problem: 'What this link shows was not found: the link or the run was deleted.',
    remedy: 'Ask for another link.',
  },
  share_token_taken: {
    status: 409,
    title: 'Token taken',
    problem: 'Another link already has this `share_token`.',
    remedy: 'Send another one, or none.',
  },
} as const satisfies ErrorCodes
