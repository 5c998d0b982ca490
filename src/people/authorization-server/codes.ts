// Error codes of authorization server.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const authorizationServerCodes = {
  invalid_grant: {
    status: 400,
    title: 'Invalid grant',
    problem: 'The code or token was never issued to this client, was already used, or has ended.',
    remedy: 'Start again.',
  },
  invalid_client: {
    status: 400,
    title: 'Unknown client',
    problem: '`client_id` is not a client of this installation.',
    remedy: 'Register it.',
  },
  invalid_client_metadata: {
    status: 400,
    title: 'Invalid client metadata',
    problem: 'The metadata of this client cannot be registered.',
    remedy: 'Correct the members that `error_description` names.',
  },
  invalid_redirect_uri: {
    status: 400,
    title: 'Invalid redirect URI',
    problem: '`redirect_uri` is not one of the client, or no browser may be sent there.',
    remedy: 'Send one that the client has registered: https, http to 127.0.0.1, or a scheme like `com.example.app`.',
  },
  invalid_target: {
    status: 400,
    title: 'Unknown resource',
    problem: '`resource` is not of this installation, or not the one that was approved.',
    remedy: 'Send the `resource` of /.well-known/oauth-protected-resource/mcp.',
  },
  invalid_scope: {
    status: 400,
    title: 'Unknown scope',
    problem: '`scope` has a name that is no permission, or that the role lacks.',
    remedy: 'GET /orgs/current/permissions lists the permissions.',
  },
  token_refused: {
    status: 400,
    title: 'Token refused',
    problem: 'This workspace does not accept this token.',
    remedy:
      'Compare the issuer, audience, subject and age of the token with the trusted issuers. The events of the ' +
      'workspace say why it was refused.',
  },
  unsupported_grant_type: {
    status: 400,
    title: 'Unsupported grant type',
    problem: '`grant_type` is not one of this endpoint.',
    remedy: 'Send one of `grant_types_supported` in /.well-known/oauth-authorization-server.',
  },
  trusted_issuer_not_found: {
    status: 404,
    title: 'Trusted issuer not found',
    problem: 'This workspace has no such trusted issuer.',
    remedy: 'GET /v2/trusted-issuers lists them.',
  },
  authorization_request_not_found: {
    status: 404,
    title: 'Request not found',
    problem: 'The request of this program is older than ten minutes, or belongs to another session.',
    remedy: 'Connect again from the program.',
  },
  trusted_issuer_exists: {
    status: 409,
    title: 'Trusted issuer exists',
    problem: 'This workspace already has a trusted issuer with this `name`.',
    remedy: 'Change that one, or choose another name.',
  },
  issuer_unavailable: {
    status: 503,
    title: 'Issuer unavailable',
    problem: 'The keys of the issuer of this token could not be read.',
    remedy: 'Retry after the time in `Retry-After`. The events of the workspace say what failed.',
  },
  too_many_exchanged_keys: {
    status: 503,
    title: 'Too many keys',
    problem: 'A trusted issuer has at most 1,000 valid keys at once.',
    remedy: 'Retry when some have expired, which takes 15 minutes at most.',
  },
} as const satisfies ErrorCodes
