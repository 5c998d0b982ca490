// Routes of insights: jobs, their clusters and runs, and saved configs.
import { slice } from '../../kernel/http/routes.ts'
import { ProjectRef } from '../projects/projects.schema.ts'
import * as c from './configs.schema.ts'
import * as configs from './configs.ts'
import { listJobRuns } from './job-runs.ts'
import * as s from './jobs.schema.ts'
import * as jobs from './jobs.ts'
import { writeConfig } from './wanted-config.ts'

export const insightRoutes = slice(
  'Insights',
  'Jobs that sort the runs of a project into clusters, and say what they show.',
)
  .get('/sessions/{session_id}/insights', {
    id: 'listInsightJobs',
    summary: 'List the insights jobs of a project, newest first',
    description:
      'Each has its status and how far it is, without its clusters. A page that is shorter than `limit` is the last ' +
      'one.',
    toleratesUnknown: true,
    params: ProjectRef,
    query: s.JobQuery,
    reply: s.JobList,
    errors: ['project_not_found'],
    verb: jobs.listJobs,
  })
  .post('/sessions/{session_id}/insights', {
    id: 'createInsightJob',
    summary: 'Start an insights job',
    description:
      'It runs in the background, for up to half an hour. It needs `runs:read` of the project too, and ' +
      '`models:invoke` unless `model` is `none`.',
    toleratesUnknown: true,
    params: ProjectRef,
    body: s.NewJob,
    reply: s.CreatedJob,
    errors: ['project_not_found', 'insight_config_not_found', 'model_required', 'filter_invalid', 'quota_full'],
    verb: jobs.createJob,
  })
  .get('/sessions/{session_id}/insights/configs', {
    id: 'listInsightConfigs',
    summary: 'List the saved configs of insights, newest first',
    description:
      'With `include_prebuilts`, also the configs that every project has. The `id` is what `config_id` of a new job ' +
      'takes.',
    toleratesUnknown: true,
    params: ProjectRef,
    query: c.ConfigQuery,
    reply: c.ConfigList,
    errors: ['project_not_found'],
    verb: configs.listConfigs,
  })
  .post('/sessions/{session_id}/insights/configs', {
    id: 'createInsightConfig',
    summary: 'Save a config of insights, perhaps with a schedule',
    description:
      'With `schedule_cron`, a job starts at each firing, though not more often than the installation allows. ' +
      'Without it, start jobs with `POST /sessions/{session_id}/insights`.',
    toleratesUnknown: true,
    params: ProjectRef,
    body: c.NewConfig,
    reply: c.Config,
    errors: ['project_not_found', 'filter_invalid', 'schedule_too_frequent', 'quota_full'],
    verb: configs.createConfig,
  })
  .post('/sessions/{session_id}/insights/configs/generate', {
    id: 'generateInsightConfig',
    summary: 'Have a model write a config that answers questions about the application',
    description: 'It sees the beginnings of a few runs. The config is not saved.',
    toleratesUnknown: true,
    isReadOnly: true,
    callsExternalServers: true,
    params: ProjectRef,
    body: c.ConfigQuestion,
    reply: c.GeneratedConfig,
    errors: [
      'project_not_found',
      'model_required',
      'model_not_found',
      'model_proxy_off',
      'model_url_not_allowed',
      'model_budget_spent',
      'model_call_failed',
      'model_answer_invalid',
      'upstream_error',
      'upstream_timeout',
      'upstream_redirected',
    ],
    verb: writeConfig,
  })
  .get('/sessions/{session_id}/insights/configs/{config_id}', {
    id: 'readInsightConfig',
    summary: 'Read a saved config of insights',
    description: 'A config that was saved in this project. `next_start_at` says when its schedule starts the next job.',
    params: c.ConfigRef,
    reply: c.Config,
    errors: ['insight_config_not_found'],
    versioned: true,
    verb: configs.readConfig,
  })
  .patch('/sessions/{session_id}/insights/configs/{config_id}', {
    id: 'changeInsightConfig',
    summary: 'Change a config of insights',
    description:
      'Members that are absent stay as they are. Jobs that were started keep the config that they began with.',
    versioned: true,
    toleratesUnknown: true,
    params: c.ConfigRef,
    body: c.ConfigPatch,
    reply: c.Config,
    errors: ['insight_config_not_found', 'filter_invalid', 'schedule_too_frequent'],
    verb: configs.changeConfig,
  })
  .delete('/sessions/{session_id}/insights/configs/{config_id}', {
    id: 'deleteInsightConfig',
    summary: 'Delete a config of insights with its schedule',
    versioned: true,
    description: 'Its jobs stay.',
    toleratesUnknown: true,
    params: c.ConfigRef,
    reply: s.Deleted,
    errors: ['insight_config_not_found'],
    verb: configs.deleteConfig,
  })
  .get('/sessions/{session_id}/insights/{job_id}', {
    id: 'readInsightJob',
    summary: 'Read an insights job with its clusters and its report',
    description:
      'A job runs in the background: read it again until its `status` is final. `report` is null until it is written.',
    toleratesUnknown: true,
    params: s.JobRef,
    reply: s.JobDetails,
    errors: ['insight_job_not_found'],
    verb: jobs.readJob,
  })
  .patch('/sessions/{session_id}/insights/{job_id}', {
    id: 'renameInsightJob',
    summary: 'Rename an insights job',
    description: 'Clusters and report stay as they are.',
    toleratesUnknown: true,
    params: s.JobRef,
    body: s.JobName,
    reply: s.ChangedJob,
    errors: ['insight_job_not_found'],
    verb: jobs.renameJob,
  })
  .delete('/sessions/{session_id}/insights/{job_id}', {
    id: 'deleteInsightJob',
    summary: 'Delete an insights job with its clusters',
    description: 'If it runs, it ends.',
    toleratesUnknown: true,
    params: s.JobRef,
    reply: s.Deleted,
    errors: ['insight_job_not_found'],
    verb: jobs.deleteJob,
  })
  .get('/sessions/{session_id}/insights/{job_id}/runs', {
    id: 'listInsightRuns',
    summary: 'List the runs of an insights job, or of one of its clusters',
    description: 'Runs that an attribute with `filter_by` leaves out are not listed.',
    toleratesUnknown: true,
    params: s.JobRef,
    query: s.RunsQuery,
    reply: s.JobRuns,
    errors: ['insight_job_not_found', 'insight_cluster_not_found'],
    verb: listJobRuns,
  })
  .get('/sessions/{session_id}/insights/{job_id}/clusters/{cluster_id}', {
    id: 'readInsightCluster',
    summary: 'Read a cluster of an insights job',
    description:
      'It has its description, its figures and the cluster that it belongs to. Its runs are at ' +
      '`/sessions/{session_id}/insights/{job_id}/runs?cluster_id=`.',
    toleratesUnknown: true,
    params: s.ClusterRef,
    reply: s.ClusterDetails,
    errors: ['insight_cluster_not_found'],
    verb: jobs.readCluster,
  })
