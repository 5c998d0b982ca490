// All deployments of the workspace at any time, compared with now.
import type { Item } from '../../../client/client.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { shortCommit } from '../../format/source.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Badge, StateLabel } from '../../parts/state.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { MarkList } from './deployment-history.tsx'
import styles from './history.module.css'
import { type Event, listWorkspaceMarks, MARKED_TYPES } from './marks.ts'
import { isSameSummary, type Summary, stateAtMoment } from './moment.ts'
import { TimeSlider, useMoment } from './slider.tsx'

type Listed = Item<'GET /v2/deployment-states'>
const PAGE_SIZE = 100
const SHOWN_AROUND = 5

export default function History({ workspace }: ScreenProps) {
  useCrumbs({ label: 'History' })
  const { at, text } = useMoment()
  const [name, setName] = useFilter('name')
  const [view, setView] = useFilter('view')
  const moment = text === undefined ? {} : { at: text }
  const { items, error, isPlaceholderData, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/deployment-states',
    { query: { limit: PAGE_SIZE, ...moment } },
  )
  const events = useRead(workspace, 'GET /v2/events', {
    query: { type: MARKED_TYPES, order: 'desc', limit: PAGE_SIZE },
  })
  const deleted = useRead(
    workspace,
    'GET /v2/events',
    { query: { type: ['deployment.created', 'deployment.deleted'], start_time: text ?? '', limit: PAGE_SIZE } },
    { enabled: text !== undefined },
  )
  const names = new Map((items ?? []).map(one => [one.deployment_id, one.name]))
  const marks = listWorkspaceMarks(events.data?.resources ?? [], names)
  const oldest = Math.min(...(items ?? []).map(({ created_at }) => Date.parse(created_at)))
  const first = Number.isFinite(oldest) ? oldest : (at ?? Date.now())
  const matching = (items ?? []).filter(one => one.name.includes(name.toLowerCase()))
  const shown = matching.filter(one => view !== 'different' || isDifferent(one))
  const next = marks.findIndex(mark => mark.at > (at ?? Number.POSITIVE_INFINITY))
  const place = next === -1 ? marks.length : next
  const around = marks.slice(Math.max(0, place - SHOWN_AROUND), place + SHOWN_AROUND).toReversed()
  if (items?.length === 0)
    return (
      <Empty title="No history yet" command="slipway deploy">
        The history starts with the first deployment. It shows the workspace at any time since then.
      </Empty>
    )
  return (
    <>
      <PageHead title="History" />
      <TimeSlider marks={marks} first={first} />
      <Toolbar
        views={
          <>
            <Chip pressed={view === ''} onPress={() => setView('')}>
              All
            </Chip>
            <Chip pressed={view === 'different'} onPress={() => setView('different')}>
              Different now
            </Chip>
          </>
        }
      >
        <FilterField
          label="Filter deployments by name"
          placeholder="Filter by name"
          value={name}
          onChange={setName}
          aside={items && `${shown.length} of ${items.length}${hasNextPage ? '+' : ''}`}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={8} />}
      {items && (
        <div class={`${styles.card} ${isPlaceholderData ? styles.old : ''}`}>
          {shown.length === 0 ? (
            <Empty
              title={view === 'different' ? 'No differences' : 'No deployment matches'}
              action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all deployments</Button>}
            >
              {view === 'different'
                ? 'Every deployment serves the same revision in the same state as now.'
                : 'A link to this address has the filter.'}
            </Empty>
          ) : (
            <Table items={shown} at={text} />
          )}
        </div>
      )}
      {hasNextPage && (
        <div class={styles.more}>
          <Button busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Show more deployments
          </Button>
        </div>
      )}
      <Deleted events={deleted.data?.resources ?? []} isMore={deleted.data?.has_more ?? false} />
      {around.length > 0 && (
        <Card class={styles.block} title={at === undefined ? 'The last changes' : 'Around this time'}>
          <MarkList marks={around} at={at ?? Number.POSITIVE_INFINITY} />
        </Card>
      )}
    </>
  )
}

const isDifferent = ({ past, present }: Listed): boolean => past === null || !isSameSummary(past, present)

const Table = ({ items, at }: { items: Listed[]; at: string | undefined }) => (
  <table class={styles.states}>
    <caption class={styles.unseen}>Deployments at the chosen time and now</caption>
    <thead>
      <tr>
        <th scope="col">Deployment</th>
        <th scope="col">{at === undefined ? 'State' : 'Then'}</th>
        <th scope="col">Now</th>
      </tr>
    </thead>
    <tbody>
      {items.map(item => (
        <tr key={item.deployment_id} class={isDifferent(item) ? styles.different : undefined}>
          <th scope="row">
            <Link
              class={styles.name}
              to={`/deployments/${item.deployment_id}/history${at === undefined ? '' : `?at=${at}`}`}
            >
              {item.name}
            </Link>
          </th>
          <td data-label={at === undefined ? 'State' : 'Then'}>
            {item.past ? <SummaryView summary={item.past} /> : <span class={styles.absent}>Did not exist</span>}
          </td>
          <td data-label="Now">
            {isDifferent(item) ? (
              <>
                <SummaryView summary={item.present} /> <Badge tone="warn">Different</Badge>
              </>
            ) : (
              <span class={styles.absent}>The same</span>
            )}
          </td>
        </tr>
      ))}
    </tbody>
  </table>
)

function SummaryView({ summary }: { summary: Summary }) {
  const { served } = summary
  return (
    <span class={styles.summary}>
      <StateLabel state={stateAtMoment(summary)} />
      <span class={styles.detail}>
        {served ? `r${served.number} serves` : 'not serving'}
        {served?.commit && (
          <>
            {' '}
            <code title={served.commit.message ?? undefined}>{shortCommit(served.commit.sha)}</code>
          </>
        )}
      </span>
    </span>
  )
}

/** Deployments that were deleted since then: their names are in the journal. */
function Deleted({ events, isMore }: { events: Event[]; isMore: boolean }) {
  const createdLater = new Set(events.filter(one => one.type === 'deployment.created').map(one => one.subject.id))
  const names = events
    .filter(one => one.type === 'deployment.deleted' && !createdLater.has(one.subject.id))
    .map(one => String(one.changes.find(({ path }) => path === 'name')?.before ?? one.subject.id))
  if (names.length === 0) return null
  return (
    <p class={styles.deleted}>
      Deleted since then: {names.join(', ')}
      {isMore && ', and possibly more'}. Their revisions were deleted with them.
    </p>
  )
}
