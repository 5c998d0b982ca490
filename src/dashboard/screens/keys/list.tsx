// The API keys of the workspace, and those of the whole organization.
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { Chip } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { useFilter } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeOwner, endOf, isSoon, type Key, mayManageOrganizationKeys } from './actions.ts'
import { Expiry } from './expiry.tsx'
import { KeysFrame } from './frame.tsx'

/** A request with a key has no event. */
const READ_EVERY_MS = 60_000

export default function KeyList({ workspace, me }: ScreenProps) {
  const [of, setOf] = useFilter('of')
  const mayManageAll = mayManageOrganizationKeys(me)
  const isOrganization = of === 'organization' && mayManageAll
  const query = usePages(
    workspace,
    isOrganization ? 'GET /orgs/current/api-keys' : 'GET /workspaces/current/api-keys',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS },
  )
  const roles = useRoles(workspace)
  return (
    <ResourceList<Key>
      title="Keys"
      thing="key"
      caption="API keys, newest first"
      frame={parts => <KeysFrame tab="" {...parts} />}
      query={query}
      create={{
        label: 'Create key',
        to: '/keys/new',
        unavailable: mayManageAll ? undefined : explainMissing(me, workspace, 'api-keys:create'),
      }}
      filter={{
        by: 'description, hint or member',
        texts: key => [`${key.description} ${key.hint} ${key.member?.email ?? ''}`],
      }}
      views={[
        { name: 'unused', label: 'Never used', has: ({ last_used_at }) => last_used_at === null },
        { name: 'ending', label: 'Expiring soon', has: key => isSoon(endOf(key), now.value) },
      ]}
      chips={
        mayManageAll && (
          <Chip pressed={isOrganization} onPress={() => setOf(isOrganization ? '' : 'organization')}>
            All of {me.organization.display_name}
          </Chip>
        )
      }
      empty={{
        title: 'No keys yet',
        command: 'slipway keys create ci --role Editor --expires-in 90d',
        text: 'Programs use the API with a key: a pipeline, an agent, the command line. People sign in without one.',
      }}
      columns={[
        {
          label: 'Key',
          width: '42%',
          icon: () => <Icon name="key" />,
          to: ({ id }) => `/keys/${id}`,
          name: ({ description }) => description,
          badge: ({ id }) => id === me.api_key?.id && <Badge tone="idle">This session</Badge>,
          detail: key => (
            <>
              <code>{key.hint}</code> {describePlace(key, me)}
            </>
          ),
        },
        { label: 'Role', cell: ({ role_id }) => roles.nameOf(role_id), detail: describeExtent },
        {
          label: 'Expires',
          width: '112',
          isWideOnly: key => !isSoon(endOf(key), now.value),
          cell: key => <Expiry time={endOf(key)} />,
        },
        {
          label: 'Last used',
          width: '104',
          isEnd: true,
          cell: ({ last_used_at }) => (last_used_at ? <Ago time={last_used_at} /> : 'never'),
        },
      ]}
    />
  )
}

const describeExtent = ({ permissions }: Key): string => {
  if (!permissions) return 'All permissions of the role'
  return permissions.length === 1 ? 'Limited to one permission' : `Limited to ${permissions.length} permissions`
}

function describePlace(key: Key, me: ScreenProps['me']): string {
  const workspace = me.workspaces.find(({ id }) => id === key.tenant_id)
  return key.member || key.listener_id || !workspace ? describeOwner(key) : `Workspace ${workspace.display_name}`
}
