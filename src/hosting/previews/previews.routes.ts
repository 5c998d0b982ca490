// Routes of preview policies and previews.

import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef, DryRun } from '../deployments/schema.ts'
import { planPolicy, readPolicy, removePolicy, setPolicy } from './preview-policy.ts'
import { requestPreview } from './preview-requests.ts'
import * as s from './previews.schema.ts'
import { approvePreview, listPreviews, listWorkspacePreviews, readPreview, removePreview } from './previews.ts'

export const previewRoutes = slice(
  'Previews',
  'Separate deployments of pull requests, branches and requests, deleted with them.',
)
  .get('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'readPreviewPolicy',
    versioned: true,
    summary: 'Read the preview policy of a deployment',
    description:
      'Of `secrets`, only the names are shown. 404 `preview_policy_not_found` means that pull requests get no ' +
      'previews.',
    params: DeploymentRef,
    reply: s.PreviewPolicy,
    errors: ['deployment_not_found', 'preview_policy_not_found'],
    verb: readPolicy,
  })
  .put('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'setPreviewPolicy',
    versioned: true,
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
      'deployment_not_found',
      'deployment_deleting',
      'source_rule',
      'not_allowed_by_listener',
      'secret_unknown',
      'secret_required',
      'plan_stale',
      'not_allowed_by_listener',
      'database_not_copied',
    ] as const,
    variant: { on: 'dry_run', reply: s.PreviewPolicyPlan, verb: planPolicy },
    verb: setPolicy,
  })
  .delete('/v2/deployments/{deployment_id}/preview-policy', {
    id: 'removePreviewPolicy',
    versioned: true,
    summary: 'Remove the preview policy and end all previews of a deployment',
    description:
      'The deployments of the previews are deleted. Pull requests get no further ones. The deployment itself stays.',
    params: DeploymentRef,
    errors: ['preview_policy_not_found'],
    verb: removePolicy,
  })
  .get('/v2/deployments/{deployment_id}/previews', {
    id: 'listPreviews',
    summary: 'List the previews of a deployment, newest first',
    description:
      'Also those that ended. `state` says what a preview waits for: `awaiting_approval` is a commit of a fork, and ' +
      '`full` means that the policy allows no more at once.',
    params: DeploymentRef,
    query: s.PreviewQuery,
    reply: s.PullPreviewList,
    errors: ['deployment_not_found'],
    verb: listPreviews,
  })
  .post('/v2/deployments/{deployment_id}/previews', {
    id: 'requestPreview',
    summary: 'Make or update a preview of a ref, a commit, an archive or an image',
    description:
      'It is created or updated after the answer: read it until its `state` is `live` or `failed`. It gets the ' +
      'secrets of the preview policy, and those of the parent that the policy names.',
    params: DeploymentRef,
    body: s.NewPreview,
    status: 202,
    reply: s.PullPreview,
    errors: [
      'deployment_not_found',
      'deployment_deleting',
      'source_rule',
      'archive_unknown',
      'preview_followed',
      'preview_source_changed',
      'previews_full',
      'not_allowed_by_listener',
      'database_not_copied',
    ],
    location: ({ parent_deployment_id, id }) => `/v2/deployments/${parent_deployment_id}/previews/${id}`,
    verb: requestPreview,
  })
  .get('/v2/deployments/{deployment_id}/previews/{number}', {
    id: 'readPreview',
    summary: 'Read a preview',
    description: 'Also one that ended, for 30 days.',
    params: s.PreviewRef,
    reply: s.PullPreview,
    errors: ['preview_not_found'],
    verb: readPreview,
  })
  .get('/v2/previews', {
    id: 'listWorkspacePreviews',
    summary: 'List the previews of a workspace, newest first',
    description:
      'Of all deployments that the caller may read. `state=awaiting_approval` lists the commits of forks that ' +
      'someone has to approve.',
    query: s.WorkspacePreviewQuery,
    reply: s.PullPreviewList,
    verb: listWorkspacePreviews,
  })
  .delete('/v2/deployments/{deployment_id}/previews/{number}', {
    id: 'removePreview',
    summary: 'Remove a preview',
    description:
      'Deletes its deployment, and declines a commit that waits for approval. A later push creates it again, unless ' +
      'a request made it.',
    params: s.PreviewRef,
    errors: ['preview_not_found'],
    verb: removePreview,
  })
  .post('/v2/deployments/{deployment_id}/previews/{number}/approval', {
    id: 'approvePreview',
    summary: 'Approve one commit of a fork',
    description: 'Approves this commit only. The next commit needs an approval of its own.',
    params: s.PullRef,
    body: s.Approval,
    reply: s.PullPreview,
    errors: ['preview_not_found', 'preview_moved'],
    verb: approvePreview,
  })
