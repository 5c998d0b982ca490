// Error codes of sign in.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const signInCodes = {
  authorization_pending: {
    status: 400,
    title: 'Not decided yet',
    problem: 'Nobody has approved or denied this device yet.',
    remedy: 'Poll again after the interval.',
  },
  slow_down: {
    status: 400,
    title: 'Polling too often',
    problem: 'This device polls more often than its interval allows.',
    remedy: 'Add five seconds to the interval, and poll again after it.',
  },
  expired_token: {
    status: 400,
    title: 'Code expired',
    problem: 'The device code is older than ten minutes.',
    remedy: 'Start again.',
  },
  access_denied: {
    status: 400,
    title: 'Denied',
    problem: 'The person denied this program, or has lost the workspace.',
    remedy: 'Start again, if that was a mistake.',
  },
  session_ended: {
    status: 401,
    title: 'Session ended',
    problem: 'The session has expired or was ended, or its member was removed.',
    remedy: 'Sign in again.',
  },
  identity_unknown: {
    status: 403,
    title: 'Not a member',
    problem: 'You are signed in at the identity provider, but no member of this installation has your address.',
    remedy: 'Ask an Admin of your organization to add you.',
  },
  email_unverified: {
    status: 403,
    title: 'E-mail address not verified',
    problem: 'The identity provider has not verified your e-mail address.',
    remedy: 'Verify it there and sign in again.',
  },
  member_required: {
    status: 403,
    title: 'Member required',
    problem: 'A key cannot let a program in, nor can a session that was opened with a key.',
    remedy: 'Sign in as a member, with a sign-in link or at the identity provider.',
  },
  temporary_key: {
    status: 403,
    title: 'Not with a temporary key',
    problem:
      'Keys of connected programs or of trusted issuers, and those made with them, open no session and trust ' +
      'no issuer.',
    remedy: 'Use the key itself until it ends, or sign in as a member.',
  },
  cross_site_request: {
    status: 403,
    title: 'Request from another site',
    problem: 'A page of another site sent this request, so it cannot sign anyone in.',
    remedy: 'Sign in on the page `/sign-in` of this installation.',
  },
  sign_in_expired: {
    status: 401,
    title: 'Sign-in expired',
    problem: 'This sign-in was begun in another browser or more than ten minutes ago.',
    remedy: 'Open `/sign-in` and begin again.',
  },
  sign_in_refused: {
    status: 502,
    title: 'Sign-in failed',
    problem: 'The answer of the identity provider was not accepted.',
    remedy: 'Open `/sign-in` and begin again. The operator finds the reason in the log.',
  },
  sign_in_link_invalid: {
    status: 401,
    title: 'Sign-in link no longer valid',
    problem: 'This sign-in link was already used, is older than 15 minutes, or was never created.',
    remedy: 'Ask an Admin for another one.',
  },
  device_request_not_found: {
    status: 404,
    title: 'Code not found',
    problem: 'No device waits with this code: it was decided on, is older than ten minutes, or is mistyped.',
    remedy: 'Compare it with the code that the device shows, or start again there.',
  },
  session_not_found: {
    status: 404,
    title: 'Session not found',
    problem: 'The caller has no such session.',
    remedy: 'GET /v2/me/sessions lists the sessions.',
  },
  too_many_device_requests: {
    status: 503,
    title: 'Too many device sign-ins',
    problem: 'Too many devices wait for a decision.',
    remedy: 'Retry after the time in `Retry-After`.',
  },
} as const satisfies ErrorCodes
