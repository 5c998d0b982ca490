// Routes of the client-ID metadata documents, which authorization servers fetch.
import * as z from 'zod'
import type { Config } from '../../env.ts'
import { fail } from '../../kernel/http/errors.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import { slice } from '../../kernel/http/routes.ts'
import { Uuid } from '../../protocol/wire.ts'
import { ClientDocument, clientDocument } from './client-document.ts'

const HTTPS_ONLY = { detail: 'Client-ID metadata documents need an `https` base URL. Set `PUBLIC_URL`.' }
const CACHE_HEADERS = { 'Cache-Control': 'public, max-age=3600' }

function requireClientDocument(config: Config, url: string, provider?: string): ClientDocument {
  const document = clientDocument(requestOrigin(config, url), provider)
  if (!document) throw fail('route_not_found', HTTPS_ONLY)
  return document
}

const providerInput = { params: z.object({ oauth_client_id: Uuid }) }

export const identityRoutes = slice(
  'OAuth identity',
  'The OAuth clients of this installation, as authorization servers see them.',
)
  .get('/.well-known/oauth-client.json', {
    id: 'oauthClientDocument',
    summary: 'The client-ID metadata document of this installation',
    description: 'Available if the base URL is `https`. Each provider is a client of its own, with its own document.',
    reply: ClientDocument,
    errors: ['route_not_found'],
    open: (c, { config }) => c.json(requireClientDocument(config, c.req.url), 200, CACHE_HEADERS),
  })
  .get('/.well-known/oauth-client.json/{oauth_client_id}', {
    id: 'oauthProviderClientDocument',
    summary: 'The client-ID metadata document of one provider; its URL is the client id',
    description: 'Computed from the URL alone, so it does not reveal which providers exist.',
    ...providerInput,
    reply: ClientDocument,
    errors: ['route_not_found'],
    open: (c, { config }) => {
      const { oauth_client_id } = validateInput(c.req, providerInput, '', []) as { oauth_client_id: string }
      return c.json(requireClientDocument(config, c.req.url, oauth_client_id), 200, CACHE_HEADERS)
    },
  })
