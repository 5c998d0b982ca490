// Error codes of registry.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const registryCodes = {
  push_token_invalid: {
    status: 401,
    title: 'Invalid push token',
    problem: 'The password is not a valid push token.',
    remedy: 'Send the whole `token` from the response of the `push-token` request.',
  },
  push_token_expired: {
    status: 401,
    title: 'Push token expired',
    problem: 'This push token has expired, or the credential that asked for it has ended.',
    remedy: 'Request another one and log in again.',
  },
  registry_credential_ended: {
    status: 401,
    title: 'Registry credential ended',
    problem: 'The agent credential has expired, its key was revoked, or its listener no longer serves the deployment.',
    remedy: 'Request another one with POST /v1/sync/credentials.',
  },
} as const satisfies ErrorCodes
