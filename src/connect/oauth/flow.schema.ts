// Schemas of OAuth connections: token requests, the callback and the list of connections.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { arrayOf, CREDENTIAL, listOf, Page, parseWholeNumber, Uuid } from '../../protocol/wire.ts'
import { Scope } from './schema.ts'

const Time = z.string().meta({ format: 'date-time' })
const ProviderName = label(255).meta({ description: 'The `provider_id` of a provider, or its `id`.' })
const UserId = label(255)
const USER_ID_DESCRIPTION = 'Your identifier of the person. Without it, the connection belongs to the API key.'

export const AuthenticationWish = z
  .object({
    provider: ProviderName,
    scopes: arrayOf(Scope, 100).default([]).meta({
      description: 'The scopes that the token needs. Empty: the scopes of the provider.',
    }),
    user_id: UserId.nullish().meta({ description: USER_ID_DESCRIPTION }),
    force_new: z.boolean().default(false).meta({ description: 'Start a new flow even if the person is connected.' }),
  })
  .meta({ id: 'AuthenticationWish', example: { provider: 'github', scopes: ['read:user'], user_id: 'ada' } })

const STATUSES = ['completed', 'pending', 'connection_required', 'token_expired'] as const

export const Authentication = z
  .object({
    status: z.enum(STATUSES).meta({
      description: [
        '- `completed`: `token` is valid for at least a minute.',
        '- `pending`: the person is not connected, or not with these scopes.',
        '- `token_expired`: the token has expired and cannot be refreshed.',
        '- `connection_required`: the server refused the refresh token, the provider changed, or the flow failed. ' +
          '`error` names the reason of a failed flow.',
        '',
        'For every status but `completed`: open `url` in the browser of the person, and wait for `auth_id`.',
        'Without a `url`, call `POST /v2/auth/authenticate` to get one.',
      ].join('\n'),
    }),
    url: z
      .string()
      .optional()
      .meta({ ...CREDENTIAL, description: 'The URL that the person opens. Valid for ten minutes.' }),
    auth_id: Uuid.optional().meta({ description: 'The flow to wait for, with `GET /v2/auth/wait/{auth_id}`.' }),
    token: z
      .string()
      .optional()
      .meta({ ...CREDENTIAL, description: 'The access token, for `Authorization: Bearer`.' }),
    error: z.string().optional().meta({ description: 'The error code of a failed flow.' }),
    detail: z.string().optional().meta({ description: 'An explanation of `error`.' }),
  })
  .meta({ id: 'Authentication' })
export type Authentication = z.output<typeof Authentication>

export const AuthRef = z.object({ auth_id: Uuid.meta({ description: 'From `POST /v2/auth/authenticate`.' }) })
export const AuthWaitQuery = z.object({
  timeout: z
    .preprocess(parseWholeNumber, z.int().min(0).max(60).default(30))
    .meta({ description: 'How many seconds to wait at most.' }),
})

/** Accepts any text: a person with a broken URL gets a page, not a list of schema faults. */
export const CallbackRef = z.object({
  provider_id: z.string().meta({ description: 'The last segment of the `redirect_uri` of the provider.' }),
})
export const CallbackQuery = z.object({
  state: z.string().optional().meta({ description: 'The state of the flow, from the URL that the person opened.' }),
  code: z.string().optional().meta({ description: 'The authorization code.' }),
  iss: z.string().optional().meta({ description: 'The issuer of the response (RFC 9207).' }),
  error: z.string().optional().meta({ description: 'The error of the authorization server (RFC 6749).' }),
})

export const Connection = z
  .object({
    id: Uuid,
    provider_id: z.string(),
    user_id: z.string(),
    scopes: z
      .array(z.string())
      .meta({ description: 'The scopes that were requested, and those that the server granted.' }),
    expires_at: Time.nullable().meta({ description: 'When the access token expires; null if it does not.' }),
    refreshable: z
      .boolean()
      .meta({ description: 'There is a refresh token: an expired access token is renewed on request.' }),
    connected: z.boolean().meta({ description: 'False if the person needs to connect again.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Connection', description: 'The connection of a person to a provider. Its tokens are never listed.' })
export const ConnectionList = listOf(Connection).meta({ id: 'ConnectionList' })

export const ConnectionQuery = z.object({
  ...Page.shape,
  provider: ProviderName.optional(),
  user_id: UserId.optional().meta({ description: 'Only connections with this `user_id`.' }),
})

export const ConnectionRef = z
  .object({
    token_id: Uuid.optional().meta({ description: 'The `id` of a connection.' }),
    provider: ProviderName.optional(),
    user_id: UserId.optional().meta({ description: USER_ID_DESCRIPTION }),
  })
  .refine(({ token_id, provider }) => (token_id === undefined) !== (provider === undefined), {
    error: 'is required unless `provider` is given, and not allowed with it',
    path: ['token_id'],
  })
  .meta({ example: { token_id: '5d41402a-bc4b-4a76-b971-9d911017c592' } })

export const Disconnection = z
  .object({
    id: Uuid,
    revocation: z.enum(['revoked', 'unsupported', 'failed']).meta({
      description: [
        '- `revoked`: the server revoked the tokens.',
        '- `failed`: the server did not revoke the tokens.',
        '- `unsupported`: the server cannot revoke tokens, or the provider has other endpoints now.',
        '',
        'The tokens are deleted here in any case.',
      ].join('\n'),
    }),
  })
  .meta({ id: 'Disconnection' })
