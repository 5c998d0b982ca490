// Actions on roles, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { Me } from '../../api/client.ts'
import type { Permission } from '../../format/permissions.ts'
import { explainMissingInOrganization, type Role } from '../members/actions.ts'

export type RoleDraft = {
  scope: Role['scope']
  display_name: string
  description: string
  permissions: Permission[]
}

const missing = (me: Me) => explainMissingInOrganization(me, 'organization:manage-roles')

export const createRole = (me: Me, draft: RoleDraft): Action => ({
  label: 'Create role',
  unavailable: missing(me),
  request: request('POST /orgs/current/roles', { body: draft }),
  done: `Created the role ${draft.display_name}.`,
})

export const changeRole = (me: Me, { id }: Role, { scope: _, ...draft }: RoleDraft): Action => ({
  label: 'Save role',
  unavailable: missing(me),
  request: request('PATCH /orgs/current/roles/{role_id}', { params: { role_id: id }, body: draft }),
  done: `${draft.display_name} is saved. It applies from the next request on.`,
})

export const deleteRole = (me: Me, { id, display_name }: Role): Action => ({
  label: 'Delete role',
  unavailable: missing(me),
  request: request('DELETE /orgs/current/roles/{role_id}', { params: { role_id: id } }),
  confirm: {
    title: `Delete the role ${display_name}?`,
    body:
      'A role that a member or key uses cannot be deleted, so no one loses permissions. A deleted role cannot ' +
      'be restored.',
    isDestructive: true,
  },
  done: `The role ${display_name} is deleted.`,
})
