// How HTTP reaches OAuth providers.
import type { Code } from '../kernel/codes.ts'
import { slice } from '../kernel/routes.ts'
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

const WHO_MAY_CHANGE =
  'A workspace may do this to a provider that it made, while no other workspace is connected or connecting through it. Everything else needs `organization:manage-providers`.'

export const providerRoutes = slice(
  'OAuth providers',
  'Where people of an organisation connect their accounts: discovered from an MCP server, or made by hand.',
)
  .get('/v2/auth/providers', {
    id: 'listProviders',
    summary: 'The OAuth providers of this organisation, newest first',
    reply: s.OAuthProviders,
    verb: providers.listProviders,
  })
  .post('/v2/auth/providers', {
    id: 'createProvider',
    summary: 'Make an OAuth provider whose client was registered by hand',
    description:
      'Register the client with `/v2/auth/callback/{provider_id}` of this installation as its redirect URI first; reading the provider tells it too, as `redirect_uri`.',
    body: s.NewProvider,
    reply: s.OAuthProvider,
    errors: ['provider_id_conflict', 'blocked_url', 'organization_not_found'],
    verb: providers.createProvider,
  })
  .post('/v2/auth/providers/mcp-discover', {
    id: 'discoverProvider',
    summary: 'Make an OAuth provider from the address of an MCP server',
    description: [
      'Its OAuth metadata is discovered, and a client comes to be: the given one; else by our client-ID metadata document, where the server takes it and this installation is reached by https; else by dynamic registration.',
      'A client that is given needs `/v2/auth/callback/{provider_id}` of this installation as its redirect URI.',
    ].join('\n\n'),
    query: s.DiscoverQuery,
    body: s.McpServer,
    reply: s.OAuthProvider,
    errors: ['provider_id_conflict', 'blocked_url', ...discoveryErrors],
    asksForeignServers: true,
    variant: { on: 'dry_run', reply: s.DiscoveryPreview, verb: previewProvider },
    verb: discoverProvider,
  })
  .get('/v2/auth/providers/{provider_id}', {
    id: 'readProvider',
    summary: 'One OAuth provider, with what is known of its servers',
    params: s.ProviderRef,
    reply: s.OAuthProviderDetails,
    errors: ['provider_not_found'],
    versioned: true,
    verb: providers.readProvider,
  })
  .patch('/v2/auth/providers/{provider_id}', {
    id: 'changeProvider',
    summary: 'Change an OAuth provider',
    description: [
      'A discovered provider keeps the endpoints that its servers publish. Only a provider made by hand can get other endpoints, and only a given client can be changed.',
      'Another endpoint needs the `client_secret` again, and ends every connection that was granted before, in every workspace: people connect again.',
      WHO_MAY_CHANGE,
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
    summary: 'Delete an OAuth provider, with the tokens that people granted',
    description: [
      'It is gone at once. Its server is asked to revoke the newest hundred tokens, for fifteen seconds at most, and to forget a registered client, as well as it goes. What is not revoked runs out there by itself, or with its client.',
      WHO_MAY_CHANGE,
    ].join('\n\n'),
    params: s.ProviderRef,
    errors: ['provider_not_found', 'provider_not_yours'],
    versioned: true,
    asksForeignServers: true,
    verb: deleteProvider,
  })
  .post('/v2/auth/providers/{provider_id}/recheck', {
    id: 'recheckProvider',
    summary: 'Ask the servers of an OAuth provider again, and tell how they are',
    description: [
      '- `healthy`: it is as it should be; endpoints that their issuer has moved are taken over.',
      '- `degraded`: something does not fit any more; `health_detail` says what.',
      '- `as_changed`: the MCP server has another authorization server now. That one never sees the client nor a token; make the provider anew. Who is connected stays so, with the server of before.',
      '- `unreachable`: a server does not answer.',
      '- `client_expired`: the secret of the client has run out. The schedule renews registered clients before that.',
      '',
      'Nothing is registered. Of a provider made by hand only its endpoints can be asked.',
    ].join('\n'),
    params: s.ProviderRef,
    reply: s.OAuthProviderDetails,
    errors: ['provider_not_found'],
    asksForeignServers: true,
    verb: recheckProvider,
  })
