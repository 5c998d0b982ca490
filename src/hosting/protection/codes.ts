// Error codes of the protection of deployments.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const protectionCodes = {
  bypass_not_found: {
    status: 404,
    title: 'Bypass not found',
    problem: 'This deployment has no such share link or bypass token.',
    remedy: 'GET /v2/deployments/{deployment_id}/bypasses lists them.',
  },
  bypasses_full: {
    status: 409,
    title: 'Too many bypasses',
    problem: 'A deployment can have 50 share links and bypass tokens.',
    remedy: 'Revoke one that is no longer used.',
  },
  host_not_served: {
    status: 409,
    title: 'Host not served',
    problem: 'The deployment does not serve this host.',
    remedy: 'Open the `url` of the deployment.',
  },
} as const satisfies ErrorCodes
