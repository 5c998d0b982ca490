// The listeners of the workspace: data planes, each with an agent that runs deployments.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { useReadEach } from '../../api/read-each.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Body, CreateLink, ListCard, Note, PageHead, Stack, Toolbar } from '../../parts/page.tsx'
import { Card, CommandLine, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeType, type Listener, stateOfListener } from './listener-state.ts'

/** A poll has no event. */
const READ_EVERY_MS = 10_000
const VIEWS = [
  { name: '', label: 'All' },
  { name: 'silent', label: 'Silent' },
  { name: 'waiting', label: 'Waiting for an agent' },
] as const
const NEW = '/listeners/new'

export default function ListenerList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Listeners' })
  const [name, setName] = useFilter('name')
  const [view, setView] = useFilter('view')
  const [, navigate] = useLocation()
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/listeners',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS },
  )
  const COUNTS = 'GET /v2/deployment-counts'
  const { data: total } = useRead(workspace, COUNTS, {})
  const { data: counts } = useReadEach(
    workspace,
    COUNTS,
    (items ?? []).map(({ id }) => ({ query: { listener_id: id } })),
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'listener')
  const missing = explainMissing(me, workspace, 'listeners:create')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Register a listener', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  const shown = items?.filter(
    listener =>
      listener.compute_id.toLowerCase().includes(name.toLowerCase()) &&
      (view === '' || (view === 'waiting') === (listener.last_seen_at === null)) &&
      (view !== 'silent' || stateOfListener(listener, now.value).word === 'Silent'),
  )
  const countOn = (listener: Listener) => counts?.[items?.indexOf(listener) ?? -1]
  const onOwn = counts?.reduce((sum, { total }) => sum + total, 0)
  const onPlatform = total && onOwn !== undefined && !hasNextPage ? total.total - onOwn : undefined
  return (
    <>
      <PageHead
        title="Listeners"
        actions={
          <CreateLink href={toAddress(NEW)} missing={missing}>
            Register listener
          </CreateLink>
        }
      />
      <Toolbar
        views={VIEWS.map(one => (
          <Chip key={one.name} pressed={one.name === view} onPress={() => setView(one.name)}>
            {one.label}
          </Chip>
        ))}
      >
        <FilterField
          label="Filter listeners by name"
          placeholder="Filter by name"
          value={name}
          onChange={setName}
          aside={items && items.length > 0 && shown && `${shown.length} of ${items.length}`}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <Stack>
        <ListCard>
          {!items && !error && <Skeleton lines={4} />}
          {items?.length === 0 && (
            <Empty
              title="No listeners of your own"
              command="slipway listeners create my-server"
              action={!missing && <ButtonLink href={toAddress(NEW)}>Register a listener</ButtonLink>}
            >
              A listener is a machine or a cluster of yours where deployments run. Register one, and start an agent
              there with its key.
            </Empty>
          )}
          {items && items.length > 0 && shown?.length === 0 && (
            <Empty
              title="No listener matches"
              action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all listeners</Button>}
            >
              The filter is in the address, so a link to it shows the same.
            </Empty>
          )}
          {shown && shown.length > 0 && (
            <Table
              caption="Listeners, newest first"
              tableRef={table}
              columns={[
                { label: 'Listener', width: '32%' },
                { label: 'State', width: '26%' },
                { label: 'Serves' },
                { label: 'Last heard', width: '104', isEnd: true },
              ]}
            >
              {shown.map(listener => {
                const count = countOn(listener)
                return (
                  <Row key={listener.id}>
                    <Cell icon={<Icon name="listener" />} detail={describeType(listener)}>
                      <Link to={`/listeners/${listener.id}`} data-row class={rowLink}>
                        {listener.compute_id}
                      </Link>
                    </Cell>
                    <Cell detail={listener.version ? `Version ${listener.version}` : 'Never heard'}>
                      <StateLabel state={stateOfListener(listener, now.value)} />
                    </Cell>
                    <Cell isWideOnly>{count ? describeCount(count.total, count.has_more) : '…'}</Cell>
                    <Cell isEnd>{listener.last_seen_at ? <Ago time={listener.last_seen_at} /> : 'never'}</Cell>
                  </Row>
                )
              })}
            </Table>
          )}
        </ListCard>
        {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
        <Card
          title="The listeners of the platform"
          aside={onPlatform !== undefined && describeCount(onPlatform, total?.has_more)}
        >
          <Body>
            <Note>
              Deployments that name no listener run there. The operator of this installation registers them for all
              workspaces, so they are not in this list, though the history names them: <code>npm run dev</code> starts
              one with the name “local”. This command registers another:
            </Note>
            <CommandLine command="npm run bootstrap -- --organization NAME --platform-listener NAME" />
          </Body>
        </Card>
      </Stack>
    </>
  )
}

const describeCount = (count: number, hasMore = false): string =>
  count === 0 ? 'No deployments' : count === 1 ? '1 deployment' : `${count}${hasMore ? '+' : ''} deployments`
