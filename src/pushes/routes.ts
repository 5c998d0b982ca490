// How HTTP reaches pushes: where git hosts deliver, and the previews that come of pull requests.
import { DeploymentRef } from '../deployments/schema.ts'
import { IntegrationRef } from '../integrations/schema.ts'
import { type Operation, slice } from '../kernel/routes.ts'
import { readPolicy, removePolicy, setPolicy } from './preview-policy.ts'
import * as s from './previews.schema.ts'
import { approvePreview, listPreviews } from './previews.ts'
import { receiveDelivery } from './webhook-receiver.ts'

const deliveryOperation = {
  bodyMediaType: 'application/json',
  status: 202,
  // What it leads to is journaled by the work that follows, each thing in its own workspace.
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
  open: receiveDelivery,
} satisfies Partial<Operation>

export const deliveryRoutes = slice('Deliveries', 'What git hosts tell of pushes, pull requests and installations.')
  .post('/v1/integrations/forge/githost/webhook', {
    id: 'receiveDelivery',
    summary: 'Where the operator’s GitHub App delivers',
    description:
      'The signature of the body (`X-Hub-Signature-256`) stands in for a key; a delivery that is not signed is never taken. Answered once it is stored; a repeat changes nothing.',
    ...deliveryOperation,
  })
  .post('/v1/integrations/forge/githost/{integration_id}/webhook', {
    id: 'receiveOwnDelivery',
    summary: 'Where an App of a workspace’s own, or Gitea, delivers',
    params: IntegrationRef,
    description: 'Signed with the integration’s own webhook secret, in `X-Hub-Signature-256` or `X-Gitea-Signature`.',
    ...deliveryOperation,
    errors: [...deliveryOperation.errors, 'address_rate_limited'],
    // The integration is looked up before its signature can be checked.
    open: (c, services) => {
      const name = c.req.param('integration_id')?.toLowerCase()
      return c.var.limits.prove(c, { route: 'delivery', name, refusal: 'delivery_unsigned' }, () =>
        receiveDelivery(c, services),
      )
    },
  })

export const previewRoutes = slice('Previews', 'A deployment of its own for every pull request, which goes with it.')
  .get('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'readPreviewPolicy',
    summary: 'Which pull requests get a preview',
    params: DeploymentRef,
    reply: s.PreviewPolicy,
    errors: ['deployment_not_found', 'preview_policy_not_found'],
    verb: readPolicy,
  })
  .put('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'setPreviewPolicy',
    summary: 'Let pull requests have previews',
    description: 'It replaces the policy that is there. What it changes holds for previews that are made from then on.',
    params: DeploymentRef,
    body: s.NewPreviewPolicy,
    reply: s.PreviewPolicy,
    errors: ['deployment_not_found', 'deployment_deleting', 'source_rule', 'secret_unknown', 'secret_required'],
    verb: setPolicy,
  })
  .delete('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'removePreviewPolicy',
    summary: 'Make no more previews, and end those that there are',
    params: DeploymentRef,
    errors: ['preview_policy_not_found'],
    verb: removePolicy,
  })
  .get('/v2/deployments/{deployment_id}/previews', {
    id: 'listPreviews',
    summary: 'The pull requests of a deployment and their previews, newest first',
    params: DeploymentRef,
    query: s.PreviewQuery,
    reply: s.PullPreviewList,
    errors: ['deployment_not_found'],
    verb: listPreviews,
  })
  .post('/v2/deployments/{deployment_id}/previews/{number}/approval', {
    id: 'approvePreview',
    summary: 'Let one commit of a fork run',
    description: 'That commit and no other: the next one waits again.',
    params: s.PreviewRef,
    body: s.Approval,
    reply: s.PullPreview,
    errors: ['preview_not_found', 'preview_moved'],
    verb: approvePreview,
  })
