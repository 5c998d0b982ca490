// Routes that explain the state of a deployment, now and at another time.
import { slice } from '../../kernel/http/routes.ts'
import { explainDeployment } from './explain.ts'
import { DeploymentMoment, MomentList, MomentListQuery, MomentQuery } from './history.schema.ts'
import { listMoments, readMoment } from './history.ts'
import { Explanation } from './revisions.schema.ts'
import * as s from './schema.ts'

export const historyRoutes = slice('State of deployments', 'Why a deployment is as it is, and how it was.')
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
