// Routes of deployments and their revisions.
import { slice } from '../../kernel/http/routes.ts'
import { createDeployment, planCreate } from './create.ts'
import { explainDeployment } from './explain.ts'
import { DeploymentMoment, MomentList, MomentListQuery, MomentQuery } from './history.schema.ts'
import { listMoments, readMoment } from './history.ts'
import { countDeployments, listDeployments } from './list.ts'
import { patchDeployment, planPatch } from './patch.ts'
import * as redeploy from './redeploy.ts'
import { compareTwoRevisions } from './revision-compare.ts'
import { waitForRevision } from './revision-wait.ts'
import { ComparedRevisions, Explanation, RevisionComparison, Rollback, WaitQuery } from './revisions.schema.ts'
import * as revisions from './revisions.ts'
import * as s from './schema.ts'
import { revealDeployment } from './secret-reveal.ts'
import * as deployments from './service.ts'
import { DeploymentCounts } from './summary.schema.ts'
import { listTemplates } from './templates.ts'

const customUrlErrors = ['custom_host_taken', 'custom_url_taken', 'custom_host_reserved'] as const
const integrationErrors = ['integration_unknown', 'integration_suspended', 'integration_revoked'] as const

const COMMAND_PERMISSION_NOTE = [
  'Changing `install_command`, `build_command`, or `init_containers` or `sidecars` of `resource_spec`',
  'also requires the permission `deployments:change-commands`.',
].join(' ')

const PLAN_NOTE = [
  'With `dry_run=true`, the answer is the plan and nothing changes.',
  'Send the plan’s `plan_digest` as `Plan-Digest` to apply that plan and no other.',
].join(' ')

