// How HTTP reaches logs: by POST, because clients ask so, though nothing is written.
import { slice } from '../kernel/routes.ts'
import * as s from './logs.schema.ts'
import * as logs from './logs.ts'
import { DeploymentRef, RevisionRef } from './schema.ts'

const logOperation = { body: s.LogQuery, reply: s.LogPage, isReadOnly: true }

export const logRoutes = slice('Logs', 'What builds and deployments say.')
  .post('/v1/projects/{deployment_id}/revisions/{revision_id}/build_logs', {
    id: 'readBuildLogs',
    summary: 'What was said while a revision was built',
    params: RevisionRef,
    ...logOperation,
    errors: ['revision_not_found'],
    verb: logs.readBuildLogs,
  })
  .post('/v1/projects/{deployment_id}/revisions/{revision_id}/deploy_logs', {
    id: 'readDeployLogs',
    summary: 'What a revision says as it is deployed and runs',
    params: RevisionRef,
    ...logOperation,
    errors: ['revision_not_found'],
    verb: logs.readDeployLogs,
  })
  .post('/v1/projects/{deployment_id}/deploy_logs', {
    id: 'readDeploymentLogs',
    summary: 'What all revisions of a deployment say as they are deployed and run',
    params: DeploymentRef,
    ...logOperation,
    errors: ['deployment_not_found'],
    verb: logs.readDeploymentLogs,
  })
