// The built-in roles and those of the organization.
import { useRead } from '../../api/queries.ts'
import { Icon } from '../../parts/icon.tsx'
import { Badge } from '../../parts/state.tsx'
import { explainMissingInOrganization } from '../members/actions.ts'
import { useRoles } from '../members/use-roles.ts'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeHolders, useHolders } from './use-holders.ts'

export default function RoleList({ workspace, me }: ScreenProps) {
  const { data, ...read } = useRead(workspace, 'GET /orgs/current/roles', { query: { limit: 100 } })
  const roles = useRoles(workspace)
  const holdersOf = useHolders(workspace, me)
  return (
    <ResourceList
      title="Roles"
      thing="role"
      caption="Roles, the built-in ones first"
      query={{ ...read, items: data && roles.all }}
      create={{
        label: 'Create role',
        to: '/roles/new',
        unavailable: explainMissingInOrganization(me, 'organization:manage-roles'),
      }}
      filter={{ by: 'name', texts: ({ display_name }) => [display_name] }}
      empty={{ title: 'No roles', text: 'A role grants permissions to members and keys.' }}
      columns={[
        {
          label: 'Role',
          width: '44%',
          icon: () => <Icon name="role" />,
          to: ({ id }) => `/roles/${id}`,
          name: ({ display_name }) => display_name,
          badge: ({ organization_id }) => (
            <Badge tone={organization_id ? 'busy' : 'idle'}>{organization_id ? 'Custom' : 'Built in'}</Badge>
          ),
          detail: ({ description }) => <span title={description}>{description}</span>,
        },
        { label: 'Scope', cell: ({ scope }) => (scope === 'workspace' ? 'Workspace' : 'Organization') },
        { label: 'Permissions', width: '104', isWideOnly: true, cell: ({ permissions }) => permissions.length },
        {
          label: 'Holders',
          width: '168',
          isEnd: true,
          cell: ({ id }) => (holdersOf ? describeHolders(holdersOf(id)) : '…'),
        },
      ]}
    />
  )
}
