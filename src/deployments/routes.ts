// How HTTP reaches deployments and their revisions.
import { slice } from '../kernel/routes.ts'
import { explainDeployment } from './explain.ts'
import { listDeployments } from './list.ts'
import { patchDeployment, planPatch } from './patch.ts'
import * as again from './redeploy.ts'
import { waitForRevision } from './revision-wait.ts'
import { Explanation, Rollback, WaitQuery } from './revisions.schema.ts'
import * as revisions from './revisions.ts'
import * as s from './schema.ts'
import { revealDeployment } from './secret-reveal.ts'
import * as deployments from './service.ts'

/** Of its `custom_url`. */
const customUrlErrors = ['custom_host_taken', 'custom_url_taken', 'custom_host_reserved'] as const
/** Of the integration that it comes through. */
const integrationErrors = ['integration_unknown', 'integration_suspended', 'integration_revoked'] as const

const COMMAND_PERMISSION_NOTE =
  'Changing `install_command`, `build_command`, or `init_containers` and `sidecars` of `resource_spec` takes `deployments:change-commands` besides.'

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
    description: COMMAND_PERMISSION_NOTE,
    body: s.NewDeployment,
    status: 201,
    reply: s.Deployment,
    errors: [
      ...(['source_rule', 'archive_unknown', 'deployment_name_taken', 'project_name_taken'] as const),
      ...customUrlErrors,
      ...(['workspace_not_found', ...integrationErrors] as const),
    ],
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
    query: s.RevealQuery,
    reply: s.Deployment,
    errors: ['deployment_not_found'],
    versioned: true,
    variant: { on: 'reveal', reply: s.Deployment, verb: revealDeployment },
    verb: deployments.readDeployment,
  })
  .patch('/v2/deployments/{deployment_id}', {
    id: 'patchDeployment',
    summary: 'Change what is wanted of a deployment, which may make a revision',
    description:
      'With `dry_run=true` it answers with the plan instead. A plan’s `plan_digest`, sent as `Plan-Digest`, applies that plan or none. ' +
      COMMAND_PERMISSION_NOTE,
    params: s.DeploymentRef,
    query: s.PatchQuery,
    body: s.DeploymentPatch,
    reply: s.Deployment,
    errors: [
      ...(['deployment_not_found', 'member_immutable', 'source_rule', 'secret_unknown', 'variable_doubled'] as const),
      ...(['archive_unknown', 'deployment_deleting', 'plan_stale', ...integrationErrors] as const),
      ...customUrlErrors,
    ],
    versioned: true,
    variant: { on: 'dry_run', reply: s.Plan, verb: planPatch },
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
  .post('/v2/deployments/{deployment_id}/revisions', {
    id: 'createRevision',
    summary: 'Make a revision of what is wanted now',
    params: s.DeploymentRef,
    status: 201,
    reply: s.Revision,
    errors: ['deployment_not_found', 'deployment_deleting'],
    location: revision => `/v2/deployments/${revision.deployment_id}/revisions/${revision.id}`,
    verb: again.createRevision,
  })
  .post('/v2/deployments/{deployment_id}/revisions/{revision_id}/redeploy', {
    id: 'redeployRevision',
    summary: 'Deploy an older revision again, as a new one',
    description:
      'The new revision carries the commit or image, the configuration, the resources and the versions of the secrets of the old one, and they are what is wanted from then on. ' +
      COMMAND_PERMISSION_NOTE,
    params: s.RevisionRef,
    query: s.DryRun,
    reply: s.Deployment,
    errors: ['revision_not_found', 'deployment_deleting', 'plan_stale'],
    versioned: true,
    variant: { on: 'dry_run', reply: s.Plan, verb: again.planRedeploy },
    verb: again.redeployRevision,
  })
  .post('/v2/deployments/{deployment_id}/revisions/{revision_id}/interruption', {
    id: 'interruptRevision',
    summary: 'Interrupt a revision that has not come to its end',
    description: 'The one that waits behind it takes its turn.',
    params: s.RevisionRef,
    errors: ['revision_not_found', 'revision_not_interruptible'],
    verb: again.interruptRevision,
  })
  .get('/v2/deployments/{deployment_id}/revisions/{revision_id}/wait', {
    id: 'waitForRevision',
    summary: 'Wait for a revision’s end, or until it serves',
    description: 'Answers with the revision as it is when the time is up.',
    params: s.RevisionRef,
    query: WaitQuery,
    reply: s.Revision,
    errors: ['revision_not_found'],
    verb: waitForRevision,
  })
  .post('/v2/deployments/{deployment_id}/rollback', {
    id: 'rollBackDeployment',
    summary: 'Go back to an older revision, and hold automatic deploys',
    description: `With \`dry_run=true\` it answers with the difference instead. ${COMMAND_PERMISSION_NOTE}`,
    params: s.DeploymentRef,
    query: s.DryRun,
    body: Rollback,
    reply: s.Deployment,
    errors: ['deployment_not_found', 'revision_not_found', 'deployment_deleting', 'plan_stale'],
    versioned: true,
    variant: { on: 'dry_run', reply: s.Plan, verb: again.planRollback },
    verb: again.rollBackDeployment,
  })
  .delete('/v2/deployments/{deployment_id}/hold', {
    id: 'releaseHold',
    summary: 'Let pushes deploy again after a rollback',
    params: s.DeploymentRef,
    errors: ['deployment_not_found', 'hold_not_found'],
    versioned: true,
    verb: again.releaseHold,
  })
  .get('/v2/deployments/{deployment_id}/explain', {
    id: 'explainDeployment',
    summary: 'What stands between a deployment and being served as wanted',
    params: s.DeploymentRef,
    reply: Explanation,
    errors: ['deployment_not_found'],
    verb: explainDeployment,
  })
