// Schemas of the token endpoint. One form has the parameters of all grants; each grant requires its own.
import * as z from 'zod'
import { boundedText, CREDENTIAL, Uuid } from '../../protocol/wire.ts'
import { ACCESS_TOKEN_TYPE, TokenExchangeRequest } from './token-exchange.schema.ts'

export const TokenRequest = z
  .object({
    grant_type: boundedText(128).meta({ description: 'Says which of the other parameters are required.' }),
    client_id: boundedText(2048).optional(),
    device_code: boundedText(128).optional().meta({ description: 'Of the device grant.' }),
    ...TokenExchangeRequest.partial().shape,
    code: boundedText(128).optional().meta({ description: 'Of the grant `authorization_code`, with `code_verifier`.' }),
    code_verifier: boundedText(128).optional(),
    redirect_uri: boundedText(2048).optional().meta({ description: 'If given, the one that the code was sent to.' }),
    refresh_token: boundedText(128)
      .optional()
      .meta({ description: 'Of the grant `refresh_token`. It works once; the answer has the next one.' }),
    resource: boundedText(2048).optional().meta({ description: 'The address of `/mcp`, or of this installation.' }),
  })
  .meta({
    id: 'TokenRequest',
    example: {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: 'sld_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG1a2b3c',
      client_id: 'slipway-cli',
    },
  })

const Resource = boundedText(2048).optional()
/** The members that each grant of this slice requires of the form. */
export const CodeForm = z.object({
  client_id: boundedText(2048),
  code: boundedText(128),
  code_verifier: boundedText(128).regex(/^[\w.~-]{43,128}$/, { error: 'must be 43 to 128 unreserved characters' }),
  redirect_uri: boundedText(2048).optional(),
  resource: Resource,
})
export const RefreshForm = z.object({
  client_id: boundedText(2048),
  refresh_token: boundedText(128),
  resource: Resource,
})

export const AccessToken = z
  .object({
    access_token: z.string().meta({ ...CREDENTIAL, description: 'An API key. It is shown only once.' }),
    issued_token_type: z.literal(ACCESS_TOKEN_TYPE).optional().meta({ description: 'Of a token exchange.' }),
    token_type: z.literal('Bearer'),
    expires_in: z.int(),
    refresh_token: z
      .string()
      .optional()
      .meta({ ...CREDENTIAL, description: 'Of a client that stays connected.' }),
    scope: z.string().meta({ description: 'The permissions of the key, separated by spaces.' }),
    api_key_id: Uuid,
    workspace_id: Uuid,
    organization_id: Uuid,
  })
  .meta({ id: 'AccessToken' })
