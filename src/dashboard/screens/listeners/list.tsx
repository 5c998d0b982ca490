// The listeners of the workspace: data planes, each with an agent that runs deployments.
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { useReadEach } from '../../api/read-each.ts'
import { plural } from '../../format/amount.ts'
import { Card } from '../../parts/card.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeType, type Listener, stateOfListener } from './listener-state.ts'

/** A poll has no event. */
const READ_EVERY_MS = 10_000
const COUNTS = 'GET /v2/deployment-counts'

export default function ListenerList({ workspace, me }: ScreenProps) {
  const query = usePages(workspace, 'GET /v2/listeners', { query: { limit: 100 } }, { everyMs: READ_EVERY_MS })
  const { items, hasNextPage } = query
  const total = useRead(workspace, COUNTS, {})
  const each = useReadEach(
    workspace,
    COUNTS,
    (items ?? []).map(({ id }) => ({ query: { listener_id: id } })),
  )
  const countOn = (listener: Listener) => each.data?.[items?.indexOf(listener) ?? -1]
  const onOwn = each.data?.reduce((sum, { total }) => sum + total, 0)
  const onPlatform = total.data && onOwn !== undefined && !hasNextPage ? total.data.total - onOwn : undefined
  return (
    <ResourceList
      title="Listeners"
      thing="listener"
      caption="Listeners, newest first"
      query={query}
      reads={[total, each]}
      create={{
        label: 'Register listener',
        to: '/listeners/new',
        unavailable: explainMissing(me, workspace, 'listeners:create'),
      }}
      filter={{ by: 'name', texts: ({ compute_id }) => [compute_id] }}
      views={[
        { name: 'silent', label: 'Silent', has: listener => stateOfListener(listener, now.value).word === 'Silent' },
        { name: 'waiting', label: 'Waiting for an agent', has: ({ last_seen_at }) => last_seen_at === null },
      ]}
      empty={{
        title: 'No listeners yet',
        command: 'slipway listeners create my-server',
        text:
          'A listener is a machine or a cluster of yours where deployments run. Register one, and start an agent ' +
          'there with its key.',
      }}
      columns={[
        {
          label: 'Listener',
          width: '32%',
          icon: () => <Icon name="listener" />,
          to: ({ id }) => `/listeners/${id}`,
          name: ({ compute_id }) => compute_id,
          detail: describeType,
        },
        {
          label: 'State',
          width: '26%',
          cell: listener => <StateLabel state={stateOfListener(listener, now.value)} />,
          detail: ({ version }) => (version ? `Version ${version}` : 'No agent has connected yet'),
        },
        {
          label: 'Serves',
          isWideOnly: true,
          cell: listener => {
            const count = countOn(listener)
            return count ? describeCount(count.total, count.has_more) : '…'
          },
        },
        {
          label: 'Last connected',
          width: '104',
          isEnd: true,
          cell: ({ last_seen_at }) => (last_seen_at ? <Ago time={last_seen_at} /> : 'never'),
        },
      ]}
    >
      <Card
        title="Platform listeners"
        aside={onPlatform !== undefined && describeCount(onPlatform, total.data?.has_more)}
      >
        <Body>
          <Note>
            Deployments without a listener of their own run on a platform listener. The operator of this installation
            registers them for all workspaces, so this list does not show them. <code>npm run dev</code> starts one with
            the name “local”. To register another:
          </Note>
          <CommandLine command="npm run bootstrap -- --organization NAME --platform-listener NAME" />
        </Body>
      </Card>
    </ResourceList>
  )
}

const describeCount = (count: number, hasMore = false): string =>
  count === 0 ? 'No deployments' : hasMore ? `${count}+ deployments` : plural(count, 'deployment')
