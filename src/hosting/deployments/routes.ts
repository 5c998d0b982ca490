// Routes of deployments.
import { slice } from '../../kernel/http/routes.ts'
import { countDeployments, listDeployments } from './list.ts'
import * as s from './schema.ts'
import { revealDeployment } from './secret-reveal.ts'
import * as deployments from './service.ts'
import { DeploymentCounts } from './summary.schema.ts'
import { listTemplates } from './templates.ts'

const customUrlErrors = ['custom_host_taken', 'custom_url_taken', 'custom_host_reserved'] as const
const integrationErrors = ['integration_unknown', 'integration_suspended', 'integration_revoked'] as const

export const deploymentRoutes = slice('Deployments', 'Hosted applications.')
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
    description: `${s.PLAN_NOTE} ${s.COMMAND_PERMISSION_NOTE}`,
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
    variant: { on: 'dry_run', reply: s.Plan, verb: deployments.planCreate },
    verb: deployments.createDeployment,
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
    description: `${s.PLAN_NOTE} ${s.COMMAND_PERMISSION_NOTE}`,
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
    variant: { on: 'dry_run', reply: s.Plan, verb: deployments.planPatch },
    verb: deployments.patchDeployment,
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
