// Actions on members, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { Item, Me, Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'

export type Membership = Item<'GET /workspaces/current/members'>
export type Member = Item<'GET /orgs/current/members'>
export type Role = Item<'GET /orgs/current/roles'>
export type SignInLink = Reply<'POST /orgs/current/members/{member_id}/sign-in-links'>

export const nameOf = ({ full_name, email }: { full_name: string | null; email: string }): string => full_name ?? email

/** Explains a missing permission that only an organization role can grant. */
export function explainMissingInOrganization(me: Me, permission: string): string | undefined {
  return me.permissions.includes(permission)
    ? undefined
    : `You need the permission ${permission} in the organization. Ask an Admin of the organization.`
}

type Caller = { me: Me; workspace: string }

export const addToWorkspace = (
  { me, workspace }: Caller,
  { email, full_name, role_id }: { email: string; full_name: string; role_id: string },
): Action => ({
  label: 'Add member',
  unavailable: explainMissing(me, workspace, 'workspaces:manage-members'),
  request: request('POST /workspaces/current/members', {
    body: { email, ...(full_name && { full_name }), ...(role_id && { role_id }) },
  }),
  done: `${email} is a member of this workspace.`,
})

export const changeRoleHere = ({ me, workspace }: Caller, membership: Membership, role: Role): Action => ({
  label: `Make ${nameOf(membership)} ${role.display_name}`,
  unavailable: explainMissing(me, workspace, 'workspaces:manage-members'),
  request: request('PATCH /workspaces/current/members/{membership_id}', {
    params: { membership_id: membership.id },
    body: { role_id: role.id },
  }),
  done: `${nameOf(membership)} is now ${role.display_name} in this workspace.`,
})

export const changeOrganizationRole = (me: Me, member: Member, role: Role): Action => ({
  label: `Make ${nameOf(member)} ${role.display_name}`,
  unavailable: explainMissingInOrganization(me, 'organization:manage-members'),
  request: request('PATCH /orgs/current/members/{member_id}', {
    params: { member_id: member.id },
    body: { role_id: role.id },
  }),
  confirm: {
    title: `Make ${nameOf(member)} ${role.display_name}?`,
    body: `The role applies to the organization and all of its workspaces immediately. ${role.description}`,
  },
  done: `${nameOf(member)} is ${role.display_name} of the organization.`,
})

export const removeFromWorkspace = ({ me, workspace }: Caller, membership: Membership): Action => ({
  label: 'Remove from workspace',
  unavailable: explainMissing(me, workspace, 'workspaces:manage-members'),
  request: request('DELETE /workspaces/current/members/{membership_id}', { params: { membership_id: membership.id } }),
  confirm: {
    title: `Remove ${nameOf(membership)} from this workspace?`,
    body:
      'The person loses the role in this workspace immediately, and keys of the person stop working in this ' +
      'workspace. Workspace keys that the person knows keep working: revoke them. The membership in the ' +
      'organization and in other workspaces stays.',
    isDestructive: true,
  },
  done: `${nameOf(membership)} is no longer in this workspace.`,
})

export const removeFromOrganization = (me: Me, member: Member): Action => ({
  label: 'Remove from organization',
  unavailable: explainMissingInOrganization(me, 'organization:manage-members'),
  request: request('DELETE /orgs/current/members/{member_id}', { params: { member_id: member.id } }),
  confirm: {
    title: `Remove ${nameOf(member)} from ${me.organization.display_name}?`,
    body:
      'Sessions end immediately, and the roles in all workspaces and the keys of the person are deleted. ' +
      'Workspace keys that the person knows keep working: revoke them. Deployments and the audit log stay.',
    isDestructive: true,
    typed: member.email,
  },
  done: `${nameOf(member)} is no longer in ${me.organization.display_name}.`,
})

export const createSignInLink = (me: Me, member: { id: string; full_name: string | null; email: string }): Action => ({
  label: 'Create sign-in link',
  unavailable: explainMissingInOrganization(me, 'organization:manage-members'),
  request: request('POST /orgs/current/members/{member_id}/sign-in-links', { params: { member_id: member.id } }),
  done: `The sign-in link for ${nameOf(member)} is created. It can be used once.`,
})
