// Owns who we are to authorization servers: where they send people back to, and the document that says so.
import * as z from 'zod'

// Each client that we make is one provider's, named by the uuid of its row: a `provider_id` is unique within an organisation
// only. So an answer fits the one server that was asked, even where that sends no `iss`; and what a person allowed one
// organisation, a server does not take for allowed to another. (A client that a person made by hand may come back under the
// `provider_id`, which that person knew before there was a row: whose answer it is, the state tells.)
// Servers compare redirect URIs and client ids as whole strings, and a client id should have no query: so the provider is
// the end of the path, and its document a function of its address alone, there before the provider is.
const DOCUMENT_PATH = '/.well-known/oauth-client.json'

/** Where the server of a provider sends people back to. */
export const redirectUri = (origin: string, provider: string): string => `${origin}/v2/auth/callback/${provider}`

/** The client id of a provider that identifies itself by a document; null where servers could not fetch it. */
export const clientDocumentUrl = (origin: string, provider: string): string | null =>
  origin.startsWith('https://') ? `${origin}${DOCUMENT_PATH}/${provider}` : null

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

/** The document of a provider; or that of the installation, for people to look at: no provider uses it. */
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
