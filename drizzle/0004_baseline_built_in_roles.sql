-- The built-in roles. They have no organization and every organization can use them.

-- As the role that row-level security lets see every row.
set local role slipway_system;
--> statement-breakpoint
insert into roles (id, scope, display_name, description, permissions) values
  (
    '00000000-0000-4000-8000-000000000001',
    'workspace',
    'Admin',
    'Everything in a workspace.',
    array[
      'organization:read', 'workspaces:read', 'workspaces:update', 'workspaces:read-members',
      'workspaces:manage-members', 'api-keys:read', 'api-keys:create', 'api-keys:delete', 'deployments:create',
      'deployments:read', 'deployments:update', 'deployments:delete', 'secrets:read', 'projects:read',
      'projects:increase-trace-tier', 'projects:decrease-trace-tier', 'fleet-admin:read', 'tokens:use',
      'integrations:manage', 'listeners:read', 'listeners:create', 'listeners:update', 'listeners:delete',
      'listeners:sync', 'deployments:change-commands'
    ]
  ),
  (
    '00000000-0000-4000-8000-000000000002',
    'workspace',
    'Editor',
    'Creates and changes deployments.',
    array[
      'organization:read', 'workspaces:read', 'workspaces:read-members', 'deployments:create', 'deployments:read',
      'deployments:update', 'projects:read', 'tokens:use', 'listeners:read', 'deployments:change-commands'
    ]
  ),
  (
    '00000000-0000-4000-8000-000000000003',
    'workspace',
    'Viewer',
    'Reads.',
    array[
      'organization:read', 'workspaces:read', 'workspaces:read-members', 'deployments:read', 'projects:read',
      'listeners:read'
    ]
  ),
  (
    '00000000-0000-4000-8000-000000000004',
    'organization',
    'Organization Admin',
    'Everything in the organization and all its workspaces.',
    array[
      'organization:read', 'organization:update', 'organization:manage-members', 'organization:manage-roles',
      'organization:manage-keys', 'workspaces:create', 'workspaces:delete', 'workspaces:read',
      'workspaces:update', 'workspaces:read-members', 'workspaces:manage-members', 'api-keys:read',
      'api-keys:create', 'api-keys:delete', 'deployments:create', 'deployments:read', 'deployments:update',
      'deployments:delete', 'secrets:read', 'projects:read', 'projects:increase-trace-tier',
      'projects:decrease-trace-tier', 'fleet-admin:read', 'tokens:use', 'integrations:manage', 'listeners:read',
      'listeners:create', 'listeners:update', 'listeners:delete', 'listeners:sync',
      'organization:manage-providers', 'deployments:change-commands'
    ]
  ),
  (
    '00000000-0000-4000-8000-000000000005',
    'organization',
    'Organization User',
    'Belongs to the organization. Its workspaces grant the rest.',
    array[
      'organization:read'
    ]
  );
--> statement-breakpoint
reset role;
