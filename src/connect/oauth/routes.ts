// Routes of OAuth providers.
import type { Code } from '../../kernel/http/codes.ts'
import { slice } from '../../kernel/http/routes.ts'
import { deleteProvider } from './provider-deletion.ts'
import { discoverProvider, previewProvider } from './provider-discovery.ts'
import { recheckProvider } from './provider-recheck.ts'
import * as providers from './providers.ts'
import * as s from './schema.ts'

const discoveryErrors: Code[] = [
  'invalid_mcp_server_url',
  'oauth_not_required',
  'resource_mismatch',
  'issuer_mismatch',
  'pkce_unsupported',
  'metadata_invalid',
  'unsafe_endpoint',
  'grant_unsupported',
  'registration_unsupported',
  'registration_rejected',
  'registration_invalid_response',
  'upstream_error',
  'upstream_timeout',
]

const REQUIRED_PERMISSION =
  'A workspace may do this to a provider that it made, while no other workspace is connected or connecting through ' +
  'it. Otherwise it needs `organization:manage-providers`.'

export const providerRoutes = slice(
  'OAuth providers',
  'Servers where people of an organization connect their accounts: discovered from an MCP server, or made by hand.',
)
  .get('/v2/auth/providers', {
    id: 'listProviders',
    toleratesUnknown: true,
    summary: 'List the OAuth providers of the organization, newest first',
    description: 'All workspaces of the organization share them. Client secrets are never shown.',
    query: s.ProviderQuery,
    reply: s.OAuthProviders,
    verb: providers.listProviders,
  })
  .post('/v2/auth/providers', {
    id: 'createProvider',
    toleratesUnknown: true,
    summary: 'Create an OAuth provider for a client that you registered',
    description:
      'First register a client at the server, with `/v2/auth/callback/{provider_id}` of this installation as its ' +
      'redirect URI. The provider shows it as `redirect_uri`.',
    body: s.NewProvider,
    reply: s.OAuthProvider,
    errors: ['provider_id_conflict', 'blocked_url', 'organization_not_found'],
    verb: providers.createProvider,
  })
  .post('/v2/auth/providers/mcp-discover', {
    id: 'discoverProvider',
    toleratesUnknown: true,
    summary: 'Create an OAuth provider from the URL of an MCP server',
    description: [
      'Discovers the OAuth metadata of the server, and obtains a client in the first possible way:',
      [
        '- the client that you send in `client_id`',
        '- a client-ID metadata document, if the server supports it and this installation has an https URL',
        '- dynamic registration',
      ].join('\n'),
      'A client that you send needs `/v2/auth/callback/{provider_id}` of this installation as its redirect URI.',
    ].join('\n\n'),
    query: s.DiscoverQuery,
    body: s.McpServer,
    reply: s.OAuthProvider,
    errors: ['provider_id_conflict', 'blocked_url', ...discoveryErrors],
    callsExternalServers: true,
    variant: { on: 'dry_run', reply: s.DiscoveryPreview, verb: previewProvider },
    verb: discoverProvider,
  })
  .get('/v2/auth/providers/{provider_id}', {
    id: 'readProvider',
    toleratesUnknown: true,
    summary: 'Read an OAuth provider, with the metadata and the health of its servers',
    description:
      '`health` is that of the last check. `POST /v2/auth/providers/{provider_id}/recheck` checks now. The client ' +
      'secret is never shown.',
    params: s.ProviderRef,
    reply: s.OAuthProviderDetails,
    errors: ['provider_not_found'],
    versioned: true,
    verb: providers.readProvider,
  })
  .patch('/v2/auth/providers/{provider_id}', {
    id: 'changeProvider',
    toleratesUnknown: true,
    summary: 'Change an OAuth provider',
    description: [
      'Only a provider made by hand accepts other endpoints; a discovered provider uses those that its server ' +
        'publishes. Only a client that you registered can be changed.',
      'A new endpoint needs the `client_secret` again. It ends all connections, in every workspace.',
      REQUIRED_PERMISSION,
    ].join('\n\n'),
    params: s.ProviderRef,
    body: s.ProviderPatch,
    reply: s.OAuthProviderDetails,
    errors: ['provider_not_found', 'provider_not_yours', 'member_immutable', 'secret_required', 'blocked_url'],
    versioned: true,
    verb: providers.changeProvider,
  })
  .delete('/v2/auth/providers/{provider_id}', {
    id: 'deleteProvider',
    toleratesUnknown: true,
    summary: 'Delete an OAuth provider and its connections',
    description: [
      'The provider is deleted at once. Then, as a best effort, the newest hundred tokens are revoked at its server, ' +
        'for up to fifteen seconds, and a dynamic client is unregistered. Other tokens stay valid until they expire.',
      REQUIRED_PERMISSION,
    ].join('\n\n'),
    params: s.ProviderRef,
    errors: ['provider_not_found', 'provider_not_yours'],
    versioned: true,
    callsExternalServers: true,
    verb: deleteProvider,
  })
  .post('/v2/auth/providers/{provider_id}/recheck', {
    id: 'recheckProvider',
    summary: 'Check the servers of an OAuth provider',
    description: [
      '- `healthy`: the servers respond as expected. Endpoints that the issuer moved are updated.',
      '- `degraded`: the servers no longer match the provider. `health_detail` says why.',
      '- `as_changed`: the MCP server has another authorization server now. It gets neither the client nor a token. ' +
        'Create a new provider. Existing connections keep the previous server.',
      '- `unreachable`: a server does not respond.',
      '- `client_expired`: the client secret has expired. The scheduled check renews dynamic clients before that.',
      '',
      'Registers nothing. For a provider made by hand, it only checks that the endpoints respond.',
    ].join('\n'),
    params: s.ProviderRef,
    reply: s.OAuthProviderDetails,
    errors: ['provider_not_found'],
    callsExternalServers: true,
    verb: recheckProvider,
  })
