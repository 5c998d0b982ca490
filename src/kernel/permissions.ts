// The closed set of permissions. A request for one of scope `workspace` must name a workspace; one of scope
// `organization` acts on the organization or on any of its workspaces that the key has access to.

const organizationOnly = {
  'organization:update': 'organization',
  'organization:manage-members': 'organization',
  'organization:manage-roles': 'organization',
  'organization:manage-keys': 'organization',
  'organization:manage-providers': 'organization',
  // Access policies.
  'organization:manage': 'organization',
  'audit-logs:read': 'organization',
  'fleet-admin:read': 'organization',
  'workspaces:create': 'organization',
  'workspaces:delete': 'organization',
} as const

export const permissions = {
  'organization:read': 'organization',
  ...organizationOnly,
  'workspaces:read': 'organization',
  'workspaces:update': 'organization',
  'workspaces:read-members': 'workspace',
  'workspaces:manage-members': 'workspace',
  'api-keys:read': 'workspace',
  'api-keys:create': 'workspace',
  'api-keys:delete': 'workspace',
  // To trust an issuer, which then gets keys. A role with it gets the permissions of keys, too.
  'workspaces:manage-keys': 'workspace',
  'deployments:create': 'workspace',
  'deployments:read': 'workspace',
  'deployments:update': 'workspace',
  // Required in addition, to change install and build commands, sidecars and init containers.
  'deployments:change-commands': 'workspace',
  'deployments:delete': 'workspace',
  // Terminals and forwarded ports, which show the secrets and the data of a deployment.
  'deployments:exec': 'workspace',
  // Required in addition, for the deployment whose database is copied into another one, as into previews.
  'deployments:copy-database': 'workspace',
  'listeners:read': 'workspace',
  'listeners:create': 'workspace',
  'listeners:update': 'workspace',
  'listeners:delete': 'workspace',
  // Scope `organization`, because the listener of an agent's key may be the platform's and have no workspace.
  'listeners:sync': 'organization',
  'secrets:read': 'workspace',
  'events:read': 'workspace',
  'webhooks:read': 'workspace',
  'webhooks:manage': 'workspace',
  'channels:read': 'workspace',
  'channels:manage': 'workspace',
  'alerts:read': 'workspace',
  'alerts:manage': 'workspace',
  'drains:read': 'workspace',
  // Required in addition: the permissions that read what is sent.
  'drains:manage': 'workspace',
  'integrations:manage': 'workspace',
  'tokens:use': 'workspace',
  'projects:read': 'workspace',
  'projects:create': 'workspace',
  'projects:update': 'workspace',
  'projects:delete': 'workspace',
  'projects:increase-trace-tier': 'workspace',
  'projects:decrease-trace-tier': 'workspace',
  'runs:create': 'workspace',
  'runs:read': 'workspace',
  'runs:share': 'workspace',
  'runs:delete': 'workspace',
  'feedback:create': 'workspace',
  'feedback:read': 'workspace',
  'feedback:update': 'workspace',
  'feedback:delete': 'workspace',
  'feedback-configs:create': 'workspace',
  'feedback-configs:update': 'workspace',
  'feedback-configs:delete': 'workspace',
  'datasets:create': 'workspace',
  'datasets:read': 'workspace',
  'datasets:update': 'workspace',
  'datasets:delete': 'workspace',
  'datasets:share': 'workspace',
  'datasets:download': 'workspace',
  'datasets:clone': 'workspace',
  'annotation-queues:create': 'workspace',
  'annotation-queues:read': 'workspace',
  'annotation-queues:update': 'workspace',
  'annotation-queues:delete': 'workspace',
  'rules:create': 'workspace',
  'rules:read': 'workspace',
  'rules:update': 'workspace',
  'rules:delete': 'workspace',
  'models:read': 'workspace',
  'models:invoke': 'workspace',
  'workspaces:manage-model-configs': 'workspace',
} as const satisfies Record<string, 'organization' | 'workspace'>

export type Permission = keyof typeof permissions
export const permissionNames = Object.keys(permissions) as [Permission, ...Permission[]]
export const organizationPermissions = Object.keys(organizationOnly) as Permission[]

/** A list of permissions that has the first one is completed with the others. Requests check each by its name. */
const INCLUDED: Partial<Record<Permission, readonly Permission[]>> = {
  'workspaces:manage-keys': ['api-keys:read', 'api-keys:create', 'api-keys:delete'],
}
/** Removes duplicates. */
export const completePermissions = (names: Permission[]): Permission[] => [
  ...new Set(names.flatMap(name => [name, ...(INCLUDED[name] ?? [])])),
]

export const resourceTypes = ['project', 'dataset', 'deployment', 'queue'] as const
export type ResourceType = (typeof resourceTypes)[number]

/** The permissions that a policy can be about, by the type of the resources whose tags decide. */
export const policyPermissions: Record<ResourceType, readonly Permission[]> = {
  project: [
    'projects:read',
    'projects:update',
    'projects:delete',
    'projects:increase-trace-tier',
    'projects:decrease-trace-tier',
    'runs:create',
    'runs:read',
    'runs:share',
    'runs:delete',
  ],
  dataset: [
    'datasets:read',
    'datasets:update',
    'datasets:delete',
    'datasets:share',
    'datasets:download',
    'datasets:clone',
  ],
  deployment: [
    'deployments:read',
    'deployments:update',
    'deployments:delete',
    'deployments:exec',
    'deployments:copy-database',
  ],
  queue: ['annotation-queues:create', 'annotation-queues:read', 'annotation-queues:update', 'annotation-queues:delete'],
}
