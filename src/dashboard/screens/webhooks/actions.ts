// Actions on a webhook and its deliveries, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions } from '../../api/client.ts'
import type { Delivery, Webhook } from './webhook-state.ts'

export type NewBody = NonNullable<CallOptions<'POST /v2/webhooks'>['body']>
export type PatchBody = NonNullable<CallOptions<'PATCH /v2/webhooks/{webhook_id}'>['body']>
type Unavailable = string | undefined

const refOf = ({ id }: Webhook) => ({ params: { webhook_id: id } })

export const createWebhook = (body: NewBody, unavailable: Unavailable): Action => ({
  label: 'Create webhook',
  request: request('POST /v2/webhooks', { body }),
  unavailable,
  done: 'The webhook is created. Copy the secret now.',
})

export const changeWebhook = (webhook: Webhook, body: PatchBody, unavailable: Unavailable): Action => ({
  label: 'Save webhook',
  request: request('PATCH /v2/webhooks/{webhook_id}', { ...refOf(webhook), body }),
  unavailable,
  done: 'The webhook is saved.',
})

export const pause = (webhook: Webhook, unavailable: Unavailable): Action => ({
  label: 'Pause',
  request: request('PATCH /v2/webhooks/{webhook_id}', { ...refOf(webhook), body: { enabled: false } }),
  unavailable,
  done: 'The webhook is paused. Events are sent when it is resumed.',
})

export const resume = (webhook: Webhook, unavailable: Unavailable): Action => ({
  label: 'Resume',
  request: request('PATCH /v2/webhooks/{webhook_id}', { ...refOf(webhook), body: { enabled: true } }),
  unavailable,
  done: 'The webhook continues with the first unsent event.',
})

export const ping = (webhook: Webhook, unavailable: Unavailable): Action => ({
  label: 'Send test event',
  request: request('POST /v2/webhooks/{webhook_id}/ping', refOf(webhook)),
  command: `slipway webhooks ping ${webhook.id}`,
  unavailable,
  done: 'A test event was sent.',
})

const HOUR_S = 3600
export const rotateSecret = (webhook: Webhook, overlapHours: number, unavailable: Unavailable): Action => ({
  label: 'Rotate secret',
  request: request('POST /v2/webhooks/{webhook_id}/rotate_secret', {
    ...refOf(webhook),
    body: { overlap_seconds: overlapHours * HOUR_S },
  }),
  unavailable,
  confirm: {
    title: 'Rotate the secret?',
    body:
      overlapHours > 0
        ? `A new secret is shown once. For ${overlapHours} hours each message is signed with both secrets, so you ` +
          'can update the receiver. After that the current secret is invalid.'
        : 'A new secret is shown once. The current secret is invalid immediately: the receiver refuses messages ' +
          'until it has the new secret.',
    isDestructive: overlapHours === 0,
  },
  done: 'Copy the new secret now.',
})

export const recoverSince = (webhook: Webhook, since: string, unavailable: Unavailable): Action => ({
  label: 'Retry failed deliveries',
  request: request('POST /v2/webhooks/{webhook_id}/recover', { ...refOf(webhook), body: { since } }),
  unavailable,
  done: 'Failed deliveries since then are retried, the oldest first.',
})

export const redeliver = ({ id, webhook_id, number }: Delivery, unavailable: Unavailable): Action => ({
  label: 'Deliver again',
  request: request('POST /v2/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver', {
    params: { webhook_id, delivery_id: id },
  }),
  unavailable,
  done: `Event ${number} was sent again.`,
})

export const deleteWebhook = (webhook: Webhook, unavailable: Unavailable): Action => ({
  label: 'Delete webhook',
  request: request('DELETE /v2/webhooks/{webhook_id}', refOf(webhook)),
  command: `slipway webhooks delete ${webhook.id}`,
  unavailable,
  confirm: {
    title: `Delete the webhook to ${webhook.url}?`,
    body:
      'Unsent events are not delivered. The deliveries, the secret and the key pair are deleted. Events stay. ' +
      'To stop it temporarily, pause it instead.',
    isDestructive: true,
  },
  done: `The webhook to ${webhook.url} is deleted.`,
})
