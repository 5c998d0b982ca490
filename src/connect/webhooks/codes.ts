// Error codes of webhooks.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const webhooksCodes = {
  webhook_not_found: {
    status: 404,
    title: 'Webhook not found',
    problem: 'This workspace has no such webhook.',
    remedy: 'GET /v2/webhooks lists the webhooks.',
  },
  webhook_delivery_not_found: {
    status: 404,
    title: 'Delivery not found',
    problem: 'This webhook has no such delivery, or it is no longer kept.',
    remedy: 'GET /v2/webhooks/{webhook_id}/deliveries lists the deliveries.',
  },
} as const satisfies ErrorCodes
