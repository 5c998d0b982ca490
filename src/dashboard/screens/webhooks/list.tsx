// The webhooks of the workspace: URLs that its events are sent to.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CreateLink, ListCard, PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { stateOfWebhook, type Webhook } from './webhook-state.ts'

const NEW = '/webhooks/new'
/** The first failure has no event. */
const READ_EVERY_MS = 15_000
const VIEWS = [
  { name: '', label: 'All' },
  { name: 'attention', label: 'Needs attention' },
  { name: 'paused', label: 'Paused' },
] as const

const isIn = (view: string, webhook: Webhook): boolean => {
  const { tone, word } = stateOfWebhook(webhook)
  return view === '' || (view === 'paused' ? word === 'Paused' : tone === 'bad' || tone === 'warn')
}

export default function WebhookList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Webhooks' })
  const [name, setName] = useFilter('name')
  const [view, setView] = useFilter('view')
  const [, navigate] = useLocation()
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/webhooks',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS },
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'webhook')
  const missing = explainMissing(me, workspace, 'webhooks:manage')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Create a webhook', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  const words = name.toLowerCase()
  const shown = items?.filter(
    one =>
      [one.url, one.description, ...one.event_types].some(text => text.toLowerCase().includes(words)) &&
      isIn(view, one),
  )
  return (
    <>
      <PageHead
        title="Webhooks"
        actions={
          <CreateLink href={toAddress(NEW)} missing={missing}>
            Create webhook
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
          label="Filter webhooks by URL, description or type of event"
          placeholder="Filter by URL, description or type"
          value={name}
          onChange={setName}
          aside={items && items.length > 0 && shown && `${shown.length} of ${items.length}`}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={4} />}
        {items?.length === 0 && (
          <Empty
            title="No webhooks yet"
            command="slipway webhooks create https://ci.example.com/slipway --type 'revision.*'"
            action={!missing && <ButtonLink href={toAddress(NEW)}>Create a webhook</ButtonLink>}
          >
            A webhook sends the events of this workspace to a URL of yours, signed, and again until it is received.
          </Empty>
        )}
        {items && items.length > 0 && shown?.length === 0 && (
          <Empty
            title="No webhook matches"
            action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all webhooks</Button>}
          >
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption="Webhooks, newest first"
            tableRef={table}
            columns={[
              { label: 'URL', width: '40%' },
              { label: 'Health', width: '24%' },
              { label: 'Events' },
              { label: 'Created', width: '96', isEnd: true },
            ]}
          >
            {shown.map(webhook => (
              <Row key={webhook.id}>
                <Cell icon={<Icon name="hook" />} detail={webhook.description || 'No description'}>
                  <Link to={`/webhooks/${webhook.id}`} data-row class={rowLink} title={webhook.url}>
                    {webhook.url}
                  </Link>
                </Cell>
                <Cell detail={<Since webhook={webhook} />}>
                  <StateLabel state={stateOfWebhook(webhook)} />
                </Cell>
                <Cell isWideOnly detail={describeFilter(webhook)}>
                  <code title={webhook.event_types.join(', ')}>{webhook.event_types.join(', ')}</code>
                </Cell>
                <Cell isEnd>
                  <Ago time={webhook.created_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}

const Since = ({ webhook: { health } }: { webhook: Webhook }) => {
  const since = health.disabled_at ?? health.failing_since
  return since ? (
    <>
      Since{' '}
      <time dateTime={since} title={formatExact(since)}>
        {formatShort(since)}
      </time>
    </>
  ) : null
}

function describeFilter({ deployment_ids, tag_value_ids }: Webhook): string {
  const parts = [
    deployment_ids.length > 0 &&
      `${deployment_ids.length} ${deployment_ids.length === 1 ? 'deployment' : 'deployments'}`,
    tag_value_ids.length > 0 && `${tag_value_ids.length} ${tag_value_ids.length === 1 ? 'tag' : 'tags'}`,
  ].filter(Boolean)
  return parts.length > 0 ? `Only of ${parts.join(' and ')}` : 'Of the whole workspace'
}
