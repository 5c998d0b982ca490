// Redirect URIs, and the client-ID metadata documents that publish them.
import * as z from 'zod'

// Each provider is a client of its own, named by its row's id, because `provider_id` is unique per organization only.
// A response then fits one server even without `iss`, and consent given to one organization does not reach another.
// The id is in the path, because servers compare whole strings and a client id should have no query. The document
// depends on its URL alone, because servers fetch it before the provider exists.
const DOCUMENT_PATH = '/.well-known/oauth-client.json'

export const redirectUri = (origin: string, provider: string): string => `${origin}/v2/auth/callback/${provider}`

/** Null without https, because servers could not fetch the document. */
export const clientDocumentUrl = (origin: string, provider: string): string | null =>
  origin.startsWith('https://') ? `${origin}${DOCUMENT_PATH}/${provider}` : null

export const ClientDocument = z
  .object({
    client_id: z.url().meta({ description: 'The URL of this document.' }),
    client_name: z.string(),
    client_uri: z.url(),
    redirect_uris: z.array(z.url()),
    grant_types: z.array(z.string()),
    response_types: z.array(z.string()),
    token_endpoint_auth_method: z.literal('none'),
    application_type: z.literal('web'),
  })
  .meta({ id: 'OAuthClientDocument' })
export type ClientDocument = z.output<typeof ClientDocument>

/** Describes the installation if no provider is given. That document is for people and used by no provider. */
export function clientDocument(origin: string, provider?: string): ClientDocument | null {
  if (!origin.startsWith('https://')) return null
  return {
    client_id: `${origin}${DOCUMENT_PATH}${provider ? `/${provider}` : ''}`,
    client_name: 'Slipway',
    client_uri: origin,
    redirect_uris: [provider ? redirectUri(origin, provider) : `${origin}/v2/auth/callback`],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'web',
  }
}
