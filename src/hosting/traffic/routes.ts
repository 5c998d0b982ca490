// Routes of the split of traffic.
import { slice } from '../../kernel/http/routes.ts'
import { NewTraffic } from '../../protocol/traffic.schema.ts'
import { Deployment, DeploymentRef } from '../deployments/schema.ts'
import { setTraffic } from './traffic.ts'

export const trafficRoutes = slice('Traffic', 'How requests are split between revisions.').put(
  '/v2/deployments/{deployment_id}/traffic',
  {
    id: 'setDeploymentTraffic',
    summary: 'Split the traffic of a deployment between two revisions',
    description: [
      'Between the revision that serves and one other: the one in flight, or one that has served before.',
      'A revision in flight stays `DEPLOYING` until it gets all traffic; interrupting it sends all back.',
      'The router does it within seconds. `traffic` of the deployment tells the shares, and whether they are applied.',
      'A release command of the revision runs before it gets requests, so both use the database that it leaves.',
      'Workers, schedules and jobs run in the revision that serves. While the traffic is split, nothing sleeps.',
    ].join(' '),
    params: DeploymentRef,
    body: NewTraffic,
    reply: Deployment,
    errors: [
      'deployment_not_found',
      'revision_not_found',
      'not_allowed_by_listener',
      'traffic_refused',
      'traffic_name_taken',
    ],
    versioned: true,
    verb: setTraffic,
  },
)
