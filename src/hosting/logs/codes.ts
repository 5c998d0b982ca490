// Error codes of logs.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const logsCodes = {
  log_archive_not_found: {
    status: 404,
    title: 'Log archive not found',
    problem: 'This deployment has no such archive of its logs.',
    remedy: 'GET /v2/deployments/{deployment_id}/log-archives lists them. They are deleted after their retention.',
  },
} as const satisfies ErrorCodes
