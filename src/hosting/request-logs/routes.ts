// Routes of the request log of deployments.
import { slice } from '../../kernel/http/routes.ts'
import { NewRequestLogs } from '../../protocol/request-logs.schema.ts'
import { Deployment, DeploymentRef } from '../deployments/schema.ts'
import { setRequestLogs } from './request-logs.ts'

export const requestLogRoutes = slice('Request logs', 'Which requests become lines of the log.').put(
  '/v2/deployments/{deployment_id}/request-logs',
  {
    id: 'setDeploymentRequestLogs',
    summary: 'Set which requests to a deployment become lines of its log',
    description: [
      'The router does it within seconds: nothing is built and nothing restarts.',
      'The lines have the kind `request`. `request_logs` of the deployment shows the setting.',
      'An ingress of a cluster tells no requests: there, only `off` is accepted.',
    ].join(' '),
    params: DeploymentRef,
    body: NewRequestLogs,
    reply: Deployment,
    errors: ['deployment_not_found', 'not_allowed_by_listener'],
    versioned: true,
    verb: setRequestLogs,
  },
)
