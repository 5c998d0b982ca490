// Schemas of the token endpoint. One form has the parameters of all grants; each grant requires its own.
import * as z from 'zod'
import { boundedText, Uuid } from '../protocol/wire.ts'
import { ACCESS_TOKEN_TYPE, TokenExchangeRequest } from './token-exchange.schema.ts'

export const TokenRequest = z
  .object({
    grant_type: boundedText(128).meta({ description: 'Says which of the other parameters are required.' }),
    client_id: boundedText(2048).optional(),
    device_code: boundedText(128).optional().meta({ description: 'Of the device grant.' }),
    ...TokenExchangeRequest.partial().shape,
  })
  .meta({
    id: 'TokenRequest',
    example: {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: 'sld_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG1a2b3c',
      client_id: 'slipway-cli',
    },
  })

export const AccessToken = z
  .object({
    access_token: z.string().meta({ description: 'An API key. It is shown only once.' }),
    issued_token_type: z.literal(ACCESS_TOKEN_TYPE).optional().meta({ description: 'Of a token exchange.' }),
    token_type: z.literal('Bearer'),
    expires_in: z.int(),
    scope: z.string().meta({ description: 'The permissions of the key, separated by spaces.' }),
    api_key_id: Uuid,
    workspace_id: Uuid,
    organization_id: Uuid,
  })
  .meta({ id: 'AccessToken' })

export type Granted = z.output<typeof AccessToken>
