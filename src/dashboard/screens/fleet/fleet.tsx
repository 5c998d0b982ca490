// The fleet of the organization, and for an instance admin that of the whole installation.
import type { ComponentChildren } from 'preact'
import type { Item, Me, Reply } from '../../api/client.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { formatCount, plural } from '../../format/amount.ts'
import { formatBytes } from '../../format/size.ts'
import { formatSeconds } from '../../format/time.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Chip } from '../../parts/field.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Cell, type Column, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'

/** Nothing of it has an event. */
const READ_EVERY_MS = 30_000

type Fleet = Reply<'GET /v2/admin/fleet'>
type FleetListener = Item<'GET /v2/admin/fleet/listeners'>

export default function FleetScreen({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Fleet' })
  const [chosen, choose] = useFilter('of')
  const isForOrganization = me.permissions.includes('fleet-admin:read')
  const isForAll = me.is_instance_admin && (chosen === 'installation' || !isForOrganization)
  if (!isForOrganization && !isForAll)
    return (
      <Empty title="Your role cannot see the fleet">
        The fleet covers all workspaces of {me.organization.display_name}, so it needs the permission fleet-admin:read
        in the organization.
      </Empty>
    )
  const actions = isForOrganization && me.is_instance_admin && (
    <>
      <Chip pressed={!isForAll} onPress={() => choose('')}>
        Organization
      </Chip>
      <Chip pressed={isForAll} onPress={() => choose('installation')}>
        Installation
      </Chip>
    </>
  )
  return (
    <>
      <PageHead title="Fleet" actions={actions} />
      <Stack>
        <Overview workspace={workspace} me={me} isForAll={isForAll} />
      </Stack>
    </>
  )
}

type Scoped = { workspace: string; isForAll: boolean }

function Overview({ workspace, me, isForAll }: Scoped & { me: Me }) {
  const { data, error, refetch } = useRead(
    workspace,
    isForAll ? 'GET /v2/admin/installation' : 'GET /v2/admin/fleet',
    {},
    { everyMs: READ_EVERY_MS },
  )
  const summary = data ? (
    <Card title={isForAll ? 'Installation' : me.organization.display_name}>
      <Body>
        <Facts facts={listFacts(data, isForAll)} />
      </Body>
    </Card>
  ) : error ? (
    <Problem error={error} onRetry={() => void refetch()} />
  ) : (
    <Skeleton lines={8} />
  )
  return (
    <>
      {summary}
      {isForAll && <Organizations workspace={workspace} />}
      <Workspaces workspace={workspace} isForAll={isForAll} />
      <Listeners workspace={workspace} isForAll={isForAll} />
      {data && (
        <>
          <Statuses fleet={data} />
          <Agents fleet={data} />
          <Queues fleet={data} />
          <Sweeps fleet={data} />
        </>
      )}
    </>
  )
}

const listFacts = (fleet: Fleet, isForAll: boolean): [label: string, value: ComponentChildren][] => [
  ['Control plane', fleet.version],
  ['Migration', fleet.migration],
  ['Organizations', isForAll && formatCount(fleet.organizations)],
  ['Workspaces', formatCount(fleet.workspaces)],
  ['Members', formatCount(fleet.members)],
  ['Listeners', `${formatCount(fleet.listeners.total)}, ${formatCount(fleet.listeners.silent)} silent`],
  ['Deployments', `${formatCount(fleet.deployments.total)}, ${formatCount(fleet.deployments.unhealthy)} unhealthy`],
  ['Not reconciled', formatCount(fleet.deployments.not_reconciled)],
  ['Source archives', formatBytes(fleet.storage.archives_bytes)],
  ['Attachments', formatBytes(fleet.storage.attachments_bytes)],
  ['Database', fleet.storage.database_bytes !== null && formatBytes(fleet.storage.database_bytes)],
  ['Last 24 hours', fleet.usage && describeUsage(fleet.usage)],
]

const describeUsage = ({ traces, bytes }: NonNullable<Fleet['usage']>): string =>
  `${plural(traces, 'trace')}, ${formatBytes(bytes)}`

const toWords = (name: string): string => {
  const words = name
    .toLowerCase()
    .replaceAll('_', ' ')
    .replace(/^api\b/, 'API')
    .replace(/^oauth\b/, 'OAuth')
  return words[0]!.toUpperCase() + words.slice(1)
}

const Statuses = ({ fleet }: { fleet: Fleet }) => (
  <Card title="Deployments by state">
    <Table caption="Deployments by state" columns={[{ label: 'State' }, { label: 'Deployments', isEnd: true }]}>
      {Object.entries(fleet.deployments.by_status).map(([status, count]) => (
        <Row key={status}>
          <Cell>{toWords(status)}</Cell>
          <Cell isEnd>{formatCount(count)}</Cell>
        </Row>
      ))}
    </Table>
  </Card>
)

const Queues = ({ fleet }: { fleet: Fleet }) => (
  <Card title="Queues">
    <Table
      caption="Work that waits"
      columns={[{ label: 'Queue', width: '50%' }, { label: 'Oldest' }, { label: 'Waiting', isEnd: true }]}
    >
      {fleet.queues.map(({ name, waiting, oldest_seconds }) => (
        <Row key={name}>
          <Cell>{toWords(name)}</Cell>
          <Cell>{waiting === 0 || oldest_seconds === null ? 'None' : formatSeconds(oldest_seconds)}</Cell>
          <Cell isEnd>{formatCount(waiting)}</Cell>
        </Row>
      ))}
    </Table>
  </Card>
)

const SKEWS: Record<FleetListener['skew'], [tone: 'ok' | 'warn' | 'bad' | 'idle', word: string]> = {
  same: ['ok', 'Current'],
  older: ['idle', 'Older'],
  too_old: ['bad', 'Too old'],
  newer: ['warn', 'Newer than the control plane'],
  unknown: ['idle', 'Unknown'],
}
const SkewBadge = ({ skew }: Pick<FleetListener, 'skew'>) => <Badge tone={SKEWS[skew][0]}>{SKEWS[skew][1]}</Badge>

const Agents = ({ fleet }: { fleet: Fleet }) =>
  fleet.agents.length === 0 ? null : (
    <Card title="Agent versions">
      <Table
        caption="Listeners by the version of their agent"
        columns={[{ label: 'Version', width: '50%' }, { label: 'Skew' }, { label: 'Listeners', isEnd: true }]}
      >
        {fleet.agents.map(({ version, skew, listeners }) => (
          <Row key={version}>
            <Cell>{version ?? 'None yet'}</Cell>
            <Cell>
              <SkewBadge skew={skew} />
            </Cell>
            <Cell isEnd>{formatCount(listeners)}</Cell>
          </Row>
        ))}
      </Table>
    </Card>
  )

const Sweeps = ({ fleet }: { fleet: Fleet }) =>
  fleet.sweeps.length === 0 ? null : (
    <Card title="Scheduled work">
      <Table
        caption="Scheduled work of the installation"
        columns={[{ label: 'Part', width: '50%' }, { label: 'State' }, { label: 'Last done', isEnd: true }]}
      >
        {fleet.sweeps.map(({ name, is_late, done_at }) => (
          <Row key={name}>
            <Cell>{toWords(name)}</Cell>
            <Cell>
              <Badge tone={is_late ? 'bad' : 'ok'}>{is_late ? 'Late' : 'On time'}</Badge>
            </Cell>
            <Cell isEnd>{done_at ? <Ago time={done_at} /> : 'Never'}</Cell>
          </Row>
        ))}
      </Table>
    </Card>
  )

type PagesProps<Listed> = {
  title: string
  columns: Column[]
  query: {
    items: Listed[] | undefined
    error: Error | null
    hasNextPage: boolean
    isFetchingNextPage: boolean
    fetchNextPage: () => unknown
    refetch: () => unknown
  }
  row: (item: Listed) => ComponentChildren
}
function Pages<Listed extends { id: string }>({ title, columns, query, row }: PagesProps<Listed>) {
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = query
  if (error && !items) return <Problem error={error} onRetry={() => void refetch()} />
  if (!items) return <Skeleton lines={4} />
  if (items.length === 0) return null
  return (
    <Card title={title}>
      <Table caption={`${title}, newest first`} columns={columns}>
        {items.map(item => (
          <Row key={item.id}>{row(item)}</Row>
        ))}
      </Table>
      {hasNextPage && (
        <Body>
          <Button busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Show more
          </Button>
        </Body>
      )}
    </Card>
  )
}

const FRESH = { everyMs: READ_EVERY_MS }

const Organizations = ({ workspace }: { workspace: string }) => (
  <Pages
    title="Organizations"
    columns={[{ label: 'Organization', width: '40%' }, { label: 'Size' }, { label: 'Deployments', isEnd: true }]}
    query={usePages(workspace, 'GET /v2/admin/installation/organizations', {}, FRESH)}
    row={({ display_name, workspaces, members, deployments }) => (
      <>
        <Cell>{display_name}</Cell>
        <Cell>{`${plural(workspaces, 'workspace')}, ${plural(members, 'member')}`}</Cell>
        <Cell isEnd>{formatCount(deployments)}</Cell>
      </>
    )}
  />
)

function Workspaces({ workspace, isForAll }: Scoped) {
  const route = isForAll ? 'GET /v2/admin/installation/workspaces' : 'GET /v2/admin/fleet/workspaces'
  return (
    <Pages
      title="Workspaces"
      columns={[
        { label: 'Workspace', width: '40%' },
        { label: 'Last 24 hours' },
        { label: 'Deployments', isEnd: true },
      ]}
      query={usePages(workspace, route, {}, FRESH)}
      row={({ display_name, organization_name, members, storage_bytes, usage, deployments }) => (
        <>
          <Cell detail={isForAll ? organization_name : plural(members, 'member')}>{display_name}</Cell>
          <Cell detail={`${formatBytes(storage_bytes)} stored`}>{usage ? describeUsage(usage) : 'Not counted'}</Cell>
          <Cell isEnd>{formatCount(deployments.total)}</Cell>
        </>
      )}
    />
  )
}

function Listeners({ workspace, isForAll }: Scoped) {
  const route = isForAll ? 'GET /v2/admin/installation/listeners' : 'GET /v2/admin/fleet/listeners'
  return (
    <Pages
      title="Listeners"
      columns={[{ label: 'Listener', width: '40%' }, { label: 'Agent' }, { label: 'Deployments', isEnd: true }]}
      query={usePages(workspace, route, {}, FRESH)}
      row={({ compute_id, workspace_name, version, skew, is_silent, last_seen_at, deployments }) => (
        <>
          <Cell detail={workspace_name ?? 'Platform'}>{compute_id}</Cell>
          <Cell detail={last_seen_at ? <Ago time={last_seen_at} /> : 'Waiting for an agent'}>
            {version ?? 'No agent'} {version && <SkewBadge skew={skew} />}{' '}
            {is_silent && <Badge tone="warn">Silent</Badge>}
          </Cell>
          <Cell isEnd>{formatCount(deployments)}</Cell>
        </>
      )}
    />
  )
}
