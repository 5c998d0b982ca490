// Schemas of webhooks and their deliveries.
import * as z from 'zod'
import {
  arrayOf,
  boundedText,
  CREDENTIAL,
  emptyAsAbsent,
  exactName,
  Instant,
  listOf,
  Owner,
  OwnerPatch,
  ownedBy,
  Page,
  Uuid,
} from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const WebhookRef = z.object({ webhook_id: Uuid })
export const WebhookQuery = z.object({ ...Page.shape, url: exactName('url'), owner: ownedBy })
export const DeliveryRef = WebhookRef.extend({ delivery_id: Uuid })

const EventTypePattern = boundedText(100)
  .regex(/^[a-z_*]+(\.[a-z_*]+)*$/, {
    error: 'must be a type of events such as `deployment.created`, or `deployment.*`',
  })
  .meta({ description: 'A type of events. `*` stands for any text: `deployment.*`, `*_failed` or `*`.' })

const Url = boundedText(2048).meta({
  description: '`https` with a public name. Redirects are not followed.',
  format: 'uri',
})
const Description = z.string().trim().max(1000)
const EventTypes = arrayOf(EventTypePattern, 50, 1)
const DeploymentIds = arrayOf(Uuid, 100)
const TagValueIds = arrayOf(Uuid, 50)
const After = z.int().min(0).meta({
  description: 'The number of an event. Later ones are sent. By default its own `webhook.created` and later ones.',
})

export const NewWebhook = z
  .object({
    url: Url,
    description: Description.default(''),
    event_types: EventTypes.default(['*']).meta({ description: 'Which events are sent. By default all.' }),
    deployment_ids: DeploymentIds.default([]).meta({
      description: 'If there are any, only events about these deployments, or about those with the tags, are sent.',
    }),
    tag_value_ids: TagValueIds.default([]).meta({
      description: 'If there are any, only events about deployments with one of these tags are sent.',
    }),
    enabled: z.boolean().default(true),
    owner: Owner.nullish(),
    after: After.nullish(),
  })
  .meta({
    id: 'NewWebhook',
    description: 'An address to send events to.',
    example: { url: 'https://ci.example.com/slipway', event_types: ['deployment.*', 'revision.*'] },
  })
export type NewWebhook = z.output<typeof NewWebhook>

export const WebhookPatch = z
  .object({
    url: Url.nullish(),
    description: Description.nullish(),
    event_types: EventTypes.nullish(),
    deployment_ids: DeploymentIds.nullish(),
    tag_value_ids: TagValueIds.nullish(),
    enabled: z.boolean().nullish().meta({
      description: 'False pauses the webhook. True resumes it where it stopped, also if it was disabled.',
    }),
    owner: OwnerPatch,
    after: After.nullish().meta({
      description: 'The number of an event: sending continues after it. Earlier to repeat events, later to skip some.',
    }),
  })
  .meta({
    id: 'WebhookPatch',
    description: 'Members that are absent or null stay as they are.',
    example: { event_types: ['revision.*_failed'] },
  })
export type WebhookPatch = z.output<typeof WebhookPatch>

const webhookShape = {
  id: Uuid,
  url: z.string(),
  description: z.string(),
  event_types: z.array(z.string()),
  deployment_ids: z.array(Uuid),
  tag_value_ids: z.array(Uuid),
  enabled: z.boolean(),
  owner: Owner.nullable(),
  health: z.object({
    status: z.enum(['ok', 'failing', 'disabled']),
    failing_since: Time.nullable().meta({ description: 'The first failure since the last success.' }),
    disabled_at: Time.nullable(),
    disabled_reason: z.enum(['gone', 'failing']).nullable().meta({
      description: '`gone`: the receiver answered 410. `failing`: no attempt succeeded for five days.',
    }),
  }),
  after: z.int().meta({ description: 'The number of the last event for which deliveries are stored.' }),
  public_key: z.string().meta({ description: 'Verifies the signatures `v1a`.' }),
  previous_secret_until: Time.nullable().meta({
    description: 'Until this time, messages are also signed with the secret from before the last rotation.',
  }),
  created_at: Time,
  updated_at: Time,
}
export const Webhook = z
  .object(webhookShape)
  .meta({ id: 'Webhook', description: 'An address that events are sent to.' })
