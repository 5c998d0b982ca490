// Routes of webhooks, their deliveries and their public keys.
import { validateInput } from '../../kernel/http/input.ts'
import { slice } from '../../kernel/http/routes.ts'
import * as deliveries from './delivery-list.ts'
import * as webhooks from './endpoints.ts'
import * as s from './schema.ts'

const keysInput = { params: s.WebhookRef }

export const webhookRoutes = slice(
  'Webhooks',
  'URLs to which the events of a workspace are sent, signed as in Standard Webhooks.',
)
  .get('/v2/webhooks', {
    id: 'listWebhooks',
    summary: 'List the webhooks of this workspace',
    description: 'Newest first. `health` says whether sending works and why not. Secrets are never shown.',
    query: s.WebhookQuery,
    reply: s.WebhookList,
    verb: webhooks.listWebhooks,
  })
  .post('/v2/webhooks', {
    id: 'createWebhook',
    summary: 'Register a URL for events',
    description: 'The answer has the secret that verifies the signatures. It is shown only once.',
    body: s.NewWebhook,
    status: 201,
    reply: s.WebhookWithSecret,
    errors: ['blocked_url', 'deployment_not_found', 'tag_value_not_found', 'workspace_not_found'],
    location: webhook => `/v2/webhooks/${webhook.id}`,
    verb: webhooks.createWebhook,
  })
  .get('/v2/webhooks/{webhook_id}', {
    id: 'readWebhook',
    summary: 'Read a webhook and its health',
    description:
      '`health.failing_since` is the first failure since the last success. After five days of failures the webhook ' +
      'is disabled. The secret is never shown.',
    params: s.WebhookRef,
    reply: s.Webhook,
    errors: ['webhook_not_found'],
    versioned: true,
    verb: webhooks.readWebhook,
  })
  .patch('/v2/webhooks/{webhook_id}', {
    id: 'changeWebhook',
    summary: 'Change, pause or resume a webhook',
    description:
      '`enabled` true resumes it where it stopped. `after` moves it to another event, to repeat some or to skip ' +
      'some. The secret stays: `rotate_secret` replaces it.',
    params: s.WebhookRef,
    body: s.WebhookPatch,
    reply: s.Webhook,
    errors: ['webhook_not_found', 'blocked_url', 'deployment_not_found', 'tag_value_not_found'],
    versioned: true,
    verb: webhooks.changeWebhook,
  })
  .delete('/v2/webhooks/{webhook_id}', {
    id: 'deleteWebhook',
    summary: 'Delete a webhook and its deliveries',
    description: 'It cannot be undone. A request that is under way may still arrive.',
    params: s.WebhookRef,
    errors: ['webhook_not_found'],
    versioned: true,
    verb: webhooks.deleteWebhook,
  })
  .post('/v2/webhooks/{webhook_id}/rotate_secret', {
    id: 'rotateWebhookSecret',
    summary: 'Replace the secret of a webhook',
    description: 'For a day, or for `overlap_seconds`, each message is signed with both secrets.',
    params: s.WebhookRef,
    body: s.Rotation,
    reply: s.WebhookWithSecret,
    errors: ['webhook_not_found'],
    verb: webhooks.rotateSecret,
  })
  .post('/v2/webhooks/{webhook_id}/ping', {
    id: 'pingWebhook',
    summary: 'Send a test event and show the answer',
    description: 'One event of type `webhook.ping`, also to a disabled webhook. It is not retried.',
    params: s.WebhookRef,
    reply: s.Ping,
    errors: ['webhook_not_found'],
    callsExternalServers: true,
    verb: deliveries.pingWebhook,
  })
  .get('/v2/webhooks/{webhook_id}/deliveries', {
    id: 'listWebhookDeliveries',
    summary: 'List the deliveries to a webhook, sent and to be sent',
    description: 'Kept for 30 days, within the last 50,000 events of the workspace.',
    params: s.WebhookRef,
    query: s.DeliveryQuery,
    reply: s.DeliveryList,
    errors: ['webhook_not_found'],
    verb: deliveries.listDeliveries,
  })
  .get('/v2/webhooks/{webhook_id}/deliveries/{delivery_id}', {
    id: 'readWebhookDelivery',
    summary: 'Read a delivery with its last request and answer',
    description:
      'The bodies are shown as far as they are kept: the beginning of the answer, and the request as it was signed. ' +
      'Use it to find out why a receiver refused an event.',
    params: s.DeliveryRef,
    reply: s.DeliveryDetails,
    errors: ['webhook_delivery_not_found'],
    verb: deliveries.readDelivery,
  })
  .post('/v2/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver', {
    id: 'redeliverWebhookDelivery',
    summary: 'Send a delivery again, now',
    description: [
      'One attempt with the same `webhook-id`, signed with the current secret, also for a disabled webhook.',
      'A success makes the delivery `delivered`; a failure leaves its retries as they are. The health does not change.',
    ].join(' '),
    params: s.DeliveryRef,
    reply: s.DeliveryDetails,
    errors: ['webhook_delivery_not_found'],
    callsExternalServers: true,
    verb: deliveries.redeliver,
  })
  .post('/v2/webhooks/{webhook_id}/recover', {
    id: 'recoverWebhook',
    summary: 'Retry the failed deliveries since a time',
    description:
      'Up to 1,000 failed deliveries, the oldest first, get all their attempts again. Send it again while ' +
      '`recovered` is 1,000.',
    params: s.WebhookRef,
    body: s.RecoveryWindow,
    reply: s.Recovered,
    errors: ['webhook_not_found'],
    verb: deliveries.recover,
  })
  .get('/.well-known/webhook-keys/{webhook_id}', {
    id: 'readWebhookKeys',
    summary: 'The public key of a webhook, as a JSON Web Key Set',
    description: 'Takes no API key.',
    ...keysInput,
    reply: s.PublicKeys,
    errors: ['webhook_not_found', 'invalid_request', 'address_rate_limited', 'database_unavailable'],
    open: async (c, services) => {
      const { webhook_id } = validateInput(c.req, keysInput, '', []) as { webhook_id: string }
      const lookUp = () => webhooks.readPublicKeys(services, webhook_id)
      const keys = await c.var.limits.prove(
        c,
        { route: 'webhook-keys', name: webhook_id, refusal: 'webhook_not_found' },
        lookUp,
      )
      return c.json(keys, 200, { 'Cache-Control': 'public, max-age=3600' })
    },
  })
