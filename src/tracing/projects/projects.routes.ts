// Routes of tracing projects, which are sessions on the wire.
import { slice } from '../../kernel/http/routes.ts'
import { readMetadata } from '../runs/run-metadata.ts'
import * as d from './project-dashboard.schema.ts'
import { readDashboard } from './project-dashboard.ts'
import { listProjects } from './project-list.ts'
import * as s from './projects.schema.ts'
import * as projects from './projects.ts'
import * as v from './views.schema.ts'
import * as views from './views.ts'

export const projectRoutes = slice('Tracing projects', 'What applications trace into: sessions on the wire.')
  .get('/sessions', {
    id: 'listProjects',
    toleratesUnknown: true,
    summary: 'List the tracing projects of this workspace',
    description:
      'By default the newest first. `include_stats` adds counts, latency, tokens, cost and feedback. A page that is ' +
      'shorter than `limit` is the last one.',
    query: s.ProjectQuery,
    repeatable: ['id', 'reference_dataset', 'tag_value_id', 'stats_select'],
    reply: s.ProjectList,
    errors: ['filter_invalid', 'query_too_slow'],
    verb: listProjects,
  })
  .post('/sessions', {
    id: 'createProject',
    toleratesUnknown: true,
    summary: 'Create a tracing project',
    description: 'To keep its traces for longer than others takes the permission `projects:increase-trace-tier`.',
    query: s.Upsert,
    body: s.NewProject,
    reply: s.Project,
    errors: [
      'project_name_taken',
      'project_id_taken',
      'dataset_not_found',
      'tag_value_not_found',
      'quota_full',
      'denied_by_policy',
      'workspace_not_found',
    ],
    location: project => `/sessions/${project.id}`,
    verb: projects.createProject,
  })
  .delete('/sessions', {
    id: 'deleteProjects',
    toleratesUnknown: true,
    summary: 'Delete tracing projects with their traces',
    description: 'All of them or, if one does not exist, none.',
    query: s.ProjectIds,
    repeatable: ['session_ids'],
    errors: ['project_not_found', 'project_of_deployment'],
    verb: projects.deleteProjects,
  })
  .get('/sessions/resolutions', {
    id: 'resolveProject',
    toleratesUnknown: true,
    summary: 'Find the tracing project of an experiment',
    description:
      'For clients of the reference, which address projects by kind. Slipway has no agents apart from deployments, ' +
      'and evaluators leave no traces: both kinds are 404.',
    query: s.ProjectAddress,
    reply: s.ResolvedProject,
    errors: ['project_not_found'],
    verb: projects.resolveProject,
  })
  .get('/sessions/{session_id}', {
    id: 'readProject',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Read a tracing project',
    description: 'With `include_stats`, it has counts, latency, tokens, cost and feedback of its traces.',
    params: s.ProjectRef,
    query: s.ProjectReadQuery,
    reply: s.Project,
    errors: ['project_not_found'],
    verb: projects.readProject,
  })
  .patch('/sessions/{session_id}', {
    id: 'changeProject',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Change a tracing project',
    description:
      'To change for how long traces are kept takes `projects:increase-trace-tier` or `projects:decrease-trace-tier` ' +
      'besides. A project of a deployment keeps its name.',
    params: s.ProjectRef,
    body: s.ProjectPatch,
    reply: s.Project,
    errors: [
      'project_not_found',
      'project_name_taken',
      'project_of_deployment',
      'dataset_not_found',
      'quota_full',
      'denied_by_policy',
    ],
    verb: projects.changeProject,
  })
  .delete('/sessions/{session_id}', {
    id: 'deleteProject',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Delete a tracing project with its traces',
    description: 'A project of a deployment is deleted with the deployment.',
    params: s.ProjectRef,
    errors: ['project_not_found', 'project_of_deployment'],
    verb: projects.deleteProject,
  })
  .get('/sessions/{session_id}/metadata', {
    id: 'readProjectMetadata',
    toleratesUnknown: true,
    summary: 'Read which metadata the latest runs of a tracing project have',
    description: 'The most frequent values of each key, of at most 10,000 runs.',
    params: s.ProjectRef,
    query: s.MetadataQuery,
    repeatable: ['metadata_keys'],
    reply: s.Metadata,
    errors: ['project_not_found'],
    verb: readMetadata,
  })
  .post('/sessions/{session_id}/dashboard', {
    id: 'readProjectDashboard',
    toleratesUnknown: true,
    isReadOnly: true,
    summary: 'Read the charts of a tracing project',
    description:
      'Charts of traces, errors, latency, tokens, cost and feedback, as points of equal length. A window has at most ' +
      '1,000 points: choose a longer `stride` for a longer window.',
    params: s.ProjectRef,
    body: d.DashboardRequest,
    reply: d.Dashboard,
    errors: ['project_not_found'],
    verb: readDashboard,
  })
  .get('/sessions/{session_id}/views', {
    id: 'listFilterViews',
    toleratesUnknown: true,
    summary: 'List the views of a tracing project, newest first',
    description:
      'All views of the project in one answer. A view is a saved filter: send its `filter_string` as `filter` to ' +
      '`POST /runs/query`.',
    params: s.ProjectRef,
    query: v.ViewQuery,
    reply: v.FilterViewList,
    errors: ['project_not_found'],
    verb: views.listViews,
  })
  .post('/sessions/{session_id}/views', {
    id: 'createFilterView',
    toleratesUnknown: true,
    summary: 'Save a filter over the runs of a tracing project',
    description:
      'All members of the workspace who can read the project see it. The filters are checked, so a view that was ' +
      'saved can be opened.',
    params: s.ProjectRef,
    body: v.NewView,
    reply: v.FilterView,
    errors: ['project_not_found', 'filter_invalid', 'quota_full'],
    verb: views.createView,
  })
  .get('/sessions/{session_id}/views/{view_id}', {
    id: 'readFilterView',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Read a view',
    description:
      'Its `filter_string`, `trace_filter_string` and `tree_filter_string` are the three filters of `POST ' +
      '/runs/query`.',
    params: v.ViewRef,
    reply: v.FilterView,
    errors: ['view_not_found'],
    verb: views.readView,
  })
  .patch('/sessions/{session_id}/views/{view_id}', {
    id: 'changeFilterView',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Change a view',
    description: 'Members that are absent stay as they are. A `duration` replaces a start.',
    params: v.ViewRef,
    body: v.ViewPatch,
    reply: v.FilterView,
    errors: ['view_not_found', 'filter_invalid'],
    verb: views.changeView,
  })
  .patch('/sessions/{session_id}/views/{view_id}/rename', {
    id: 'renameFilterView',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Change the name and the description of a view',
    description: 'The filters and times stay. To change them too, PATCH the view itself.',
    params: v.ViewRef,
    body: v.ViewName,
    reply: v.FilterView,
    errors: ['view_not_found'],
    verb: views.changeView,
  })
  .delete('/sessions/{session_id}/views/{view_id}', {
    id: 'deleteFilterView',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Delete a view',
    description: 'Only the saved filter is deleted. The runs stay.',
    params: v.ViewRef,
    errors: ['view_not_found'],
    verb: views.deleteView,
  })
