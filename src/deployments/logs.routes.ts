// Routes of logs. Reads by POST: existing clients query logs this way.
import { slice } from '../kernel/routes.ts'
import * as s from './logs.schema.ts'
import * as logs from './logs.ts'
import { DeploymentRef, RevisionRef } from './schema.ts'

const logOperation = { body: s.LogQuery, reply: s.LogPage, isReadOnly: true } as const

export const logRoutes = slice('Logs', 'Log lines of builds and deployments.')
  .post('/v1/projects/{deployment_id}/revisions/{revision_id}/build_logs', {
    id: 'readBuildLogs',
    toleratesUnknown: true,
    summary: 'Read the build log of a revision',
    params: RevisionRef,
    ...logOperation,
    errors: ['revision_not_found'],
    verb: logs.readBuildLogs,
  })
  .post('/v1/projects/{deployment_id}/revisions/{revision_id}/deploy_logs', {
    id: 'readDeployLogs',
    toleratesUnknown: true,
    summary: 'Read the log of a revision as it is deployed and runs',
    params: RevisionRef,
    ...logOperation,
    errors: ['revision_not_found'],
    verb: logs.readDeployLogs,
  })
  .post('/v1/projects/{deployment_id}/deploy_logs', {
    id: 'readDeploymentLogs',
    toleratesUnknown: true,
    summary: 'Read the logs of all revisions of a deployment as they are deployed and run',
    params: DeploymentRef,
    ...logOperation,
    errors: ['deployment_not_found'],
    verb: logs.readDeploymentLogs,
  })