export type Webhook = z.output<typeof Webhook>
export const WebhookList = listOf(Webhook).meta({ id: 'WebhookList', description: 'A page of webhooks, newest first.' })
export const WebhookWithSecret = z
  .object({
    ...webhookShape,
    secret: z.string().meta({ ...CREDENTIAL, description: 'Verifies the signatures `v1`. It is shown only once.' }),
  })
  .meta({ id: 'WebhookWithSecret', description: 'A webhook with its new secret.' })

const DAY_S = 86_400

export const Rotation = z
  .object({
    overlap_seconds: z
      .int()
      .min(0)
      .max(7 * DAY_S)
      .default(DAY_S)
      .meta({ description: 'How long messages are also signed with the previous secret. 0 ends that at once.' }),
  })
  .meta({ id: 'WebhookSecretRotation', description: 'Replaces the secret.', example: { overlap_seconds: DAY_S } })
export type Rotation = z.output<typeof Rotation>

// ---- deliveries

const States = z.enum(['waiting', 'delivered', 'failed'])

export const DeliveryQuery = Page.extend({
  state: z.preprocess(emptyAsAbsent, States.optional()),
  type: z.preprocess(emptyAsAbsent, boundedText(100).optional()).meta({ description: 'The exact type of the event.' }),
})

const deliveryShape = {
  id: Uuid,
  webhook_id: Uuid,
  message_id: z.string().meta({ description: 'The `webhook-id` of each attempt: the id of the event.' }),
  type: z.string(),
  number: z.int().meta({ description: 'The number of the event.' }),
  state: States.meta({ description: '`waiting`: the next attempt is to come. `failed`: all attempts failed.' }),
  attempts: z.int(),
  next_attempt_at: Time.nullable(),
  attempted_at: Time.nullable().meta({ description: 'The time of the last attempt.' }),
  error: z.string().nullable().meta({
    description: 'Why the last attempt failed: `refused` is an answer other than 2xx, others are codes of errors.',
  }),
  answer_status: z.int().nullable(),
  duration_ms: z.int().nullable(),
  created_at: Time,
}
export const Delivery = z.object(deliveryShape).meta({ id: 'WebhookDelivery', description: 'An event for a webhook.' })
export type Delivery = z.output<typeof Delivery>
export const DeliveryList = listOf(Delivery).meta({
  id: 'WebhookDeliveryList',
  description: 'A page of deliveries, newest first.',
})

const Request = z.object({
  url: z.string(),
  headers: z.record(z.string(), z.string()).nullable().meta({ description: 'Null before the first attempt.' }),
  body: z.string().nullable().meta({ description: 'Null once the event is no longer kept.' }),
})
const Answer = z
  .object({
    status: z.int(),
    body: z.string().meta({ description: 'The first 2 KiB of the last answer.' }),
  })
  .nullable()
export const DeliveryDetails = z
  .object({ ...deliveryShape, request: Request, answer: Answer })
  .meta({ id: 'WebhookDeliveryDetails', description: 'A delivery with its last request and answer.' })
export type DeliveryDetails = z.output<typeof DeliveryDetails>

export const Ping = z
  .object({
    delivered: z.boolean(),
    error: z.string().nullable(),
    duration_ms: z.int(),
    request: Request,
    answer: Answer,
  })
  .meta({ id: 'WebhookPing', description: 'What the receiver answered to a test event.' })
export type Ping = z.output<typeof Ping>

export const RecoveryWindow = z
  .object({ since: Instant.meta({ description: 'Deliveries stored since then that failed are attempted again.' }) })
  .meta({
    id: 'WebhookRecovery',
    description: 'Which failed deliveries to attempt again.',
    example: { since: '2026-11-01T00:00:00Z' },
  })
export const Recovered = z
  .object({ recovered: z.int().meta({ description: 'If it is 1000, there may be more: repeat the request.' }) })
  .meta({ id: 'WebhookRecovered', description: 'How many deliveries are attempted again.' })

// ---- public keys

export const PublicKeys = z
  .object({
    keys: z.array(
      z.object({
        kty: z.literal('OKP'),
        crv: z.literal('Ed25519'),
        use: z.literal('sig'),
        alg: z.literal('EdDSA'),
        kid: z.string(),
        x: z.string().meta({ description: 'The key in base64url.' }),
        whpk: z.string().meta({ description: 'The same key in the format of Standard Webhooks.' }),
      }),
    ),
  })
  .meta({ id: 'WebhookPublicKeys', description: 'A JSON Web Key Set with the key of one webhook.' })
export type PublicKeys = z.output<typeof PublicKeys>
