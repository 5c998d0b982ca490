// The issuers whose tokens jobs of a CI exchange for keys of the workspace.
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { Icon } from '../../parts/icon.tsx'
import { Empty } from '../../parts/panel.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useRoles } from '../members/use-roles.ts'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { KeysFrame } from './frame.tsx'

/** An exchange has an event of the key only. */
const READ_EVERY_MS = 60_000

export default function TrustedIssuerList({ workspace, me }: ScreenProps) {
  const unreadable = explainMissing(me, workspace, 'api-keys:read')
  const query = usePages(
    workspace,
    'GET /v2/trusted-issuers',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS, enabled: !unreadable },
  )
  const roles = useRoles(workspace)
  if (unreadable)
    return (
      <KeysFrame tab="/trusted">
        <Empty title="You cannot see trusted issuers">{unreadable}</Empty>
      </KeysFrame>
    )
  return (
    <ResourceList
      title="Trusted issuers"
      thing="trusted issuer"
      caption="Trusted issuers, newest first"
      frame={parts => <KeysFrame tab="/trusted" {...parts} />}
      query={query}
      create={{
        label: 'Trust issuer',
        to: '/keys/trusted/new',
        unavailable: explainMissing(me, workspace, 'workspaces:manage-keys'),
      }}
      empty={{
        title: 'No trusted issuers yet',
        text:
          'GitHub Actions, GitLab and Kubernetes give each job a signed token. A job exchanges it for a key that is ' +
          'valid for 15 minutes, so no key is stored there.',
      }}
      columns={[
        {
          label: 'Name',
          width: '30%',
          icon: () => <Icon name="key" />,
          to: ({ id }) => `/keys/trusted/${id}`,
          name: trusted => trusted.name,
          detail: ({ issuer }) => issuer,
        },
        { label: 'Subject', cell: ({ subject }) => <code title={subject}>{subject}</code> },
        {
          label: 'Role',
          width: '16%',
          cell: ({ state, role_id }) => (state === 'ended' ? <Badge tone="bad">Ended</Badge> : roles.nameOf(role_id)),
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
