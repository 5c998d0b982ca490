// Error codes of rollouts.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const rolloutsCodes = {
  rollout_refused: {
    status: 400,
    title: 'No rollout by steps',
    problem: 'Revisions of this deployment cannot get their traffic by steps.',
    remedy: 'Correct what the detail names, then send it again.',
  },
  rollout_not_found: {
    status: 404,
    title: 'No rollout policy',
    problem: 'The deployment has no rollout policy: its revisions get their traffic without steps.',
    remedy: 'Nothing is left to remove. Set a policy with `PUT`.',
  },
  rollout_not_running: {
    status: 409,
    title: 'No rollout in progress',
    problem: 'No revision of the deployment gets its traffic by steps now.',
    remedy: 'Deploy after a policy is set. Change the share of a revision in flight without steps by its traffic.',
  },
} as const satisfies ErrorCodes
