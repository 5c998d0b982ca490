// How HTTP reaches OAuth providers.
import { slice } from '../kernel/routes.ts'
import * as providers from './providers.ts'
import * as s from './schema.ts'

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
    description:
      'What was discovered stays as the servers say it: endpoints can be changed of a provider made by hand, the client only where it was given.',
    params: s.ProviderRef,
    body: s.ProviderPatch,
    reply: s.OAuthProviderDetails,
    errors: ['provider_not_found', 'member_immutable', 'blocked_url'],
    versioned: true,
    verb: providers.changeProvider,
  })
  .delete('/v2/auth/providers/{provider_id}', {
    id: 'deleteProvider',
    summary: 'Delete an OAuth provider, with the tokens that people granted',
    params: s.ProviderRef,
    errors: ['provider_not_found'],
    versioned: true,
    verb: providers.deleteProvider,
  })
