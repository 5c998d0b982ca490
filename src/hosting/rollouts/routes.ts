// Routes of rollouts: the policy of a deployment, and the one of the revision in flight.
import * as z from 'zod'
import { slice } from '../../kernel/http/routes.ts'
import { NewRollout, RolloutAction } from '../../protocol/rollout.schema.ts'
import { Deployment, DeploymentRef } from '../deployments/schema.ts'
import { moveRollout, removeRollout, setRollout } from './rollouts.ts'

const path = '/v2/deployments/{deployment_id}/rollout'

export const rolloutRoutes = slice('Rollouts', 'The steps by which each later revision gets the traffic.')
  .put(path, {
    id: 'setRollout',
    summary: 'Set the steps and gates of each later revision',
    description: [
      'Each later revision starts at the first step and goes on once its minutes, requests and gates are passed.',
      'Its agent judges errors, latency and restarts each second against the revision that serves meanwhile, and sends',
      'all requests back within a second if one fails, also without the control plane. Scores and the webhook are',
      'judged by the control plane, at least once a minute. Scores need `runs:read` for the project of the deployment.',
      'A revision that fails holds automatic deploys until the hold is released or someone deploys. One in progress',
      'keeps the policy with which it began. A restart of the agent counts its step anew.',
    ].join(' '),
    params: DeploymentRef,
    body: NewRollout,
    reply: Deployment,
    errors: [
      'deployment_not_found',
      'not_allowed_by_listener',
      'rollout_refused',
      'blocked_url',
      'secret_unknown',
      'secret_required',
      'denied_by_policy',
    ],
    versioned: true,
    verb: setRollout,
  })
  .delete(path, {
    id: 'removeRollout',
    summary: 'Remove the rollout policy of a deployment',
    description: 'Later revisions take all traffic once they are healthy. One in progress goes on by its steps.',
    params: DeploymentRef,
    reply: Deployment,
    errors: ['deployment_not_found', 'rollout_not_found'],
    versioned: true,
    verb: removeRollout,
  })
  .post(`${path}/{action}`, {
    id: 'moveRollout',
    summary: 'Pause, resume, promote or abort the rollout of the revision in flight',
    description: 'What is so already stays as it is, and is no error.',
    params: z.object({ ...DeploymentRef.shape, action: RolloutAction }),
    reply: Deployment,
    errors: ['deployment_not_found', 'rollout_not_running'],
    versioned: true,
    verb: moveRollout,
  })
