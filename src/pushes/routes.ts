// How HTTP reaches pushes: where git hosts deliver.
import { type Operation, slice } from '../kernel/routes.ts'
import { receive } from './receiver.ts'

const delivery = {
  takes: 'application/json',
  status: 202,
  // What it leads to is journaled by the work that follows, each thing in its own workspace.
  reads: true,
  errors: ['delivery_unsigned', 'body_cut', 'body_too_large', 'not_json', 'invalid_request', 'database_unavailable'],
  open: receive,
} satisfies Partial<Operation>

export const deliveryRoutes = slice('Deliveries', 'What git hosts tell of pushes, pull requests and installations.')
  .post('/v1/integrations/forge/githost/webhook', {
    id: 'receiveDelivery',
    summary: 'Where the operator’s GitHub App delivers',
    description:
      'The signature of the body (`X-Hub-Signature-256`) stands in for a key; a delivery that is not signed is never taken. Answered once it is stored; a repeat changes nothing.',
    ...delivery,
  })
  .post('/v1/integrations/forge/githost/{integration_id}/webhook', {
    id: 'receiveOwnDelivery',
    summary: 'Where an App of a workspace’s own, or Gitea, delivers',
    description: 'Signed with the integration’s own webhook secret, in `X-Hub-Signature-256` or `X-Gitea-Signature`.',
    ...delivery,
  })
