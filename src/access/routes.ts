// Routes of organizations, workspaces, members, roles and API keys.
import { slice } from '../kernel/routes.ts'
import { namedPage } from '../protocol/wire.ts'
import * as keys from './api-keys.ts'
import * as members from './members.ts'
import * as roles from './roles.ts'
import * as s from './schema.ts'
import * as access from './service.ts'

export const organizationRoutes = slice(
  'Organization',
  'The organization of the calling key: its members, roles and API keys.',
)
  .get('/orgs/current/info', {
    id: 'readOrganization',
    toleratesUnknown: true,
    summary: 'Get the organization of this key',
    reply: s.OrganizationInfo,
    versioned: true,
    verb: access.readOrganization,
  })
  .patch('/orgs/current', {
    id: 'changeOrganization',
    summary: 'Rename the organization, or turn RBAC on or off',
    body: s.OrganizationPatch,
    reply: s.OrganizationInfo,
    versioned: true,
    verb: access.changeOrganization,
  })
  .get('/orgs/current/members', {
    id: 'listMembers',
    summary: 'List the members of the organization',
    query: s.PersonPage,
    reply: s.MemberList,
    verb: members.listMembers,
  })
  .post('/orgs/current/members', {
    id: 'addMember',
    summary: 'Add a member to the organization',
    body: s.NewMember,
    status: 201,
    reply: s.Member,
    errors: ['role_not_found', 'member_exists'],
    location: member => `/orgs/current/members/${member.id}`,
    verb: members.addMember,
  })
  .get('/orgs/current/members/{member_id}', {
    id: 'readMember',
    summary: 'Get a member of the organization',
    params: s.MemberRef,
    reply: s.Member,
    errors: ['member_not_found'],
    versioned: true,
    verb: members.readMember,
  })
  .patch('/orgs/current/members/{member_id}', {
    id: 'changeMember',
    summary: 'Change a member’s name or role in the organization',
    params: s.MemberRef,
    body: s.MemberPatch,
    reply: s.Member,
    errors: ['member_not_found', 'last_organization_admin'],
    versioned: true,
    verb: members.changeMember,
  })
  .delete('/orgs/current/members/{member_id}', {
    id: 'removeMember',
    summary: 'Remove a member from the organization and all its workspaces',
    params: s.MemberRef,
    errors: ['member_not_found', 'last_admin'],
    versioned: true,
    verb: members.removeMember,
  })
  .get('/orgs/current/permissions', {
    id: 'listPermissions',
    summary: 'List all permissions',
    reply: s.PermissionList,
    verb: roles.listPermissions,
  })
  .get('/orgs/current/roles', {
    id: 'listRoles',
    summary: 'List the built-in and custom roles',
    query: namedPage('display_name'),
    reply: s.RoleList,
    verb: roles.listRoles,
  })
  .post('/orgs/current/roles', {
    id: 'createRole',
    summary: 'Create a custom role',
    body: s.NewRole,
    status: 201,
    reply: s.Role,
    errors: ['role_name_taken'],
    location: role => `/orgs/current/roles/${role.id}`,
    verb: roles.createRole,
  })
  .get('/orgs/current/roles/{role_id}', {
    id: 'readRole',
    summary: 'Get a role',
    params: s.RoleRef,
    reply: s.Role,
    errors: ['role_not_found'],
    versioned: true,
    verb: roles.readRole,
  })
  .patch('/orgs/current/roles/{role_id}', {
    id: 'changeRole',
    summary: 'Change a custom role',
    params: s.RoleRef,
    body: s.RolePatch,
    reply: s.Role,
    errors: ['role_not_found', 'role_built_in', 'role_name_taken'],
    versioned: true,
    verb: roles.changeRole,
  })
  .delete('/orgs/current/roles/{role_id}', {
    id: 'deleteRole',
    summary: 'Delete a custom role that is not in use',
    params: s.RoleRef,
    errors: ['role_not_found', 'role_built_in', 'role_in_use'],
    versioned: true,
    verb: roles.deleteRole,
  })
  .get('/orgs/current/api-keys', {
    id: 'listOrganizationKeys',
    summary: 'List all API keys of the organization and its workspaces',
    query: s.KeyQuery,
    reply: s.ApiKeyList,
    verb: keys.listOrganizationKeys,
  })
  .post('/orgs/current/api-keys', {
    id: 'createOrganizationKey',
    summary: 'Create an organization API key',
    description: 'It can use every workspace of the organization. Name the workspace in `X-Tenant-Id`.',
    body: s.NewApiKey,
    status: 201,
    reply: s.NewlyMadeApiKey,
    errors: ['role_not_found', 'permission_not_in_role'],
    verb: keys.createOrganizationKey,
  })
  .get('/orgs/current/api-keys/{key_id}', {
    id: 'readOrganizationKey',
    hasContentTag: true,
    summary: 'Get an API key, and how many keys revoking it revokes',
    params: s.KeyRef,
    reply: s.ApiKeyWithDescendants,
    errors: ['key_not_found'],
    verb: keys.readOrganizationKey,
  })
  .delete('/orgs/current/api-keys/{key_id}', {
    id: 'revokeOrganizationKey',
    summary: 'Revoke an API key of the organization',
    description:
      'It takes effect at once. Every key created with this key, directly or indirectly, is revoked too, in every ' +
      'workspace, including keys of agents. GET the key first to see how many these are. `?created_by=` lists them.',
    params: s.KeyRef,
    errors: ['key_not_found'],
    verb: keys.revokeOrganizationKey,
  })

