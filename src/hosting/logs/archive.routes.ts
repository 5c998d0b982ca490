// Routes of archives of logs.
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import * as s from './archive.schema.ts'
import * as archive from './archive.ts'

export const logArchiveRoutes = slice('Log archives', 'Every line of a deployment, in files by hour.')
  .get('/v2/deployments/{deployment_id}/log-archives', {
    id: 'listLogArchives',
    summary: 'List the archives of the logs of a deployment, newest first',
    description:
      'Each is a file with lines that arrived within an hour, in the order of their arrival. A busy hour has ' +
      'several. It is written within minutes after its hour.',
    params: DeploymentRef,
    query: s.ArchiveQuery,
    reply: s.LogArchiveList,
    errors: ['deployment_not_found'],
    verb: archive.listArchives,
  })
  .get('/v2/deployments/{deployment_id}/log-archives/{archive_id}', {
    id: 'downloadLogArchive',
    summary: 'Download an archive of logs',
    description:
      'JSON objects, one in each line, compressed by gzip: `zcat` reads it, and also several files one after the ' +
      'other.',
    params: s.ArchiveRef,
    streamMediaType: 'application/gzip',
    errors: ['log_archive_not_found', 'storage_unavailable'],
    verb: archive.downloadArchive,
  })
  .get('/v2/log-archive-settings', {
    id: 'readLogArchiveSettings',
    summary: 'Get whether lines of deployments of this workspace are archived',
    description: 'What deployments without settings of their own inherit.',
    reply: s.ArchiveSettings,
    verb: archive.readWorkspaceSettings,
  })
  .put('/v2/log-archive-settings', {
    id: 'setLogArchiveSettings',
    summary: 'Set whether lines of deployments of this workspace are archived',
    description: 'It is about lines that arrive from then on. Archives that exist keep their `expires_at`.',
    body: s.ArchiveSettings,
    reply: s.ArchiveSettings,
    errors: ['workspace_not_found', 'denied_by_policy', 'quota_full'],
    verb: archive.setWorkspaceSettings,
  })
  .get('/v2/deployments/{deployment_id}/log-archive-settings', {
    id: 'readDeploymentLogArchiveSettings',
    summary: 'Get whether lines of a deployment are archived',
    description: '`effective` is what holds, with what the workspace has.',
    params: DeploymentRef,
    reply: s.DeploymentArchiveSettings,
    errors: ['deployment_not_found'],
    verb: archive.readDeploymentSettings,
  })
  .put('/v2/deployments/{deployment_id}/log-archive-settings', {
    id: 'setDeploymentLogArchiveSettings',
    summary: 'Set whether lines of a deployment are archived',
    description: 'It is about lines that arrive from then on. Archives that exist keep their `expires_at`.',
    params: DeploymentRef,
    body: s.NewDeploymentArchiveSettings,
    reply: s.DeploymentArchiveSettings,
    errors: ['deployment_not_found', 'denied_by_policy', 'quota_full'],
    verb: archive.setDeploymentSettings,
  })
