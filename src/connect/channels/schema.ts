// Schemas of channels and their notices.
import * as z from 'zod'
import {
  channelKinds,
  deployChoices,
  disabledReasons,
  noticePhases,
  noticeStates,
  severities,
} from '../../protocol/notice.schema.ts'
import { boundedText, CREDENTIAL, emptyAsAbsent, listOf, namedPage, Page, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const ChannelRef = z.object({ channel_id: Uuid })
export const ChannelQuery = namedPage('name')

const Name = boundedText(100).trim().min(1).meta({ description: 'A name that the workspace has once.' })
const Url = boundedText(2048).meta({
  description: '`https` with a public name. Redirects are not followed.',
  format: 'uri',
})
const Address = z
  .email({ error: 'must be an e-mail address' })
  .max(254)
  .meta({ description: 'Its owner confirms it by a link in an e-mail, before anything else is sent.' })
const secretText = (max: number, pattern: RegExp, error: string) => boundedText(max).regex(pattern, { error })

const TARGET_KINDS = [
  z.object({ kind: z.literal('email'), address: Address }),
  z
    .object({
      kind: z.literal('slack'),
      webhook_url: Url.nullish().meta({ description: 'An incoming webhook: each notice is a message of its own.' }),
      bot_token: secretText(255, /^xox[a-z]-[\x21-\x7e]+$/, 'must be the token of a bot, such as xoxb-…')
        .nullish()
        .meta({ description: 'The token of a bot with `chat:write`: an incident is one message, which changes.' }),
      slack_channel: boundedText(100)
        .regex(/^[CGD][A-Z0-9]{2,}$/, { error: 'must be the id of a channel, such as C024BE91L' })
        .nullish()
        .meta({ description: 'The id of the channel to which the bot writes.' }),
    })
    .check(context => {
      const { webhook_url, bot_token, slack_channel } = context.value
      const isWebhook = webhook_url != null && bot_token == null && slack_channel == null
      const isBot = webhook_url == null && bot_token != null && slack_channel != null
      if (isWebhook || isBot) return
      context.issues.push({
        code: 'custom',
        message: 'must have either `webhook_url`, or `bot_token` and `slack_channel`',
        path: ['webhook_url'],
        input: context.value,
      })
    }),
  z.object({
    kind: z.literal('pagerduty'),
    routing_key: secretText(64, /^[A-Za-z0-9]{32}$/, 'must be the 32 characters of an integration key').meta({
      description: 'The integration key of a service, for Events API v2.',
    }),
    region: z.enum(['us', 'eu']).default('us').meta({ description: 'The service region of the account.' }),
  }),
  z.object({ kind: z.literal('webhook'), url: Url }),
] as const
export const Target = z.discriminatedUnion('kind', TARGET_KINDS).meta({
  id: 'ChannelTarget',
  description: 'The receiver of the notices. Its secrets are sealed, and never shown.',
})
export type Target = z.output<typeof Target>

const Deploys = z.enum(deployChoices).meta({
  description: 'Which deployments are told of: none, those that fail, or all.',
})
const IsDefault = z.boolean().meta({ description: 'Alerts that name no channel are told here.' })
const ENABLED = { description: 'False pauses it: notices of that time are not sent later.' }

export const NewChannel = z
  .object({
    name: Name,
    target: Target,
    deploys: Deploys.default('none'),
    is_default: IsDefault.default(false),
    enabled: z.boolean().default(true).meta(ENABLED),
  })
  .meta({
    id: 'NewChannel',
    description: 'A place where people are told of incidents and deployments.',
    example: {
      name: 'on call',
      target: { kind: 'pagerduty', routing_key: '0123456789abcdef0123456789abcdef' },
      deploys: 'failed',
    },
  })
export type NewChannel = z.output<typeof NewChannel>

export const NewOwnChannel = z
  .object({
    name: Name.default('My e-mail'),
    deploys: Deploys.default('none'),
    is_default: IsDefault.default(true),
  })
  .meta({
    id: 'NewOwnChannel',
    description: 'E-mails to the address of the caller, seen and managed by the caller alone.',
    example: { deploys: 'failed' },
  })
export type NewOwnChannel = z.output<typeof NewOwnChannel>

export const ChannelPatch = z
  .object({
    name: Name.nullish(),
    target: Target.nullish().meta({ description: 'Replaces the receiver with another one of the same kind.' }),
    deploys: Deploys.nullish(),
    is_default: IsDefault.nullish(),
    enabled: z.boolean().nullish().meta({ description: 'True also resumes a channel that was disabled by failures.' }),
  })
  .meta({
    id: 'ChannelPatch',
    description: 'Members that are absent or null stay as they are.',
    example: { deploys: 'all' },
  })
export type ChannelPatch = z.output<typeof ChannelPatch>

const shownTarget = z
  .object({
    kind: z.enum(channelKinds),
    address: z.string().nullable(),
    slack_channel: z.string().nullable().meta({ description: 'Null for an incoming webhook.' }),
    region: z.enum(['us', 'eu']).nullable(),
    url: z.string().nullable(),
  })
  .meta({ description: 'The receiver, without its secrets.' })

const channelShape = {
  id: Uuid,
  name: z.string(),
  is_own: z.boolean().meta({ description: 'It is the own channel of the caller.' }),
  target: shownTarget,
  deploys: Deploys,
  is_default: IsDefault,
  enabled: z.boolean(),
  health: z.object({
    status: z.enum(['ok', 'unconfirmed', 'failing', 'disabled']),
    failing_since: Time.nullable().meta({ description: 'The first failure since the last success.' }),
    disabled_at: Time.nullable(),
    disabled_reason: z
      .enum(disabledReasons)
      .nullable()
      .meta({
        description:
          '`failing`: no attempt succeeded for five days. `rejected`: the receiver is gone, or refuses the ' +
          'credentials. `unsubscribed`: the owner of the address ended it.',
      }),
    attempted_at: Time.nullable().meta({ description: 'The time of the last attempt.' }),
    error: z.string().nullable().meta({ description: 'Why the last attempt failed. Null if it succeeded.' }),
  }),
  created_at: Time,
  updated_at: Time,
}
export const Channel = z
  .object(channelShape)
  .meta({ id: 'Channel', description: 'A place where people are told of incidents and deployments.' })
export type Channel = z.output<typeof Channel>
export const ChannelList = listOf(Channel).meta({ id: 'ChannelList', description: 'A page of channels, newest first.' })
export const ChannelWithSecret = z
  .object({
    ...channelShape,
    secret: z
      .string()
      .nullable()
      .meta({ ...CREDENTIAL, description: 'Verifies the signatures of a webhook. It is shown only once.' }),
  })
  .meta({ id: 'ChannelWithSecret', description: 'A new channel, with the secret of a webhook.' })

export const Outcome = z
  .object({
    delivered: z.boolean(),
    error: z.string().nullable().meta({
      description: 'Why it was not accepted: `refused` is an answer of the receiver, others are codes of errors.',
    }),
    answer_status: z.int().nullable().meta({ description: 'The status of HTTP or SMTP.' }),
    duration_ms: z.int(),
  })
  .meta({ id: 'ChannelTest', description: 'What became of a test notice.' })
export type Outcome = z.output<typeof Outcome>

export const NoticeQuery = Page.extend({
  state: z.preprocess(emptyAsAbsent, z.enum(noticeStates).optional()),
})
export const Notice = z
  .object({
    id: Uuid,
    channel_id: Uuid,
    thread: z.string().meta({ description: 'An incident, or a revision.' }),
    phase: z.enum(noticePhases),
    title: z.string(),
    severity: z.enum(severities),
    state: z.enum(noticeStates).meta({
      description: '`dropped`: a later notice took its place before it was sent. `failed`: all attempts failed.',
    }),
    attempts: z.int(),
    next_attempt_at: Time.nullable(),
    attempted_at: Time.nullable(),
    error: z.string().nullable(),
    answer_status: z.int().nullable(),
    duration_ms: z.int().nullable(),
    created_at: Time,
  })
  .meta({ id: 'ChannelNotice', description: 'A notice for a channel.' })
export type Notice = z.output<typeof Notice>
export const NoticeList = listOf(Notice).meta({
  id: 'ChannelNoticeList',
  description: 'A page of notices, newest first.',
})

export const LinkQuery = z.object({ token: boundedText(200) })
