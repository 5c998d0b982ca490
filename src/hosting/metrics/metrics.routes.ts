// Routes of metrics.
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import { MetricsAnswer, MetricsQuery } from './metrics.schema.ts'
import { readMetrics } from './metrics.ts'

export const metricRoutes = slice('Metrics', 'CPU, memory, restarts, requests and response times of deployments.').get(
  '/v2/deployments/{deployment_id}/metrics',
  {
    id: 'readMetrics',
    summary: 'Read the metrics of a deployment over time',
    description: [
      'The agent measures every copy once a minute. Values are summed over the copies of a revision.',
      'Percentiles come from the counts of all copies, in buckets, and are exact up to the width of a bucket.',
      'A null is a gap: no copy ran, or the engine cannot see the metric.',
      'Minutes appear shortly after they end.',
    ].join(' '),
    params: DeploymentRef,
    query: MetricsQuery,
    reply: MetricsAnswer,
    errors: ['deployment_not_found'],
    verb: readMetrics,
  },
)
