// Routes of the retention that projects inherit.
import { slice } from '../kernel/routes.ts'
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
    reply: s.TtlSettingsList,
    verb: settings.listOrganizationTtlSettings,
  })
  .put('/orgs/ttl-settings', {
    id: 'setOrganizationTtlSettings',
    toleratesUnknown: true,
    summary: 'Set the tier of new projects of the organization, or of one of its workspaces',
    description: PERMISSIONS,
    body: s.NewTtlSettings,
    reply: s.TtlSettings,
    errors: ['organization_not_found', 'workspace_not_found', 'denied_by_policy'],
    verb: settings.setOrganizationTtlSettings,
  })
