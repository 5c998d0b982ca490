// Descriptions of permissions (pure).
import type { CallOptions } from '../../client/client.ts'

type NewRole = NonNullable<CallOptions<'POST /orgs/current/roles'>['body']>
export type Permission = NonNullable<NewRole['permissions']>[number]

const GROUPS = ['Deployments', 'Tracing', 'Connections', 'People and keys', 'Workspaces and organization'] as const
type Group = (typeof GROUPS)[number]

const SENTENCES: Record<Permission, [group: Group, sentence: string]> = {
  'deployments:read': ['Deployments', 'See deployments with their revisions, logs and metrics'],
  'deployments:create': ['Deployments', 'Create deployments'],
  'deployments:update': ['Deployments', 'Change, deploy, roll back and interrupt deployments'],
  'deployments:change-commands': ['Deployments', 'Change what runs on a listener: commands, sidecars, init containers'],
  'deployments:delete': ['Deployments', 'Delete deployments'],
  'deployments:exec': ['Deployments', 'Open terminals, and connect to ports and databases of deployments'],
  'deployments:copy-database': ['Deployments', 'Copy the database of a deployment into others, such as its previews'],
  'secrets:read': ['Deployments', 'Show the values of secrets. Each time is recorded'],
  'alerts:read': ['Deployments', 'See alert rules and incidents'],
  'alerts:manage': ['Deployments', 'Change alert rules, mute them, and acknowledge and resolve incidents'],
  'events:read': ['Deployments', 'Read and follow the events of a workspace'],
  'projects:read': ['Tracing', 'See tracing projects'],
  'projects:create': ['Tracing', 'Create tracing projects'],
  'projects:update': ['Tracing', 'Change tracing projects and their saved views'],
  'projects:delete': ['Tracing', 'Delete tracing projects with their traces'],
  'projects:increase-trace-tier': ['Tracing', 'Keep traces of a project for longer'],
  'projects:decrease-trace-tier': ['Tracing', 'Keep traces of a project for less time'],
  'runs:read': ['Tracing', 'See traces'],
  'runs:create': ['Tracing', 'Send traces'],
  'runs:share': ['Tracing', 'Share traces by a link'],
  'runs:delete': ['Tracing', 'Delete traces'],
  'feedback:read': ['Tracing', 'See feedback'],
  'feedback:create': ['Tracing', 'Give feedback'],
  'feedback:update': ['Tracing', 'Change feedback'],
  'feedback:delete': ['Tracing', 'Delete feedback'],
  'feedback-configs:create': ['Tracing', 'Configure feedback keys'],
  'feedback-configs:update': ['Tracing', 'Change the configuration of feedback keys'],
  'feedback-configs:delete': ['Tracing', 'Delete the configuration of feedback keys'],
  'datasets:read': ['Tracing', 'See datasets and their examples'],
  'datasets:create': ['Tracing', 'Create datasets'],
  'datasets:update': ['Tracing', 'Change datasets and their examples'],
  'datasets:delete': ['Tracing', 'Delete datasets'],
  'datasets:share': ['Tracing', 'Share datasets by a link'],
  'datasets:download': ['Tracing', 'Download datasets'],
  'datasets:clone': ['Tracing', 'Copy datasets'],
  'annotation-queues:read': ['Tracing', 'See annotation queues'],
  'annotation-queues:create': ['Tracing', 'Create annotation queues'],
  'annotation-queues:update': ['Tracing', 'Change annotation queues and review their runs'],
  'annotation-queues:delete': ['Tracing', 'Delete annotation queues'],
  'rules:read': ['Tracing', 'See automation rules and their logs'],
  'rules:create': ['Tracing', 'Create automation rules'],
  'rules:update': ['Tracing', 'Change automation rules'],
  'rules:delete': ['Tracing', 'Delete automation rules'],
  'listeners:read': ['Connections', 'See listeners, and when their agents last connected'],
  'listeners:create': ['Connections', 'Register listeners'],
  'listeners:update': ['Connections', 'Change listeners, and create keys for their agents'],
  'listeners:delete': ['Connections', 'Delete listeners'],
  'listeners:sync': ['Connections', 'Act as the agent of a listener'],
  'integrations:manage': ['Connections', 'Connect git hosts and disconnect them'],
  'webhooks:read': ['Connections', 'See webhooks and their deliveries'],
  'drains:read': ['Connections', 'See drains and how their sending goes'],
  'drains:manage': ['Connections', 'Create, change and delete drains, which send logs, metrics and traces elsewhere'],
  'webhooks:manage': ['Connections', 'Create, change and delete webhooks, and send deliveries again'],
  'channels:read': ['Connections', 'See channels and their notices, and have a channel of one’s own'],
  'channels:manage': ['Connections', 'Create, change, test and delete channels'],
  'models:read': ['Connections', 'See model configurations, usage and budgets'],
  'models:invoke': ['Connections', 'Call models'],
  'workspaces:manage-model-configs': ['Connections', 'Create and change model configurations and budgets'],
  'tokens:use': ['Connections', 'Connect people with OAuth providers, and use their tokens'],
  'organization:manage-providers': ['Connections', 'Register and change OAuth providers'],
  'workspaces:read-members': ['People and keys', 'See the members of a workspace'],
  'workspaces:manage-members': ['People and keys', 'Add people to a workspace, change their roles, remove them'],
  'api-keys:read': ['People and keys', 'See API keys of a workspace, never the keys themselves'],
  'api-keys:create': ['People and keys', 'Create API keys of a workspace'],
  'api-keys:delete': ['People and keys', 'Revoke API keys of a workspace'],
  'workspaces:manage-keys': [
    'People and keys',
    'Manage API keys of a workspace, and the trusted issuers that get them',
  ],
  'organization:manage-members': [
    'People and keys',
    'Add people to the organization, create their sign-in links, remove them',
  ],
  'organization:manage-roles': ['People and keys', 'Create, change and delete roles'],
  'organization:manage-keys': ['People and keys', 'See, create and revoke all API keys of the organization'],
  'workspaces:read': ['Workspaces and organization', 'See workspaces'],
  'workspaces:update': ['Workspaces and organization', 'Rename a workspace and change its settings'],
  'workspaces:create': ['Workspaces and organization', 'Create workspaces'],
  'workspaces:delete': ['Workspaces and organization', 'Delete a workspace with everything in it'],
  'organization:read': ['Workspaces and organization', 'See the organization with its roles and members'],
  'organization:update': ['Workspaces and organization', 'Rename the organization and change its settings'],
  'organization:manage': ['Workspaces and organization', 'Create access policies and attach them to roles'],
  'fleet-admin:read': ['Workspaces and organization', 'See the fleet: listeners, deployments, queues and usage'],
  'audit-logs:read': ['Workspaces and organization', 'Read and export the audit log of the organization'],
}

export const ALL_PERMISSIONS = Object.keys(SENTENCES) as Permission[]

/** A permission of a newer installation is its own name. */
export const describePermission = (name: string): string => SENTENCES[name as Permission]?.[1] ?? name
const groupOfPermission = (name: string): Group => SENTENCES[name as Permission]?.[0] ?? GROUPS[4]

const rankOf = (name: string): number => (ALL_PERMISSIONS as string[]).indexOf(name)

/** The groups that have any of these permissions, each with its permissions in one order. */
export const groupPermissions = <Name extends string>(names: readonly Name[]): [group: Group, names: Name[]][] =>
  GROUPS.map((group): [Group, Name[]] => [
    group,
    names.filter(name => groupOfPermission(name) === group).toSorted((a, b) => rankOf(a) - rankOf(b)),
  ]).filter(([, inGroup]) => inGroup.length > 0)

export const isReading = (name: string): boolean => /:(read|read-members)$/.test(name) && name !== 'secrets:read'
