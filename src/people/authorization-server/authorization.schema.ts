// Schemas of clients and of their requests for authorization.
import * as z from 'zod'
import { arrayOf, boundedText, CREDENTIAL, Uuid } from '../../protocol/wire.ts'

const RedirectUri = boundedText(2048)

export const Registration = z
  .object({
    redirect_uris: arrayOf(RedirectUri, 10, 1).meta({
      description:
        'https, http to the machine of the person, or a scheme of an application with a dot: `com.example.app`.',
    }),
    client_name: boundedText(256).optional().meta({ description: 'Shown to the person who decides.' }),
  })
  .meta({
    id: 'ClientRegistration',
    example: { client_name: 'Example assistant', redirect_uris: ['http://127.0.0.1/callback'] },
  })

const Texts = arrayOf(z.string(), 10)
export const RegisteredClient = z
  .object({
    client_id: z.string().meta({ description: 'Holds the metadata, sealed. It does not expire.' }),
    client_id_issued_at: z.int(),
    client_name: z.string(),
    redirect_uris: Texts,
    grant_types: Texts,
    response_types: Texts,
    token_endpoint_auth_method: z.literal('none'),
  })
  .meta({ id: 'RegisteredClient' })

/** The parameters of RFC 6749, RFC 7636 and RFC 8707. */
export const AuthorizationQuery = z
  .object({
    response_type: z.literal('code'),
    client_id: boundedText(2048).meta({
      description: 'The URL of the client’s metadata document, or an id from `POST /oauth/register`.',
    }),
    redirect_uri: RedirectUri,
    code_challenge: boundedText(43).regex(/^[\w-]{43}$/, {
      error: 'must be a SHA-256 hash in base64url, 43 characters',
    }),
    code_challenge_method: z.literal('S256'),
    scope: boundedText(4096)
      .optional()
      .meta({ description: 'Names of permissions, separated by spaces. Without it, all that the person can grant.' }),
    state: boundedText(2048).optional(),
    resource: boundedText(2048).optional(),
  })
  .meta({
    example: {
      response_type: 'code',
      client_id: 'https://assistant.example.com/oauth/client.json',
      redirect_uri: 'http://127.0.0.1:3334/callback',
      code_challenge_method: 'S256',
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    },
  })

const Permissions = z.array(z.string())
export const AuthorizationRequest = z
  .object({
    request: z
      .string()
      .meta({ ...CREDENTIAL, description: 'For the approval, by the same session, within ten minutes.' }),
    client: z.object({
      id: z.string(),
      name: z.string().meta({ description: 'What the client calls itself. Anyone can claim it.' }),
      host: z
        .string()
        .nullable()
        .meta({ description: 'The host that publishes its metadata. Null for a client that registered itself.' }),
    }),
    redirect_target: z.string().meta({ description: 'The host of the redirect URI, or the scheme of an application.' }),
    is_loopback: z.boolean().meta({ description: 'Whether the answer goes to a program on the person’s machine.' }),
    denial_url: z.string().nullable().meta({
      description:
        'Where the browser goes if the person denies. Null for a scheme of an application: it stays where it is.',
    }),
    workspaces: z
      .array(z.object({ id: Uuid, display_name: z.string(), all: Permissions, read: Permissions }))
      .meta({ description: 'Where the caller can let the client in, and the permissions that it would get.' }),
  })
  .meta({ id: 'AuthorizationRequest' })

export const Approval = z
  .object({
    request: boundedText(32_768),
    workspace_id: Uuid,
    access: z.enum(['all', 'read']).meta({
      description: 'All permissions that the caller has in the workspace, or those of them that a Viewer has.',
    }),
  })
  .meta({
    id: 'ClientApproval',
    example: { request: 'k1.sealed.text', workspace_id: '00000000-0000-4000-8000-0000000000ff', access: 'read' },
  })

export const Approved = z
  .object({
    redirect_url: z.string().meta({ ...CREDENTIAL, description: 'Where the browser takes the code. It works once.' }),
  })
  .meta({ id: 'ClientApproved' })

export const RevocationRequest = z
  .object({
    token: boundedText(128).meta({ description: 'An access token or a refresh token.' }),
    client_id: boundedText(2048).optional(),
  })
  .meta({
    id: 'RevocationRequest',
    example: {
      token: 'slr_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM',
      client_id: 'https://example.com/c.json',
    },
  })
