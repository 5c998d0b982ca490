// Routes of the retention that projects inherit.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './ttl-settings.schema.ts'
import * as settings from './ttl-settings.ts'

const PERMISSIONS =
  'To keep traces for longer takes the permission `projects:increase-trace-tier` besides, and for less time ' +
  '`projects:decrease-trace-tier`.'

export const ttlSettingsRoutes = slice('Retention', 'For how long new projects keep their traces.')
  .get('/ttl-settings', {
    id: 'listTtlSettings',
    toleratesUnknown: true,
    summary: 'Get the retention of new projects of this workspace',
    description:
      'What a new project of this workspace gets. `configured_by` is `system` if nothing was set, so that it is ' +
      'inherited from the organization or the installation.',
    reply: s.TtlSettingsList,
    verb: settings.listTtlSettings,
  })
  .put('/ttl-settings', {
    id: 'setTtlSettings',
    toleratesUnknown: true,
    summary: 'Set the tier of new projects of this workspace',
    description: PERMISSIONS,
    body: s.NewTtlSettings,
    reply: s.TtlSettings,
    errors: ['workspace_not_found', 'workspace_forbidden', 'denied_by_policy', 'quota_full'],
    verb: settings.setTtlSettings,
  })
  .get('/workspaces/current/ttl-settings', {
    id: 'readWorkspaceTtl',
    toleratesUnknown: true,
    summary: 'Get for how many days this workspace keeps long-lived traces',
    description:
      '`is_custom` is false if the workspace has no number of its own, so that it is that of the installation.',
    reply: s.WorkspaceTtl,
    errors: ['workspace_not_found'],
    verb: settings.readWorkspaceTtl,
  })
  .put('/workspaces/current/ttl-settings', {
    id: 'setWorkspaceTtl',
    toleratesUnknown: true,
    summary: 'Set for how many days this workspace keeps long-lived traces',
    description: `It holds for all traces of projects without days of their own. ${PERMISSIONS}`,
    body: s.NewWorkspaceTtl,
    reply: s.WorkspaceTtl,
    errors: ['workspace_not_found', 'denied_by_policy'],
    verb: settings.setWorkspaceTtl,
  })
  .get('/orgs/ttl-settings', {
    id: 'listOrganizationTtlSettings',
    toleratesUnknown: true,
    summary: 'List the retention of new projects, of the organization and of its workspaces',
    description:
      'The entry without `tenant_id` is that of the organization, which workspaces without settings of their own ' +
      'inherit.',
    reply: s.TtlSettingsList,
    verb: settings.listOrganizationTtlSettings,
  })
  .put('/orgs/ttl-settings', {
    id: 'setOrganizationTtlSettings',
    toleratesUnknown: true,
    summary: 'Set the tier of new projects of the organization, or of one of its workspaces',
    description: PERMISSIONS,
    body: s.NewOrganizationTtlSettings,
    reply: s.TtlSettings,
    errors: ['organization_not_found', 'workspace_not_found', 'denied_by_policy'],
    verb: settings.setOrganizationTtlSettings,
  })
