// Routes of logs. Reads by POST: existing clients query logs this way.
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef, RevisionRef } from '../deployments/schema.ts'
import { followLogs, streamLogs } from './log-follow.ts'
import * as s from './logs.schema.ts'
import * as logs from './logs.ts'

const logOperation = { body: s.LogQuery, reply: s.LogPage, isReadOnly: true } as const

export const logRoutes = slice('Logs', 'Log lines of builds and deployments.')
  .post('/v1/projects/{deployment_id}/revisions/{revision_id}/build_logs', {
    id: 'readBuildLogs',
    toleratesUnknown: true,
    summary: 'Read the build log of a revision',
    description:
      'Lines by time, page by page: send `next_offset` of an answer as `offset` of the next request. To follow a ' +
      'build as it runs, use `/v2/deployments/{deployment_id}/logs/stream`.',
    params: RevisionRef,
    ...logOperation,
    errors: ['revision_not_found'],
    verb: logs.readBuildLogs,
  })
  .post('/v1/projects/{deployment_id}/revisions/{revision_id}/deploy_logs', {
    id: 'readDeployLogs',
    toleratesUnknown: true,
    summary: 'Read the log of a revision as it is deployed and runs',
    description:
      'All lines after the build: those of the agent that starts the application, and those of the application. Page ' +
      'by `offset`. To follow them, use `/v2/deployments/{deployment_id}/logs/stream`.',
    params: RevisionRef,
    ...logOperation,
    errors: ['revision_not_found'],
    verb: logs.readDeployLogs,
  })
  .post('/v1/projects/{deployment_id}/deploy_logs', {
    id: 'readDeploymentLogs',
    toleratesUnknown: true,
    summary: 'Read the logs of all revisions of a deployment as they are deployed and run',
    description:
      'Each line names its revision. Page by `offset`. To follow them, use ' +
      '`/v2/deployments/{deployment_id}/logs/stream`.',
    params: DeploymentRef,
    ...logOperation,
    errors: ['deployment_not_found'],
    verb: logs.readDeploymentLogs,
  })
  .get('/v2/deployments/{deployment_id}/logs', {
    id: 'followLogs',
    summary: 'Read the logs of a deployment in the order of arrival',
    description: [
      'Lines are numbered in the order in which they become visible.',
      'To follow them, send the `next_after` of each answer as the `after` of the next request, with `wait`.',
    ].join(' '),
    params: DeploymentRef,
    query: s.FollowQuery,
    reply: s.ArrivedPage,
    errors: ['deployment_not_found', 'revision_not_found'],
    verb: followLogs,
  })
  .get('/v2/deployments/{deployment_id}/logs/stream', {
    id: 'streamLogs',
    summary: 'Stream the logs of a deployment in the order of arrival',
    description: [
      'Server-sent events, or one JSON object per line with `Accept: application/x-ndjson`.',
      'The `id` of each is its `arrival`. The stream ends after some minutes: resume it after the last `id`.',
      'An event `dropped` has the number of `lines` that are no longer kept.',
      'If the deployment has no line with that number, the stream begins with a `reset` event.',
    ].join(' '),
    params: DeploymentRef,
    query: s.StreamQuery,
    kind: 'liveStream',
    errors: ['deployment_not_found', 'revision_not_found'],
    verb: streamLogs,
  })
