// How HTTP reaches deployments and their revisions.
import { slice } from '../kernel/routes.ts'
import { listDeployments } from './list.ts'
import { patchDeployment, planPatch } from './patch.ts'
import * as revisions from './revisions.ts'
import * as s from './schema.ts'
import * as deployments from './service.ts'

export const deploymentRoutes = slice(
  'Deployments',
  'Applications that are hosted, and the revisions that they go through.',
)
  .get('/v2/deployments', {
    id: 'listDeployments',
    summary: 'The deployments of this workspace',
    query: s.DeploymentQuery,
    reply: s.DeploymentList,
    verb: listDeployments,
  })
  .post('/v2/deployments', {
    id: 'createDeployment',
    summary: 'Make a deployment, with its first revision and a tracing project of its name',
    body: s.NewDeployment,
    status: 201,
    reply: s.Deployment,
    errors: ['source_rule', 'deployment_name_taken', 'project_name_taken', 'workspace_not_found'],
    location: deployment => `/v2/deployments/${deployment.id}`,
    verb: deployments.createDeployment,
  })
  .delete('/v2/deployments', {
    id: 'deleteDeployments',
    summary: 'Delete several deployments',
    query: s.DeploymentIds,
    reply: s.Deletions,
    partial: ({ results }) => results.some(({ code }) => code !== null),
    verb: deployments.deleteDeployments,
  })
  .get('/v2/deployments/{deployment_id}', {
    id: 'readDeployment',
    summary: 'One deployment',
    params: s.DeploymentRef,
    reply: s.Deployment,
    errors: ['deployment_not_found'],
    versioned: true,
    verb: deployments.readDeployment,
  })
  .patch('/v2/deployments/{deployment_id}', {
    id: 'patchDeployment',
    summary: 'Change what is wanted of a deployment, which may make a revision',
    description:
      'With `dry_run=true` it answers with the plan instead. A plan’s `plan_digest`, sent as `Plan-Digest`, applies that plan or none.',
    params: s.DeploymentRef,
    query: s.PatchQuery,
    body: s.DeploymentPatch,
    reply: s.Deployment,
    errors: ['deployment_not_found', 'member_immutable', 'deployment_deleting', 'plan_stale'],
    versioned: true,
    dryRun: { reply: s.Plan, verb: planPatch },
    verb: patchDeployment,
  })
  .delete('/v2/deployments/{deployment_id}', {
    id: 'deleteDeployment',
    summary: 'Delete a deployment',
    description: 'It reads AWAITING_DELETE until the data plane has removed it; its name is free at once.',
    params: s.DeploymentRef,
    errors: ['deployment_not_found'],
    versioned: true,
    verb: deployments.deleteDeployment,
  })
  .get('/v2/deployments/{deployment_id}/revisions', {
    id: 'listRevisions',
    summary: 'The revisions of a deployment, newest first',
    params: s.DeploymentRef,
    query: s.RevisionQuery,
    reply: s.RevisionList,
    errors: ['deployment_not_found'],
    verb: revisions.listRevisions,
  })
  .get('/v2/deployments/{deployment_id}/revisions/{revision_id}', {
    id: 'readRevision',
    summary: 'One revision',
    params: s.RevisionRef,
    reply: s.Revision,
    errors: ['revision_not_found'],
    verb: revisions.readRevision,
  })
