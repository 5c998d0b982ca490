// Owns who we are to authorization servers: where they send people back to, and the document that says so.
import * as z from 'zod'

/*
 * Each provider is a client of its own, named by the uuid of its row: a provider_id is chosen by callers and is unique
 * in one organisation only. So a redirect URI belongs to one authorization server (an answer of another one does not fit
 * it, even where that sends no `iss`), and what a person granted to one organisation is nothing to another.
 *
 * Servers compare redirect URIs and client ids as whole strings and fetch the document from the client id itself, which
 * should have no query: so the provider is the end of its path, and the document a function of its address alone.
 */
const DOCUMENT = '/.well-known/oauth-client.json'

/** Where the server of a provider sends people back to. */
export const redirectUri = (origin: string, provider: string): string => `${origin}/v2/auth/callback/${provider}`

/** The client id of a provider that identifies itself by a document; null where servers could not fetch it. */
export const clientDocumentUrl = (origin: string, provider: string): string | null =>
  origin.startsWith('https://') ? `${origin}${DOCUMENT}/${provider}` : null

export const ClientDocument = z
  .object({
    client_id: z.url().meta({ description: 'The address of this document.' }),
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

/** The document of a provider, or of the installation, which sends nobody anywhere. */
export function clientDocument(origin: string, provider?: string): ClientDocument | null {
  if (!origin.startsWith('https://')) return null
  return {
    client_id: `${origin}${DOCUMENT}${provider ? `/${provider}` : ''}`,
    client_name: 'Slipway',
    client_uri: origin,
    redirect_uris: [provider ? redirectUri(origin, provider) : `${origin}/v2/auth/callback`],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'web',
  }
}
