// Routes of the revisions of a deployment.
import { slice } from '../../kernel/http/routes.ts'
import * as redeploy from './redeploy.ts'
import { compareTwoRevisions } from './revision-compare.ts'
import { waitForRevision } from './revision-wait.ts'
import { ComparedRevisions, RevisionComparison, Rollback, WaitQuery } from './revisions.schema.ts'
import * as revisions from './revisions.ts'
import * as s from './schema.ts'

export const revisionRoutes = slice('Revisions', 'The versions of a deployment, and how to go back to one.')
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
    description: s.PLAN_NOTE,
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
      s.COMMAND_PERMISSION_NOTE,
    ].join(' '),
    params: s.RevisionRef,
    query: s.DryRun,
    reply: s.Deployment,
    errors: ['revision_not_found', 'deployment_deleting', 'source_rule', 'plan_stale'],
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
    description: `With \`dry_run=true\`, the answer is the plan and nothing changes. ${s.COMMAND_PERMISSION_NOTE}`,
    params: s.DeploymentRef,
    query: s.DryRun,
    body: Rollback,
    reply: s.Deployment,
    errors: ['deployment_not_found', 'revision_not_found', 'deployment_deleting', 'source_rule', 'plan_stale'],
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
