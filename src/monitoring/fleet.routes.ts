// Routes of the fleet and of the usage of workspaces. They change nothing, and the audit log records who reads them.
import { slice } from '../kernel/http/routes.ts'
import { Page } from '../protocol/wire.ts'
import * as s from './fleet.schema.ts'
import * as fleet from './fleet.ts'
import { UsageExportQuery } from './usage-export.schema.ts'
import { exportUsage } from './usage-export.ts'

const FOR_ADMINS =
  'For instance admins: people whose address is in the setting `INSTANCE_ADMIN_EMAILS`, and who have signed in with ' +
  'it through the identity provider or by a link of the operator.'

export const fleetRoutes = slice(
  'Fleet',
  'Workspaces, listeners, deployments, queues and usage, of the organization or of the whole installation.',
)
  .get('/v2/admin/fleet', {
    id: 'readFleet',
    summary: 'Get the fleet of the organization: what it has, in which state, and what waits',
    description: 'The scheduled work and the newest migration are those of the whole installation.',
    reply: s.Fleet,
    isAudited: true,
    errors: ['denied_by_policy'],
    verb: fleet.readOwnFleet,
  })
  .get('/v2/admin/fleet/workspaces', {
    id: 'listFleetWorkspaces',
    summary: 'List the workspaces of the organization with their deployments, storage and usage',
    description: 'Newest first.',
    query: Page,
    reply: s.FleetWorkspaceList,
    isAudited: true,
    errors: ['denied_by_policy'],
    verb: fleet.listOwnWorkspaces,
  })
  .get('/v2/admin/fleet/listeners', {
    id: 'listFleetListeners',
    summary: 'List the listeners of the organization with their agents and versions',
    description: 'Newest first. The listeners of the platform are not in this list.',
    query: Page,
    reply: s.FleetListenerList,
    isAudited: true,
    errors: ['denied_by_policy'],
    verb: fleet.listOwnListeners,
  })
  .get('/v2/admin/installation', {
    id: 'readInstallation',
    summary: 'Get the fleet of the whole installation',
    description: FOR_ADMINS,
    reply: s.Fleet,
    isAudited: true,
    errors: ['instance_admin_required'],
    verb: fleet.readInstallation,
  })
  .get('/v2/admin/installation/organizations', {
    id: 'listInstallationOrganizations',
    summary: 'List all organizations',
    description: `Newest first. ${FOR_ADMINS}`,
    query: Page,
    reply: s.FleetOrganizationList,
    isAudited: true,
    errors: ['instance_admin_required'],
    verb: fleet.listOrganizations,
  })
  .get('/v2/admin/installation/workspaces', {
    id: 'listInstallationWorkspaces',
    summary: 'List the workspaces of all organizations',
    description: `Newest first. ${FOR_ADMINS}`,
    query: Page,
    reply: s.FleetWorkspaceList,
    isAudited: true,
    errors: ['instance_admin_required'],
    verb: fleet.listAllWorkspaces,
  })
  .get('/v2/admin/installation/listeners', {
    id: 'listInstallationListeners',
    summary: 'List the listeners of all organizations, and those of the platform',
    description: `Newest first. ${FOR_ADMINS}`,
    query: Page,
    reply: s.FleetListenerList,
    isAudited: true,
    errors: ['instance_admin_required'],
    verb: fleet.listAllListeners,
  })
  .get('/orgs/current/usage/backfill-export', {
    id: 'exportUsage',
    toleratesUnknown: true,
    summary: 'Download how much each workspace used on each day',
    description:
      'Traces, the bytes of their inputs, outputs and attachments, and the deployments at the end of the day. Days ' +
      'without any of them are left out. It takes the permission `organization:manage`, or an instance admin. The ' +
      'answer is a JSON array, or CSV. `bytes` is null for days before this version counted them.',
    query: UsageExportQuery,
    streamMediaType: ['application/json', 'text/csv'],
    isAudited: true,
    errors: ['usage_forbidden', 'instance_admin_required'],
    verb: exportUsage,
  })
