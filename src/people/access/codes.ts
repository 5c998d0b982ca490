// Error codes of access.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const accessCodes = {
  role_required: {
    status: 400,
    title: 'Role required',
    problem: 'This organization has RBAC enabled, so `role_id` is required.',
    remedy: 'GET /orgs/current/roles lists the roles.',
  },
  role_built_in: {
    status: 400,
    title: 'Built-in role',
    problem: 'Built-in roles cannot be changed or deleted.',
    remedy: 'Create a custom role instead.',
  },
  permission_beyond_scope: {
    status: 400,
    title: 'Permission beyond scope',
    problem: 'A role of scope `workspace` cannot have organization permissions.',
    remedy: 'Remove them, or use scope `organization`.',
  },
  permission_not_in_role: {
    status: 400,
    title: 'Permission not in role',
    problem: 'The key’s role does not have these permissions.',
    remedy: 'Remove them, or choose a role that has them.',
  },
  last_admin: {
    status: 400,
    title: 'Last Admin',
    problem: 'The last Admin of a workspace cannot be removed or demoted.',
    remedy: 'Make another member Admin first.',
  },
  last_organization_admin: {
    status: 400,
    title: 'Last Organization Admin',
    problem: 'The last Organization Admin cannot be removed or demoted.',
    remedy: 'Make another member Organization Admin first.',
  },
  key_missing: {
    status: 401,
    title: 'API key missing',
    problem: 'The request has no API key.',
    remedy: 'Send one in `X-Api-Key` or `Authorization: Bearer`. On a page, sign in.',
  },
  key_malformed: {
    status: 401,
    title: 'Malformed API key',
    problem: 'The API key is mistyped or incomplete: its checksum does not match.',
    remedy: 'Copy the whole key again.',
  },
  key_unknown: {
    status: 401,
    title: 'Unknown API key',
    problem: 'This API key does not exist here.',
    remedy: 'Use a key of this installation.',
  },
  key_revoked: {
    status: 401,
    title: 'Revoked API key',
    problem: 'This API key was revoked.',
    remedy: 'Use another one.',
  },
  key_expired: {
    status: 401,
    title: 'Expired API key',
    problem: 'This API key has expired.',
    remedy: 'Create a new one.',
  },
  permission_missing: {
    status: 403,
    title: 'Permission missing',
    problem: 'This key or member lacks a permission that the operation needs.',
    remedy: 'Use a key that has it, or ask an Admin for a role that has it.',
  },
  instance_admin_required: {
    status: 403,
    title: 'Instance admin required',
    problem: 'Only an instance admin sees the whole installation.',
    remedy:
      'Sign in through the identity provider, or by a link of the operator, as a person whose address is in ' +
      '`INSTANCE_ADMIN_EMAILS`. A key counts if such a session has approved it.',
  },
  usage_forbidden: {
    status: 403,
    title: 'Usage forbidden',
    problem: 'The usage of an organization is for those who manage it, and for instance admins.',
    remedy: 'Use a key or role with `organization:manage`, or sign in as an instance admin.',
  },
  denied_by_policy: {
    status: 403,
    title: 'Denied by an access policy',
    problem: 'An access policy denies this.',
    remedy: 'Use a key without this policy, or ask an Admin of the organization to change it.',
  },
  widens_own_access: {
    status: 403,
    title: 'Change of tags would widen own access',
    problem: 'This change of tags would give you access that an access policy of your role does not give.',
    remedy: 'Ask a member without this policy, or an Admin of the organization, to make it.',
  },
  workspace_forbidden: {
    status: 403,
    title: 'Workspace forbidden',
    problem: 'This key or member has no access to the workspace in `X-Tenant-Id`.',
    remedy: 'Use a key of that workspace, ask for a role there, or remove the header.',
  },
  role_exceeds_actor: {
    status: 403,
    title: 'Role exceeds your permissions',
    problem: 'This would grant permissions that your own key does not have.',
    remedy: 'Use a key that has them, or grant fewer.',
  },
  key_outlives_creator: {
    status: 403,
    title: 'Key outlives its creator',
    problem: 'The new key would expire after the key that creates it.',
    remedy: 'Send an earlier `expires_at`.',
  },
  abac_off: {
    status: 404,
    title: 'Access policies off',
    problem: 'The operator of this installation switched access policies off.',
    remedy: 'Ask the operator to set `ABAC=on`. Until then, roles alone decide.',
  },
  access_policy_not_found: {
    status: 404,
    title: 'Access policy not found',
    problem: 'This organization, or this role, has no such access policy.',
    remedy: 'GET /v1/platform/orgs/current/access-policies lists the policies and their roles.',
  },
  organization_not_found: {
    status: 404,
    title: 'Organization not found',
    problem: 'This organization does not exist.',
    remedy: 'Use a key of an existing organization.',
  },
  workspace_not_found: {
    status: 404,
    title: 'Workspace not found',
    problem: 'This key has no access to such a workspace.',
    remedy: 'GET /workspaces lists the workspaces.',
  },
  member_not_found: {
    status: 404,
    title: 'Member not found',
    problem: 'This member does not exist.',
    remedy: 'List the members to find the id.',
  },
  role_not_found: {
    status: 404,
    title: 'Role not found',
    problem: 'This role does not exist here.',
    remedy: 'GET /orgs/current/roles lists the roles.',
  },
  key_not_found: {
    status: 404,
    title: 'API key not found',
    problem: 'This API key does not exist.',
    remedy: 'List the keys to find the id.',
  },
  identity_not_found: {
    status: 404,
    title: 'Identity not found',
    problem: 'This member or API key was not found in this workspace.',
    remedy: 'GET /workspaces/current/members lists the members.',
  },
  workspace_name_taken: {
    status: 409,
    title: 'Workspace name taken',
    problem: 'This organization already has a workspace with this `display_name`.',
    remedy: 'Choose another name.',
  },
  role_name_taken: {
    status: 409,
    title: 'Role name taken',
    problem: 'This organization already has a role with this `display_name`.',
    remedy: 'Choose another name.',
  },
  role_in_use: {
    status: 409,
    title: 'Role in use',
    problem: 'Members, keys or trusted issuers still have this role.',
    remedy: 'Give them another role first.',
  },
  member_exists: {
    status: 409,
    title: 'Member exists',
    problem: 'This person is already a member of the organization.',
    remedy: 'Change the existing membership.',
  },
  workspace_member_exists: {
    status: 409,
    title: 'Workspace member exists',
    problem: 'This person is already a member of the workspace.',
    remedy: 'Change the existing membership.',
  },
} as const satisfies ErrorCodes
