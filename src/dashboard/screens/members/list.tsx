// The people of the workspace, and those of the organization.
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { Chip } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useFilter } from '../../router/links.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { nameOf } from './actions.ts'
import { useRoles } from './use-roles.ts'

/** Requests of other people have no event. */
const READ_EVERY_MS = 60_000

type ListedMember = {
  member_id: string
  email: string
  full_name: string | null
  role_id: string
  created_at: string
  last_seen_at: string | null
}

export default function MemberList({ workspace, me }: ScreenProps) {
  const [of, setOf] = useFilter('of')
  const isOrganization = of === 'organization'
  const page = { query: { limit: 100 } }
  const here = usePages(workspace, 'GET /workspaces/current/members', page, {
    enabled: !isOrganization,
    everyMs: READ_EVERY_MS,
  })
  const all = usePages(workspace, 'GET /orgs/current/members', page, {
    enabled: isOrganization,
    everyMs: READ_EVERY_MS,
  })
  const query = isOrganization ? { ...all, items: all.items?.map(one => ({ ...one, member_id: one.id })) } : here
  const roles = useRoles(workspace)
  return (
    <ResourceList<ListedMember>
      title="Members"
      thing="member"
      caption={isOrganization ? 'Members of the organization' : 'Members of this workspace'}
      query={query}
      keyOf={({ member_id }) => member_id}
      create={{
        label: 'Invite member',
        to: '/members/new',
        unavailable: explainMissing(me, workspace, 'workspaces:manage-members'),
      }}
      filter={{ by: 'name or address', texts: one => [`${one.full_name ?? ''} ${one.email}`] }}
      chips={
        <>
          <Chip pressed={!isOrganization} onPress={() => setOf('')}>
            This workspace
          </Chip>
          <Chip pressed={isOrganization} onPress={() => setOf('organization')}>
            {me.organization.display_name}
          </Chip>
        </>
      }
      empty={{
        title: 'No members yet',
        text:
          `People can use this workspace through their role in ${me.organization.display_name}. Invite a member to ` +
          'give them a role in this workspace.',
      }}
      columns={[
        {
          label: 'Person',
          width: '42%',
          icon: () => <Icon name="person" />,
          to: ({ member_id }) => `/members/${member_id}`,
          name: one => nameOf(one),
          badge: ({ member_id }) => member_id === me.member?.id && <Badge tone="idle">You</Badge>,
          detail: ({ full_name, email }) => full_name && email,
        },
        {
          label: isOrganization ? 'Role in the organization' : 'Role in the workspace',
          cell: ({ role_id }) => roles.nameOf(role_id),
        },
        {
          label: 'Joined',
          width: '120',
          isWideOnly: true,
          cell: ({ created_at }) => <Ago time={created_at} suffix=" ago" />,
        },
        {
          label: 'Last seen',
          width: '120',
          isEnd: true,
          cell: ({ last_seen_at }) =>
            last_seen_at ? <Ago time={last_seen_at} /> : <span title="Not in the last 30 days, in a browser">–</span>,
        },
      ]}
    />
  )
}