export const deploymentRoutes = slice('Deployments', 'Hosted applications, and the revisions of each.')
  .get('/v2/deployments', {
    id: 'listDeployments',
    toleratesUnknown: true,
    summary: 'List the deployments of this workspace',
    description:
      'Newest first. Filters are combined, and `include=summary` adds what serves, what is on its way and the last ' +
      'revisions, so that an overview needs no further request for each deployment.',
    query: s.DeploymentQuery,
    reply: s.DeploymentList,
    verb: listDeployments,
  })
  .get('/v2/deployment-counts', {
    id: 'countDeployments',
    summary: 'Count the deployments of this workspace that match, by their state',
    description:
      'Takes the filters of the list, apart from `state`. Only the newest 1,000 that match are counted: `has_more` ' +
      'says that there are others.',
    query: s.CountQuery,
    reply: DeploymentCounts,
    verb: countDeployments,
  })
  .post('/v2/deployments', {
    id: 'createDeployment',
    toleratesUnknown: true,
    summary: 'Create a deployment, with its first revision and a tracing project of the same name',
    description: `${PLAN_NOTE} ${COMMAND_PERMISSION_NOTE}`,
    query: s.DryRun,
    body: s.NewDeployment,
    status: 201,
    reply: s.Deployment,
    errors: [
      ...([
        'source_rule',
        'template_unknown',
        'not_allowed_by_listener',
        'archive_unknown',
        'deployment_name_taken',
        'project_name_taken',
      ] as const),
      ...customUrlErrors,
      ...(['workspace_not_found', ...integrationErrors, 'plan_stale'] as const),
    ],
    location: deployment => `/v2/deployments/${deployment.id}`,
    variant: { on: 'dry_run', reply: s.Plan, verb: planCreate },
    verb: createDeployment,
  })
  .delete('/v2/deployments', {
    id: 'deleteDeployments',
    toleratesUnknown: true,
    summary: 'Delete several deployments',
    description:
      'Each deployment has its own result. If some cannot be deleted, the status is 207 and the others are deleted ' +
      'nevertheless.',
    query: s.DeploymentIds,
    reply: s.Deletions,
    partial: ({ results }) => results.some(({ code }) => code !== null),
    verb: deployments.deleteDeployments,
  })
  .get('/v2/templates', {
    id: 'listTemplates',
    summary: 'List the templates that this workspace can deploy',
    description: 'Those that the agents of its listeners offer, and those of the platform.',
    query: s.TemplateQuery,
    reply: s.TemplateList,
    verb: listTemplates,
  })
  .get('/v2/deployments/{deployment_id}', {
    id: 'readDeployment',
    toleratesUnknown: true,
    summary: 'Read a deployment',
    description:
      'The values of secrets are masked. With `reveal=true` they are shown, which takes the permission ' +
      '`secrets:read` and is written to the journal.',
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
    toleratesUnknown: true,
    summary: 'Change the configuration of a deployment, which may create a revision',
    description: `${PLAN_NOTE} ${COMMAND_PERMISSION_NOTE}`,
    params: s.DeploymentRef,
    query: s.PatchQuery,
    body: s.DeploymentPatch,
    reply: s.Deployment,
    errors: [
      ...(['deployment_not_found', 'member_immutable', 'source_rule', 'secret_unknown', 'variable_doubled'] as const),
      ...(['archive_unknown', 'deployment_deleting', 'plan_stale', ...integrationErrors] as const),
      'not_allowed_by_listener',
      ...customUrlErrors,
    ],
    versioned: true,
    variant: { on: 'dry_run', reply: s.Plan, verb: planPatch },
    verb: patchDeployment,
  })
  .delete('/v2/deployments/{deployment_id}', {
    id: 'deleteDeployment',
    toleratesUnknown: true,
    summary: 'Delete a deployment',
    description: 'Its status is AWAITING_DELETE until the data plane has removed it. Its name is free at once.',
    params: s.DeploymentRef,
    query: s.DeletionQuery,
    errors: ['deployment_not_found'],
    versioned: true,
    verb: deployments.deleteDeployment,
  })
  .get('/v2/deployments/{deployment_id}/revisions', {
    id: 'listRevisions',
    toleratesUnknown: true,
    summary: 'List the revisions of a deployment, newest first',
    description: 'Each has the status it is in, or the one it ended with. A failed one says why in `status_message`.',
    params: s.DeploymentRef,
    query: s.RevisionQuery,
    reply: s.RevisionList,
    errors: ['deployment_not_found'],
    verb: revisions.listRevisions,
  })
  .get('/v2/deployments/{deployment_id}/revisions/{revision_id}', {
    id: 'readRevision',
    toleratesUnknown: true,
    summary: 'Read a revision',
    description:
      'It has the configuration that was deployed, the status, and for a failure the reason. Use the `wait` path ' +
      'beside it to wait for the end of a revision instead of reading it again and again.',
    params: s.RevisionRef,
    reply: s.Revision,
    errors: ['revision_not_found'],
    verb: revisions.readRevision,
  })
  .get('/v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}', {
    id: 'compareRevisions',
    summary: 'Compare two revisions',
    description: 'What differs from the first (`before`) to the second (`after`), in their configurations and results.',
    params: ComparedRevisions,
    reply: RevisionComparison,
    errors: ['revision_not_found'],
    verb: compareTwoRevisions,
  })
  .post('/v2/deployments/{deployment_id}/revisions', {
    id: 'createRevision',
    toleratesUnknown: true,
    summary: 'Create a revision of the current configuration',
    description: PLAN_NOTE,
    params: s.DeploymentRef,
    query: s.DryRun,
    status: 201,
    reply: s.Revision,
    errors: ['deployment_not_found', 'deployment_deleting', 'plan_stale'],
    location: revision => `/v2/deployments/${revision.deployment_id}/revisions/${revision.id}`,
    variant: { on: 'dry_run', reply: s.Plan, verb: redeploy.planRevision },
    verb: redeploy.createRevision,
  })
  .post('/v2/deployments/{deployment_id}/revisions/{revision_id}/redeploy', {
    id: 'redeployRevision',
    toleratesUnknown: true,
    summary: 'Deploy an older revision again, as a new one',
    description: [
      'The new revision has the commit or image, configuration, resources and secret versions of the old one.',
      'They become the configuration of the deployment.',
      COMMAND_PERMISSION_NOTE,
    ].join(' '),
    params: s.RevisionRef,
    query: s.DryRun,
    reply: s.Deployment,
    errors: ['revision_not_found', 'deployment_deleting', 'plan_stale'],
    versioned: true,
    variant: { on: 'dry_run', reply: s.Plan, verb: redeploy.planRedeploy },
    verb: redeploy.redeployRevision,
  })
  .post('/v2/deployments/{deployment_id}/revisions/{revision_id}/interruption', {
    id: 'interruptRevision',
    toleratesUnknown: true,
    summary: 'Interrupt a revision that has not ended',
    description: 'The revision that waits behind it starts.',
    params: s.RevisionRef,
    errors: ['revision_not_found', 'revision_not_interruptible'],
    verb: redeploy.interruptRevision,
  })
  .get('/v2/deployments/{deployment_id}/revisions/{revision_id}/wait', {
    id: 'waitForRevision',
    summary: 'Wait until a revision has ended, or until it serves',
    description: 'When the timeout expires, the answer is the revision as it is then.',
    params: s.RevisionRef,
    query: WaitQuery,
    reply: s.Revision,
    errors: ['revision_not_found'],
    verb: waitForRevision,
  })
  .post('/v2/deployments/{deployment_id}/rollback', {
    id: 'rollBackDeployment',
    summary: 'Roll back to an older revision, and hold automatic deploys',
    description: `With \`dry_run=true\`, the answer is the plan and nothing changes. ${COMMAND_PERMISSION_NOTE}`,
    params: s.DeploymentRef,
    query: s.DryRun,
    body: Rollback,
    reply: s.Deployment,
    errors: ['deployment_not_found', 'revision_not_found', 'deployment_deleting', 'plan_stale'],
    versioned: true,
    variant: { on: 'dry_run', reply: s.Plan, verb: redeploy.planRollback },
    verb: redeploy.rollBackDeployment,
  })
  .delete('/v2/deployments/{deployment_id}/hold', {
    id: 'releaseHold',
    summary: 'Release the hold of a rollback, so that pushes deploy again',
    description:
      'The next push deploys again. The revision that serves stays. Without a rollback there is no hold, and the ' +
      'answer is `hold_not_found`.',
    params: s.DeploymentRef,
    errors: ['deployment_not_found', 'hold_not_found'],
    versioned: true,
    verb: redeploy.releaseHold,
  })
  .put('/v2/deployments/{deployment_id}/owner', {
    id: 'setDeploymentOwner',
    summary: 'Set the owner of a deployment',
    description: 'A label by which `slipway apply --prune` knows what it may delete. It changes nothing that runs.',
    params: s.DeploymentRef,
    body: s.DeploymentOwner,
    reply: s.Deployment,
    errors: ['deployment_not_found'],
    versioned: true,
    verb: deployments.setOwner,
  })
  .post('/v2/deployments/{deployment_id}/trace-key/rotation', {
    id: 'rotateTraceKey',
    summary: 'Replace the key by which the application traces itself',
    description:
      'The previous one is refused from now on. A revision that starts later gets the new one: redeploy, so that the ' +
      'application traces itself again.',
    params: s.DeploymentRef,
    status: 204,
    errors: ['deployment_not_found'],
    versioned: true,
    verb: deployments.rotateTraceKey,
  })
  .get('/v2/deployments/{deployment_id}/explain', {
    id: 'explainDeployment',
    summary: 'Explain why a deployment does not serve its latest revision',
    description:
      'Lists each reason with the revision, listener or integration that it is about, and with requests that resolve ' +
      'it. The list is empty if the latest revision serves.',
    params: s.DeploymentRef,
    reply: Explanation,
    errors: ['deployment_not_found'],
    verb: explainDeployment,
  })
  .get('/v2/deployments/{deployment_id}/state', {
    id: 'readDeploymentState',
    summary: 'Read what was wanted, served and true at a moment, and what differs now',
    description: [
      'Reconstructed from the revisions and from the journal.',
      'What the journal does not tell, because its events are no longer kept, is listed in `unknown`.',
    ].join(' '),
    params: s.DeploymentRef,
    query: MomentQuery,
    reply: DeploymentMoment,
    errors: ['deployment_not_found'],
    verb: readMoment,
  })
  .get('/v2/deployment-states', {
    id: 'listDeploymentStates',
    summary: 'List the deployments of this workspace as they were at a moment, and as they are now',
    description: 'Deployments that were deleted since then are not listed. Their events tell their names.',
    query: MomentListQuery,
    reply: MomentList,
    verb: listMoments,
  })
