// The channels of the workspace and those of the person: where people are told of incidents and deployments.
import { usePages } from '../../api/queries.ts'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { DEPLOYS, describeError, describeTarget, KINDS, stateOfChannel } from './channel-state.ts'

/** An attempt has no event. */
const READ_EVERY_MS = 15_000

export default function ChannelList({ workspace }: ScreenProps) {
  return (
    <ResourceList
      title="Channels"
      thing="channel"
      caption="Channels, newest first"
      query={usePages(workspace, 'GET /v2/channels', { query: { limit: 100 } }, { everyMs: READ_EVERY_MS })}
      create={{ label: 'Create channel', to: '/channels/new' }}
      filter={{ by: 'name or receiver', texts: one => [one.name, describeTarget(one), KINDS[one.target.kind]] }}
      views={[
        {
          name: 'attention',
          label: 'Needs attention',
          has: channel => ['bad', 'warn'].includes(stateOfChannel(channel).tone),
        },
        { name: 'own', label: 'Mine', has: ({ is_own }) => is_own },
      ]}
      empty={{
        title: 'No channels yet',
        command: 'slipway channels create --own --deploys failed',
        text: 'A channel tells people of incidents and deployments: by e-mail, Slack, PagerDuty or a signed webhook.',
      }}
      columns={[
        {
          label: 'Channel',
          width: '36%',
          icon: () => <Icon name="bell" />,
          to: ({ id }) => `/channels/${id}`,
          name: ({ name }) => name,
          detail: channel => `${KINDS[channel.target.kind]}: ${describeTarget(channel)}`,
        },
        {
          label: 'Health',
          width: '22%',
          cell: channel => <StateLabel state={stateOfChannel(channel)} />,
          detail: ({ health }) => health.error && describeError(health.error),
        },
        {
          label: 'Told of',
          isWideOnly: true,
          cell: ({ deploys, is_default }) =>
            [is_default && 'Alerts', deploys !== 'none' && DEPLOYS[deploys]].filter(Boolean).join(', ') || '–',
          detail: ({ is_own }) => is_own && 'Only you see it',
        },
        {
          label: 'Last attempt',
          width: '96',
          isEnd: true,
          cell: ({ health }) => (health.attempted_at ? <Ago time={health.attempted_at} /> : '–'),
        },
      ]}
    />
  )
}
