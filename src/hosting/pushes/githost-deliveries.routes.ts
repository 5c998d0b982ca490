// Routes of webhook deliveries.

import { type OpenOperation, slice } from '../../kernel/http/routes.ts'
import { IntegrationRef } from '../git-hosts/schema.ts'
import { receiveDelivery } from './webhook-receiver.ts'

const deliveryOperation = {
  bodyMediaType: 'application/json',
  status: 202,
  // Each change that the delivery leads to is journaled in its own workspace.
  isReadOnly: true,
  errors: [
    'delivery_unsigned',
    'body_cut',
    'body_too_slow',
    'delivery_too_large',
    'deliveries_busy',
    'not_json',
    'invalid_request',
    'database_unavailable',
  ],
  // Git hosts deliver for all integrations from a few addresses, and do not repeat a refused delivery.
  hasOwnLimit: true,
  open: receiveDelivery,
} satisfies Partial<OpenOperation>

export const deliveryRoutes = slice('Deliveries', 'Webhooks of git hosts: pushes, pull requests and installations.')
  .post('/v1/integrations/forge/githost/webhook', {
    id: 'receiveDelivery',
    summary: 'Receive a webhook of the operator’s GitHub App',
    description: [
      'Authenticated by the signature of the body in `X-Hub-Signature-256`.',
      'Answered once the delivery is stored. A repeated delivery changes nothing.',
    ].join(' '),
    ...deliveryOperation,
  })
  .post('/v1/integrations/forge/githost/{integration_id}/webhook', {
    id: 'receiveIntegrationDelivery',
    summary: 'Receive a webhook of a workspace’s own GitHub App, or of another git host',
    params: IntegrationRef,
    description:
      'Signed with the integration’s webhook secret, in `X-Hub-Signature-256` or `X-Gitea-Signature`; or with the ' +
      'secret itself in `X-Gitlab-Token`. A request with the secret in `X-Slipway-Token`, and no body, says only ' +
      'that something changed: the repositories of the integration are compared at once.',
    ...deliveryOperation,
    errors: [...deliveryOperation.errors, 'integration_revoked', 'address_rate_limited'],
    // An unauthenticated lookup of the integration precedes the check of the signature, so addresses are limited.
    open: (c, services, operation) => {
      const name = c.req.param('integration_id')?.toLowerCase()
      return c.var.limits.prove(c, { route: 'delivery', name, refusal: 'delivery_unsigned' }, () =>
        receiveDelivery(c, services, operation),
      )
    },
  })