export const workspaceRoutes = slice(
  'Workspaces',
  'Workspaces of the organization with their members and API keys. A workspace is also called a tenant.',
)
  .get('/workspaces', {
    id: 'listWorkspaces',
    toleratesUnknown: true,
    summary: 'List the workspaces that this key can use',
    query: namedPage('display_name'),
    reply: s.WorkspaceList,
    verb: access.listWorkspaces,
  })
  .post('/workspaces', {
    id: 'createWorkspace',
    summary: 'Create a workspace',
    body: s.NewWorkspace,
    status: 201,
    reply: s.Workspace,
    errors: ['workspace_name_taken'],
    location: workspace => `/workspaces/${workspace.id}`,
    verb: access.createWorkspace,
  })
  .get('/workspaces/{workspace_id}', {
    id: 'readWorkspace',
    summary: 'Get a workspace',
    params: s.WorkspaceRef,
    reply: s.Workspace,
    errors: ['workspace_not_found'],
    versioned: true,
    verb: access.readWorkspace,
  })
  .patch('/workspaces/{workspace_id}', {
    id: 'changeWorkspace',
    summary: 'Rename a workspace, or require conditional writes in it',
    params: s.WorkspaceRef,
    body: s.WorkspacePatch,
    reply: s.Workspace,
    errors: ['workspace_not_found', 'workspace_name_taken'],
    versioned: true,
    verb: access.changeWorkspace,
  })
  .delete('/workspaces/{workspace_id}', {
    id: 'deleteWorkspace',
    summary: 'Delete a workspace with everything in it',
    params: s.WorkspaceRef,
    errors: ['workspace_not_found'],
    versioned: true,
    verb: access.deleteWorkspace,
  })
  .get('/workspaces/current/members', {
    id: 'listMemberships',
    toleratesUnknown: true,
    summary: 'List the members of this workspace',
    query: s.PersonPage,
    reply: s.MembershipList,
    verb: members.listMemberships,
  })
  .post('/workspaces/current/members', {
    id: 'addMembership',
    toleratesUnknown: true,
    summary: 'Add a member to this workspace',
    body: s.NewMembership,
    status: 201,
    reply: s.Membership,
    errors: ['role_required', 'role_not_found', 'workspace_member_exists'],
    verb: members.addMembership,
  })
  .get('/workspaces/current/members/{membership_id}', {
    id: 'readMembership',
    summary: 'Get a member of this workspace',
    params: s.MembershipRef,
    reply: s.Membership,
    errors: ['member_not_found'],
    versioned: true,
    verb: members.readMembership,
  })
  .patch('/workspaces/current/members/{membership_id}', {
    id: 'changeMembership',
    summary: 'Change a member’s role in this workspace',
    params: s.MembershipRef,
    body: s.MembershipPatch,
    reply: s.Membership,
    errors: ['member_not_found', 'last_admin'],
    versioned: true,
    verb: members.changeMembership,
  })
  .delete('/workspaces/current/members/{membership_id}', {
    id: 'removeMembership',
    summary: 'Remove a member from this workspace',
    params: s.MembershipRef,
    errors: ['member_not_found', 'last_admin'],
    versioned: true,
    verb: members.removeMembership,
  })
  .get('/workspaces/current/api-keys', {
    id: 'listWorkspaceKeys',
    summary: 'List the API keys of this workspace',
    query: s.KeyQuery,
    reply: s.ApiKeyList,
    verb: keys.listWorkspaceKeys,
  })
  .post('/workspaces/current/api-keys', {
    id: 'createWorkspaceKey',
    summary: 'Create an API key of this workspace',
    body: s.NewApiKey,
    status: 201,
    reply: s.NewlyMadeApiKey,
    errors: ['role_not_found', 'permission_not_in_role'],
    verb: keys.createWorkspaceKey,
  })
  .get('/workspaces/current/api-keys/{key_id}', {
    id: 'readWorkspaceKey',
    hasContentTag: true,
    summary: 'Get an API key, and how many keys revoking it revokes',
    params: s.KeyRef,
    reply: s.ApiKeyWithDescendants,
    errors: ['key_not_found'],
    verb: keys.readWorkspaceKey,
  })
  .delete('/workspaces/current/api-keys/{key_id}', {
    id: 'revokeWorkspaceKey',
    summary: 'Revoke an API key of this workspace',
    description:
      'It takes effect at once. Every key created with this key, directly or indirectly, is revoked too, in every ' +
      'workspace, including keys of agents. GET the key first to see how many these are. `?created_by=` lists them.',
    params: s.KeyRef,
    errors: ['key_not_found'],
    verb: keys.revokeWorkspaceKey,
  })
