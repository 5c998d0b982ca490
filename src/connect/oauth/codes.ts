// Error codes of oauth.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const oauthCodes = {
  answer_issuer_mismatch: {
    status: 400,
    title: 'Wrong authorization server',
    problem: 'The response did not come from the authorization server of this flow, so it was rejected.',
    remedy: 'Connect again, and tell the application’s operator if this persists.',
  },
  authorization_denied: {
    status: 400,
    title: 'Access was not granted',
    problem: 'The person or the authorization server denied access.',
    remedy: 'Connect again and grant it.',
  },
  authorization_refused: {
    status: 400,
    title: 'Authorization failed',
    problem: 'The authorization server returned an error.',
    remedy: 'Check that the provider’s client, scopes and redirect URI match the server’s registration.',
  },
  secret_required: {
    status: 400,
    title: 'Secret required',
    problem: 'The stored secret belongs to another address and is not sent to the new one.',
    remedy: 'Send the secret again with the new address.',
  },
  flow_not_found: {
    status: 404,
    title: 'Authentication not found',
    problem: 'This workspace has no such `auth_id`.',
    remedy: 'POST /v2/auth/authenticate returns one.',
  },
  token_not_found: {
    status: 404,
    title: 'Connection not found',
    problem: 'This workspace has no such connection.',
    remedy: 'GET /v2/auth/tokens lists the connections.',
  },
  provider_not_found: {
    status: 404,
    title: 'OAuth provider not found',
    problem: 'This organization has no such OAuth provider.',
    remedy: 'GET /v2/auth/providers lists the providers.',
  },
  provider_id_conflict: {
    status: 409,
    title: 'OAuth provider exists',
    problem: 'This organization already has, or is creating, an OAuth provider with this `provider_id`.',
    remedy: 'Choose another id, or delete that provider first.',
  },
  provider_changed: {
    status: 409,
    title: 'Provider changed',
    problem: 'The provider’s endpoints or client changed after the connection began.',
    remedy: 'Connect again.',
  },
  flow_expired: {
    status: 410,
    title: 'Authentication expired',
    problem: 'The person did not finish within ten minutes.',
    remedy: 'Connect again.',
  },
  invalid_mcp_server_url: {
    status: 422,
    title: 'Invalid MCP server address',
    problem: '`mcp_server_url` is not a complete URL.',
    remedy: 'Use the https address of an MCP server, such as https://mcp.example.com/mcp.',
  },
  oauth_not_required: {
    status: 422,
    title: 'OAuth not required',
    problem: 'The server sent no OAuth challenge and publishes no OAuth metadata.',
    remedy: 'Check the address. An MCP server without OAuth needs no provider.',
  },
  resource_mismatch: {
    status: 422,
    title: 'Resource mismatch',
    problem: 'The metadata belongs to another resource.',
    remedy: 'Use the address that it names as `mcp_server_url`.',
  },
  issuer_mismatch: {
    status: 422,
    title: 'Issuer mismatch',
    problem: 'The authorization server’s `issuer` differs from the address under which it is listed.',
    remedy: 'Ask its operator to correct it, or create the provider by hand.',
  },
  pkce_unsupported: {
    status: 422,
    title: 'PKCE not supported',
    problem: 'The authorization server does not declare support for PKCE with S256.',
    remedy: 'If it supports S256 without declaring it, let the organization assume PKCE for this host.',
  },
  metadata_invalid: {
    status: 422,
    title: 'Invalid metadata',
    problem: 'The OAuth metadata is missing or malformed.',
    remedy: 'Ask the server’s operator to correct it, or create the provider by hand.',
  },
  unsafe_endpoint: {
    status: 422,
    title: 'Unsafe endpoint',
    problem: 'An endpoint of the authorization server is not a public https address.',
    remedy: 'Ask its operator to correct it.',
  },
  grant_unsupported: {
    status: 422,
    title: 'Grant not supported',
    problem:
      'The authorization server does not support the authorization code grant, which is required to connect a person.',
    remedy: 'Use another server.',
  },
  registration_unsupported: {
    status: 422,
    title: 'Registration not supported',
    problem: 'The authorization server offers no supported way to register a client.',
    remedy: 'Register one with its operator and send its `client_id`.',
  },
  registration_rejected: {
    status: 422,
    title: 'Registration rejected',
    problem: 'The authorization server rejected the client registration.',
    remedy: 'Register a client with its operator and send its `client_id`.',
  },
  registration_invalid_response: {
    status: 422,
    title: 'Invalid registration response',
    problem: 'The authorization server answered the registration with an unusable client.',
    remedy: 'Register a client with its operator and send its `client_id`.',
  },
  grant_refused: {
    status: 422,
    title: 'Grant rejected',
    problem: 'The authorization server rejected the authorization code or refresh token.',
    remedy: 'Connect again.',
  },
  client_refused: {
    status: 422,
    title: 'Client rejected',
    problem: 'The authorization server rejected the provider’s client or its request.',
    remedy: 'Check the client’s id and secret, or re-check the provider.',
  },
  token_answer_invalid: {
    status: 422,
    title: 'Invalid token response',
    problem: 'The authorization server returned no usable token.',
    remedy: 'Ask its operator to correct it.',
  },
} as const satisfies ErrorCodes
