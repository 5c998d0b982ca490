// Error codes of deployments.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const deploymentsCodes = {
  source_rule: {
    status: 400,
    title: 'Not allowed for this source',
    problem: 'The request does not fit the source of the deployment.',
    remedy: 'Add, change or remove the named fields.',
  },
  member_immutable: {
    status: 400,
    title: 'Immutable field',
    problem: 'This field cannot be changed after creation.',
    remedy: 'Remove it from the request, or create a new resource.',
  },
  secret_unknown: {
    status: 400,
    title: 'Unknown secret',
    problem: 'The mask keeps a stored value, but no such secret is stored.',
    remedy: 'Send its value.',
  },
  variable_doubled: {
    status: 400,
    title: 'Duplicate environment variable',
    problem: 'An environment variable is both a secret and a secret reference.',
    remedy: 'Rename or remove one of them.',
  },
  deployment_not_found: {
    status: 404,
    title: 'Deployment not found',
    problem: 'This workspace has no such deployment.',
    remedy: 'GET /v2/deployments lists the deployments.',
  },
  revision_not_found: {
    status: 404,
    title: 'Revision not found',
    problem: 'This deployment has no such revision.',
    remedy: 'List its revisions to find the id.',
  },
  hold_not_found: {
    status: 404,
    title: 'No hold',
    problem: 'Automatic deploys of this deployment are not on hold.',
    remedy: 'There is nothing to release.',
  },
  template_unknown: {
    status: 400,
    title: 'Template unknown',
    problem: 'The listener does not offer this template.',
    remedy: 'Correct `source_config.template_id`.',
  },
  not_allowed_by_listener: {
    status: 400,
    title: 'Not allowed by the listener',
    problem: 'The listener does not do this.',
    remedy:
      'Remove it from `source_config.resource_spec`, use a listener of an engine that can, or ask the operator of ' +
      'the agent to allow it.',
  },
  deployment_name_taken: {
    status: 409,
    title: 'Deployment name taken',
    problem: 'This workspace already has a deployment with this `name`.',
    remedy: 'Choose another name, or delete that deployment first.',
  },
  deployment_deleting: {
    status: 409,
    title: 'Deployment being deleted',
    problem: 'This deployment is being deleted and cannot be changed.',
    remedy: 'Create a new one instead.',
  },
  plan_stale: {
    status: 409,
    title: 'Stale plan',
    problem: 'The deployment has changed since the plan was made, or the request is a different one.',
    remedy: 'Request the plan again.',
  },
  revision_not_interruptible: {
    status: 409,
    title: 'Revision not interruptible',
    problem: 'Only a revision that is waiting, building or deploying can be interrupted.',
    remedy: 'Read the revision for its current status.',
  },
} as const satisfies ErrorCodes
