// The deployments of the workspace: those that need a person first.
import { useEffect, useRef } from 'preact/hooks'
import type { CallOptions } from '../../api/client.ts'
import { usePages, useReadEach } from '../../api/queries.ts'
import { useRowKeys } from '../../commands/commands.ts'
import { describeSource, hostOf } from '../../format/source.ts'
import {
  type Deployment,
  type Group,
  groupOf,
  type Revision,
  type State,
  stateOfDeployment,
} from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screens.tsx'
import styles from './list.module.css'

const PAGE_SIZE = 100
type Query = Pick<NonNullable<CallOptions<'GET /v2/deployments'>['query']>, 'remote_reconciled' | 'status'>
type View = { name: string; label: string; query: Query }
const VIEWS: View[] = [
  { name: '', label: 'All', query: {} },
  { name: 'changing', label: 'Changing', query: { remote_reconciled: false } },
  { name: 'unused', label: 'Unused', query: { status: ['UNUSED'] } },
  { name: 'unknown', label: 'State unknown', query: { status: ['UNKNOWN'] } },
]
const GROUPS: [Group, string][] = [
  ['attention', 'Needs attention'],
  ['in flight', 'On its way'],
  ['serving', 'Serving'],
  ['idle', 'Not serving'],
]

type Row = { deployment: Deployment; latest: Revision | undefined; state: State }

export default function DeploymentList({ workspace }: ScreenProps) {
  useCrumbs({ label: 'Deployments' })
  const [name, setName] = useFilter('name')
  const [view, setView] = useFilter('view')
  const { query } = VIEWS.find(one => one.name === view) ?? VIEWS[0]!
  const filters = { limit: PAGE_SIZE, ...(name && { name_contains: name }), ...query }
  const { items, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/deployments',
    { query: filters },
  )
  const rows = useRows(workspace, items ?? [])
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'deployment')

  const isFiltered = name !== '' || view !== ''
  const count = items && `${items.length}${hasNextPage ? '+' : ''} ${items.length === 1 ? 'deployment' : 'deployments'}`
  return (
    <>
      <h1 class={styles.title}>Deployments</h1>
      <div class={styles.filters}>
        <FilterField
          label="Filter deployments by name"
          placeholder="Filter by name"
          value={name}
          onChange={setName}
          aside={count}
          hint="/"
        />
        <div class={styles.views}>
          {VIEWS.map(one => (
            <Chip key={one.name} pressed={one.name === view} onPress={() => setView(one.name)}>
              {one.label}
            </Chip>
          ))}
        </div>
      </div>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <div class={`${styles.card} ${isPlaceholderData ? styles.old : ''}`}>
        {!items && !error && <Skeleton lines={8} />}
        {items?.length === 0 && (isFiltered ? <NoMatch /> : <First />)}
        {rows.length > 0 && (
          <table class={styles.table} ref={table}>
            <caption class={styles.unseen}>Deployments, those that need attention first</caption>
            <colgroup>
              <col class={styles.nameColumn} />
              <col class={styles.stateColumn} />
              <col />
              <col class={styles.ageColumn} />
            </colgroup>
            <thead>
              <tr>
                <th scope="col">Deployment</th>
                <th scope="col">State</th>
                <th scope="col">Source</th>
                <th scope="col" class={styles.age}>
                  Changed
                </th>
              </tr>
            </thead>
            {GROUPS.map(([group, label]) => (
              <GroupRows key={group} label={label} rows={rows.filter(({ state }) => groupOf(state) === group)} />
            ))}
          </table>
        )}
      </div>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}

/** The latest revision is read for those where it does not serve. */
function useRows(workspace: string, items: Deployment[]): Row[] {
  const unsettled = items.filter(({ serving, latest_revision_id }) => serving !== 'current' && latest_revision_id)
  const { data: latest = [] } = useReadEach(
    workspace,
    'GET /v2/deployments/{deployment_id}/revisions/{revision_id}',
    unsettled.map(({ id, latest_revision_id }) => ({
      params: { deployment_id: id, revision_id: latest_revision_id! },
    })),
  )
  const revisions = new Map(latest.map(revision => [revision.deployment_id, revision]))
  return items.map(deployment => {
    const revision = deployment.serving === 'current' ? undefined : revisions.get(deployment.id)
    return { deployment, latest: revision, state: stateOfDeployment(deployment, revision) }
  })
}

const GroupRows = ({ label, rows }: { label: string; rows: Row[] }) =>
  rows.length === 0 ? null : (
    <tbody>
      <tr class={styles.group}>
        <th colSpan={4} scope="colgroup">
          {label} <b>{rows.length}</b>
        </th>
      </tr>
      {rows.map(row => (
        <DeploymentRow key={row.deployment.id} {...row} />
      ))}
    </tbody>
  )

function DeploymentRow({ deployment, latest, state }: Row) {
  const { id, name, url, preview, updated_at } = deployment
  const source = describeSource(deployment)
  return (
    <tr class={styles.row}>
      <td>
        <div class={styles.name}>
          <Icon name={source.kind} label={source.kindWord} />
          <Link to={`/deployments/${id}`} data-row class={styles.link}>
            {name}
          </Link>
          <span class={styles.detail}>{url ? <a href={url}>{hostOf(url)}</a> : 'No URL yet'}</span>
        </div>
      </td>
      <td>
        <StateLabel state={state} />
        <p class={`${styles.detail} ${styles.why}`}>{describeDetail(deployment, latest)}</p>
      </td>
      <td>
        <p class={styles.cut}>{source.name}</p>
        <p class={styles.detail}>
          {preview
            ? `Preview of pull request ${preview.number}, ${preview.branch}`
            : (source.version ?? source.kindWord)}
        </p>
      </td>
      <td class={styles.age}>
        <Ago time={updated_at} />
      </td>
    </tr>
  )
}

function describeDetail({ serving, hold }: Deployment, latest: Revision | undefined): string {
  if (latest) {
    const keeps = serving === 'previous' ? 'the one before serves' : 'nothing serves'
    return `r${latest.number}: ${latest.status_message ?? keeps}`
  }
  if (hold) return 'Rolled back, pushes wait'
  if (serving === 'current') return 'The latest revision'
  return serving === 'previous' ? 'The revision before the latest' : 'No revision'
}

const First = () => (
  <Empty title="No deployments yet" command="npx slipway deploy">
    A deployment is an application with a URL. Run this in the folder of one, or deploy a template with one request of
    the API.
  </Empty>
)

const NoMatch = () => (
  <Empty
    title="No deployment matches"
    action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all deployments</Button>}
  >
    The filter is in the address, so a link to it shows the same.
  </Empty>
)

/** Reads the next page when its place comes into view. */
function More({ isBusy, onMore }: { isBusy: boolean; onMore: () => void }) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && !isBusy && onMore(), {
      rootMargin: '400px',
    })
    observer.observe(place.current!)
    return () => observer.disconnect()
  }, [isBusy])
  return (
    <div ref={place} class={styles.more}>
      <Button busy={isBusy} onClick={onMore}>
        Show more
      </Button>
    </div>
  )
}
