// Schemas of the token exchange (RFC 8693): the parameters that a CI sends.
import * as z from 'zod'
import { boundedText, Uuid } from '../../protocol/wire.ts'

const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:' as const
export const ACCESS_TOKEN_TYPE = `${TOKEN_TYPE}access_token` as const

/** Parameters in the form of the token endpoint. */
const tokenExchangeParameters = {
  subject_token: boundedText(16_384).meta({ description: 'A JSON Web Token of an issuer that the workspace trusts.' }),
  subject_token_type: z.enum([`${TOKEN_TYPE}jwt`, `${TOKEN_TYPE}id_token`]),
  audience: Uuid.meta({ description: 'The id of the workspace.' }),
  requested_token_type: z.literal(ACCESS_TOKEN_TYPE).optional(),
  scope: boundedText(2048).optional().meta({
    description: 'Names of permissions, separated by spaces. Without it, all of the role.',
  }),
}
export const TokenExchangeRequest = z.object(tokenExchangeParameters)
export type TokenExchangeRequest = z.output<typeof TokenExchangeRequest>
