// Routes of organizations, workspaces, members, roles and API keys.
import { slice } from '../../kernel/http/routes.ts'
import { namedPage } from '../../protocol/wire.ts'
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
    description: 'The organization is that of the key: there is no id to send.',
    reply: s.OrganizationInfo,
    versioned: true,
    verb: access.readOrganization,
  })
  .patch('/orgs/current', {
    id: 'changeOrganization',
    summary: 'Rename the organization, or turn RBAC on or off',
    description:
      'Members that are absent stay as they are. With RBAC on, adding a member requires a role. Roles that members ' +
      'have stay in any case.',
    body: s.OrganizationPatch,
    reply: s.OrganizationInfo,
    versioned: true,
    verb: access.changeOrganization,
  })
  .patch('/orgs/current/info', {
    id: 'changeOrganizationInfo',
    summary: 'Change the organization by the path of clients of the reference',
    description: 'The same as `PATCH /orgs/current`. Members of the answer that cannot be changed are refused.',
    body: s.OrganizationPatch,
    reply: s.OrganizationInfo,
    versioned: true,
    verb: access.changeOrganization,
  })
  .get('/orgs/current/members', {
    id: 'listMembers',
    summary: 'List the members of the organization',
    description: 'Newest first. A member may belong to no workspace: `/workspaces/current/members` lists those of one.',
    query: s.PersonPage,
    reply: s.MemberList,
    verb: members.listMembers,
  })
  .post('/orgs/current/members', {
    id: 'addMember',
    summary: 'Add a member to the organization',
    description:
      'No message is sent to the person. To see anything in a workspace, the person needs a role there, too: `POST ' +
      '/workspaces/current/members`. The caller cannot give a role with permissions that it lacks.',
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
    description: '`last_seen_at` is when the person, or a key of the person, last sent a request.',
    params: s.MemberRef,
    reply: s.Member,
    errors: ['member_not_found'],
    versioned: true,
    verb: members.readMember,
  })
  .patch('/orgs/current/members/{member_id}', {
    id: 'changeMember',
    summary: 'Change a member’s name or role in the organization',
    description:
      'Members that are absent stay as they are. The caller cannot give a role with permissions that it lacks. Roles ' +
      'in workspaces are changed at `/workspaces/current/members/{membership_id}`.',
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
    description:
      'Sessions of the person and keys that belong to the person end at once. Other keys stay: revoke those that the ' +
      'person knew.',
    params: s.MemberRef,
    errors: ['member_not_found', 'last_admin'],
    versioned: true,
    verb: members.removeMember,
  })
  .get('/orgs/current/permissions', {
    id: 'listPermissions',
    summary: 'List all permissions',
    description: 'Each has the scope of the roles that can have it: `organization` or `workspace`.',
    reply: s.PermissionList,
    verb: roles.listPermissions,
  })
  .get('/orgs/current/roles', {
    id: 'listRoles',
    summary: 'List the built-in and custom roles',
    description:
      'Newest first. The ids are the same in every installation for built-in roles, which have no `organization_id`.',
    query: s.RoleQuery,
    reply: s.RoleList,
    verb: roles.listRoles,
  })
  .post('/orgs/current/roles', {
    id: 'createRole',
    summary: 'Create a custom role',
    description:
      'The caller cannot put permissions into a role that it lacks itself. A role of scope `workspace` cannot have ' +
      'permissions of the organization.',
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
    description: 'It has all its permissions. A role without `organization_id` is built in and cannot be changed.',
    params: s.RoleRef,
    reply: s.Role,
    errors: ['role_not_found'],
    versioned: true,
    verb: roles.readRole,
  })
  .patch('/orgs/current/roles/{role_id}', {
    id: 'changeRole',
    summary: 'Change a custom role',
    description:
      'It holds for all members and keys with this role from the next request on. The caller cannot add permissions ' +
      'that it lacks itself.',
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
    description: 'Give members and keys another role first. Access policies are detached from it.',
    params: s.RoleRef,
    errors: ['role_not_found', 'role_built_in', 'role_in_use'],
    versioned: true,
    verb: roles.deleteRole,
  })
  .get('/orgs/current/api-keys', {
    id: 'listOrganizationKeys',
    summary: 'List all API keys of the organization and its workspaces',
    description:
      'Newest first, without revoked ones. The keys themselves are never shown: `hint` has the beginning and the end.',
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
    description:
      '`descendants` is how many keys were created with it, directly or indirectly, and would be revoked with it.',
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
    description: 'Newest first. For a key of one workspace this is that workspace alone.',
    query: namedPage('display_name'),
    reply: s.WorkspaceList,
    verb: access.listWorkspaces,
  })
  .post('/workspaces', {
    id: 'createWorkspace',
    summary: 'Create a workspace',
    description:
      'It is empty and has no members. Add them with `POST /workspaces/current/members`, with the new workspace in ' +
      '`X-Tenant-Id`.',
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
    description: 'A key of a workspace reads its own alone.',
    params: s.WorkspaceRef,
    reply: s.Workspace,
    errors: ['workspace_not_found'],
    versioned: true,
    verb: access.readWorkspace,
  })
  .patch('/workspaces/{workspace_id}', {
    id: 'changeWorkspace',
    summary: 'Rename a workspace, or require conditional writes in it',
    description:
      'With `require_if_match`, a change without `If-Match` is refused with 428 in this workspace, so that no writer ' +
      'overwrites another one unseen.',
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
    description: 'With its deployments, traces, datasets, secrets and keys. It cannot be undone.',
    params: s.WorkspaceRef,
    errors: ['workspace_not_found'],
    versioned: true,
    verb: access.deleteWorkspace,
  })
  .get('/workspaces/current/members', {
    id: 'listMemberships',
    toleratesUnknown: true,
    summary: 'List the members of this workspace',
    description: 'Newest first. The `id` of an entry is that of the membership, and not that of the member.',
    query: s.PersonPage,
    reply: s.MembershipList,
    verb: members.listMemberships,
  })
  .post('/workspaces/current/members', {
    id: 'addMembership',
    toleratesUnknown: true,
    summary: 'Add a member to this workspace',
    description:
      'Name a member of the organization by `member_id`, or a person by `email`, who joins the organization if ' +
      'necessary. The caller cannot give a role with permissions that it lacks.',
    body: s.NewMembership,
    beforeFaults: members.requireNamedRole,
    status: 201,
    reply: s.Membership,
    errors: ['role_required', 'role_not_found', 'workspace_member_exists'],
    verb: members.addMembership,
  })
  .get('/workspaces/current/members/{membership_id}', {
    id: 'readMembership',
    summary: 'Get a member of this workspace',
    description: 'The `id` is that of the membership, and not that of the member. It has the role in this workspace.',
    params: s.MembershipRef,
    reply: s.Membership,
    errors: ['member_not_found'],
    versioned: true,
    verb: members.readMembership,
  })
  .patch('/workspaces/current/members/{membership_id}', {
    id: 'changeMembership',
    summary: 'Change a member’s role in this workspace',
    description:
      'It holds from the next request of the person on. The caller cannot give a role with permissions that it lacks.',
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
    description: 'The person stays in the organization and in other workspaces. The last Admin cannot be removed.',
    params: s.MembershipRef,
    errors: ['member_not_found', 'last_admin'],
    versioned: true,
    verb: members.removeMembership,
  })
  .get('/workspaces/current/api-keys', {
    id: 'listWorkspaceKeys',
    summary: 'List the API keys of this workspace',
    description:
      'Newest first, without revoked ones. The keys themselves are never shown: `hint` has the beginning and the end.',
    query: s.KeyQuery,
    reply: s.ApiKeyList,
    verb: keys.listWorkspaceKeys,
  })
  .post('/workspaces/current/api-keys', {
    id: 'createWorkspaceKey',
    summary: 'Create an API key of this workspace',
    description:
      'The key is in the answer, and is never shown again. It cannot have permissions that the calling key lacks, ' +
      'nor end later. Revoking the calling key revokes it, too.',
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
    description:
      '`descendants` is how many keys were created with it, directly or indirectly, and would be revoked with it.',
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
