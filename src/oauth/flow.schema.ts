// What crosses the wire when people are connected to a provider, and when their tokens are handed out.
import * as z from 'zod'
import { label } from '../access/schema.ts'
import { arrayOf, listOf, Page, parseWholeNumber, Uuid } from '../protocol/wire.ts'
import { Scope } from './schema.ts'

const Time = z.string().meta({ format: 'date-time' })
/** By its `provider_id`, or by its `id`. */
const ProviderName = label(255).meta({ description: 'The `provider_id` of a provider, or its `id`.' })
const UserId = label(255)
const USER_ID_DESCRIPTION = 'Whoever the connection is for, in your own words; left out, the key that asks.'

export const AuthenticationWish = z
  .object({
    provider: ProviderName,
    scopes: arrayOf(Scope, 100).default([]).meta({
      description: 'What the token needs to be good for. None: what the provider was found to need.',
    }),
    user_id: UserId.nullish().meta({ description: USER_ID_DESCRIPTION }),
    force_new: z.boolean().default(false).meta({ description: 'Connect again, whatever is there.' }),
  })
  .meta({ id: 'AuthenticationWish', example: { provider: 'github', scopes: ['read:user'], user_id: 'ada' } })

const STATUSES = ['completed', 'pending', 'connection_required', 'token_expired'] as const

export const Authentication = z
  .object({
    status: z.enum(STATUSES).meta({
      description: [
        '- `completed`: `token` is fresh for at least a minute.',
        '- `pending`: the person is not connected yet, or not for these scopes.',
        '- `token_expired`: the token has run out and cannot be refreshed.',
        '- `connection_required`: the server takes the connection no longer, or connecting failed: `error` says why.',
        '',
        'Whatever is not `completed` is mended the same way: show the person `url`, and wait for `auth_id`.',
        'Where there is no `url`, ask for another one with `POST /v2/auth/authenticate`.',
      ].join('\n'),
    }),
    url: z.string().optional().meta({ description: 'Where the person goes, within ten minutes.' }),
    auth_id: Uuid.optional().meta({ description: 'What to wait for.' }),
    token: z.string().optional().meta({ description: 'The access token, for `Authorization: Bearer`.' }),
    error: z.string().optional().meta({ description: 'Why connecting failed: a word of the closed set of codes.' }),
    detail: z.string().optional().meta({ description: 'The same as a sentence.' }),
  })
  .meta({ id: 'Authentication' })
export type Authentication = z.output<typeof Authentication>

export const AuthRef = z.object({ auth_id: Uuid.meta({ description: 'From `POST /v2/auth/authenticate`.' }) })
export const AuthWaitQuery = z.object({
  timeout: z
    .preprocess(parseWholeNumber, z.int().min(0).max(60).default(30))
    .meta({ description: 'Seconds to wait at most.' }),
})

/** Whatever a browser brings: the answer is a page, and no fault of the person. */
export const CallbackRef = z.object({
  provider_id: z.string().meta({ description: 'As the `redirect_uri` of the provider ends.' }),
})
export const CallbackQuery = z.object({
  state: z.string().optional().meta({ description: 'From the address that the person was sent to.' }),
  code: z.string().optional().meta({ description: 'What the provider gives for tokens.' }),
  iss: z.string().optional().meta({ description: 'Who answers (RFC 9207).' }),
  error: z.string().optional().meta({ description: 'Why the provider gives none (RFC 6749).' }),
})

export const Connection = z
  .object({
    id: Uuid,
    provider_id: z.string(),
    user_id: z.string(),
    scopes: z.array(z.string()).meta({ description: 'What the person was asked for, and what the server granted.' }),
    expires_at: Time.nullable().meta({ description: 'When the access token runs out; null: not by itself.' }),
    refreshable: z.boolean().meta({ description: 'It is renewed when asked for.' }),
    connected: z.boolean().meta({ description: 'False: the person needs to connect again.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Connection', description: 'That a person is connected to a provider. Its tokens are never listed.' })
export const ConnectionList = listOf(Connection).meta({ id: 'ConnectionList' })

export const ConnectionQuery = z.object({
  ...Page.shape,
  provider: ProviderName.optional(),
  user_id: UserId.optional().meta({ description: 'Of this user only, as the connection was asked for.' }),
})

export const ConnectionRef = z
  .object({
    token_id: Uuid.optional().meta({ description: 'The `id` of a connection.' }),
    provider: ProviderName.optional(),
    user_id: UserId.optional().meta({ description: USER_ID_DESCRIPTION }),
  })
  .refine(({ token_id, provider }) => (token_id === undefined) !== (provider === undefined), {
    error: 'needs either `token_id` or `provider`',
    path: ['token_id'],
  })
  .meta({ example: { token_id: '5d41402a-bc4b-4a76-b971-9d911017c592' } })

export const Disconnection = z
  .object({
    id: Uuid,
    revocation: z.enum(['revoked', 'unsupported', 'failed']).meta({
      description:
        'Whether the server ended the tokens (`revoked`), did not (`failed`), or could not be asked (`unsupported`): it revokes no tokens, or the provider has other endpoints now. The tokens are deleted here in any case.',
    }),
  })
  .meta({ id: 'Disconnection' })
