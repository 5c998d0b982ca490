// Routes of webhook deliveries, preview policies and previews.
import { DeploymentRef, DryRun } from '../deployments/schema.ts'
import { IntegrationRef } from '../integrations/schema.ts'
import { type Operation, slice } from '../kernel/routes.ts'
import { planPolicy, readPolicy, removePolicy, setPolicy } from './preview-policy.ts'
import * as s from './previews.schema.ts'
import { approvePreview, listPreviews, listWorkspacePreviews, removePreview } from './previews.ts'
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
  open: receiveDelivery,
} satisfies Partial<Operation>

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
    summary: 'Receive a webhook of a workspace’s own GitHub App, or of Gitea',
    params: IntegrationRef,
    description: 'Signed with the integration’s webhook secret, in `X-Hub-Signature-256` or `X-Gitea-Signature`.',
    ...deliveryOperation,
    errors: [...deliveryOperation.errors, 'address_rate_limited'],
    // An unauthenticated lookup of the integration precedes the check of the signature, so addresses are limited.
    open: (c, services, operation) => {
      const name = c.req.param('integration_id')?.toLowerCase()
      return c.var.limits.prove(c, { route: 'delivery', name, refusal: 'delivery_unsigned' }, () =>
        receiveDelivery(c, services, operation),
      )
    },
  })

export const previewRoutes = slice('Previews', 'A separate deployment for each pull request, deleted when it closes.')
  .get('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'readPreviewPolicy',
    summary: 'Read the preview policy of a deployment',
    params: DeploymentRef,
    reply: s.PreviewPolicy,
    errors: ['deployment_not_found', 'preview_policy_not_found'],
    verb: readPolicy,
  })
  .put('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'setPreviewPolicy',
    summary: 'Set the preview policy of a deployment',
    description: [
      'Replaces the stored policy. The new one applies to previews that are created from then on.',
      'With `dry_run=true`, the answer is the plan and nothing changes.',
      'Send the plan’s `plan_digest` as `Plan-Digest` to apply that plan and no other.',
    ].join(' '),
    params: DeploymentRef,
    query: DryRun,
    body: s.NewPreviewPolicy,
    reply: s.PreviewPolicy,
    errors: [
      ...(['deployment_not_found', 'deployment_deleting', 'source_rule'] as const),
      ...(['secret_unknown', 'secret_required', 'plan_stale'] as const),
    ],
    variant: { on: 'dry_run', reply: s.PreviewPolicyPlan, verb: planPolicy },
    verb: setPolicy,
  })
  .delete('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'removePreviewPolicy',
    summary: 'Remove the preview policy and end all previews of a deployment',
    params: DeploymentRef,
    errors: ['preview_policy_not_found'],
    verb: removePolicy,
  })
  .get('/v2/deployments/{deployment_id}/previews', {
    id: 'listPreviews',
    summary: 'List the previews of a deployment, newest first',
    params: DeploymentRef,
    query: s.PreviewQuery,
    reply: s.PullPreviewList,
    errors: ['deployment_not_found'],
    verb: listPreviews,
  })
  .get('/v2/previews', {
    id: 'listWorkspacePreviews',
    summary: 'List the previews of a workspace, newest first',
    query: s.WorkspacePreviewQuery,
    reply: s.PullPreviewList,
    verb: listWorkspacePreviews,
  })
  .delete('/v2/deployments/{deployment_id}/previews/{number}', {
    id: 'removePreview',
    summary: 'Remove a preview',
    description:
      'Deletes its deployment, and declines a commit that waits for approval. A later push creates it again.',
    params: s.PreviewRef,
    errors: ['preview_not_found'],
    verb: removePreview,
  })
  .post('/v2/deployments/{deployment_id}/previews/{number}/approval', {
    id: 'approvePreview',
    summary: 'Approve one commit of a fork',
    description: 'Approves this commit only. The next commit needs an approval of its own.',
    params: s.PreviewRef,
    body: s.Approval,
    reply: s.PullPreview,
    errors: ['preview_not_found', 'preview_moved'],
    verb: approvePreview,
  })
