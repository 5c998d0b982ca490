// The deployments of the workspace: those that need a person first.
import { signal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { usePages, useRead } from '../../api/queries.ts'
import { useRowKeys } from '../../commands/commands.ts'
import { describeActor, describeSource, hostOf, shortCommit } from '../../format/source.ts'
import { type Deployment, type Shape, type Summary, stateOfDeployment, type Tone } from '../../format/state.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { ROLES } from '../../parts/table-roles.ts'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import styles from './list.module.css'
import { CONDITIONS, type ListQuery, parseFilter } from './list-filter.ts'
import { Outcomes } from './outcomes.tsx'

const EmptyWorkspace = lazily(() => import('../new/empty-workspace.tsx'))
const RowActions = lazily(() => import('./row-actions.tsx'))

const PAGE_SIZE = 100
type State = Summary['state']
/** In the order of the groups. */
const STATES: [State, label: string, shape: Shape, tone: Tone][] = [
  ['attention', 'Needs attention', 'triangle', 'warn'],
  ['in_flight', 'On its way', 'queued', 'busy'],
  ['serving', 'Serving', 'check', 'ok'],
  ['idle', 'Not serving', 'minus', 'idle'],
]
/** They are first also where the list has more pages. */
const FIRST: State[] = ['attention', 'in_flight']

const SUMMARY: ['summary'] = ['summary']
const LIST = 'GET /v2/deployments'
const COUNTS = 'GET /v2/deployment-counts'

export default function DeploymentList({ workspace }: ScreenProps) {
  useCrumbs({ label: 'Deployments' })
  const [text, setText] = useFilter('q')
  const [view, setView] = useFilter('view')
  const state = STATES.find(([name]) => name === view)?.[0]
  const { query, isReady, unknown } = useQuery(workspace, text)
  const page = { query: { ...query, ...(state && { state }), include: SUMMARY, limit: PAGE_SIZE } }
  const { items, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = usePages(
    workspace,
    LIST,
    page,
    { enabled: isReady },
  )
  const firsts = FIRST.map(
    name =>
      useRead(
        workspace,
        LIST,
        { query: { ...page.query, state: name } },
        { enabled: isReady && hasNextPage && state === undefined },
      ).data,
  )
  const all = useRead(workspace, COUNTS, { query: {} })
  const { data: counts } = useRead(workspace, COUNTS, { query }, { enabled: isReady })
  const rows = mergeRows(
    items ?? [],
    hasNextPage && state === undefined ? firsts.flatMap(first => first?.resources ?? []) : [],
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'deployment')

  const hasNoMatch = unknown !== undefined || items?.length === 0
  const shown = counts && (state ? counts[state] : counts.total)
  return (
    <>
      <header class={styles.title}>
        <h1>Deployments</h1>
        <ButtonLink href={toAddress('/new')} look="primary" icon="plus" hint="C">
          New deployment
        </ButtonLink>
      </header>
      <div class={styles.filters}>
        <FilterField
          label="Filter deployments"
          placeholder={`Name, or ${Object.keys(CONDITIONS)
            .map(name => `${name}:`)
            .join(' ')}`}
          value={text}
          onChange={setText}
          aside={shown !== undefined && all.data && countText(shown, all.data, text !== '' || state !== undefined)}
          hint="/"
        />
        <div class={styles.views}>
          <Chip pressed={state === undefined} onPress={() => setView('')}>
            All {counts && <b>{counts.total}</b>}
          </Chip>
          {STATES.map(([name, label, shape, tone]) => (
            <Chip key={name} pressed={name === state} onPress={() => setView(name === state ? '' : name)}>
              <Glyph shape={shape} tone={counts?.[name] ? tone : 'idle'} />
              {label} {counts && <b>{counts[name]}</b>}
            </Chip>
          ))}
        </div>
      </div>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <div class={`${styles.card} ${isPlaceholderData ? styles.old : ''}`}>
        {!items && !error && !unknown && <Skeleton lines={8} />}
        {hasNoMatch &&
          (text || state ? (
            <NoMatch unknown={unknown} others={all.data?.total} />
          ) : (
            <EmptyWorkspace workspace={workspace} />
          ))}
        {rows.length > 0 && !unknown && (
          <table class={styles.table} ref={table} {...ROLES.table}>
            <caption class={styles.unseen}>Deployments, those that need attention first</caption>
            <colgroup>
              <col class={styles.nameColumn} />
              <col class={styles.stateColumn} />
              <col />
              <col class={styles.outcomesColumn} />
              <col class={styles.ageColumn} />
            </colgroup>
            <thead>
              <tr>
                <th scope="col">Deployment</th>
                <th scope="col">State</th>
                <th scope="col">Serving</th>
                <th scope="col">Last deploys</th>
                <th scope="col" class={styles.age}>
                  Changed
                </th>
              </tr>
            </thead>
            {STATES.map(([name, label]) => (
              <GroupRows
                key={name}
                label={label}
                count={counts?.[name]}
                rows={rows.filter(({ summary }) => summary?.state === name)}
              />
            ))}
          </table>
        )}
      </div>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}

/** The ids of the tag and the listener that the filter names are read first. */
function useQuery(
  workspace: string,
  text: string,
): { query: ListQuery; isReady: boolean; unknown: string | undefined } {
  const parsed = useMemo(() => parseFilter(text), [text])
  const { tag, listener } = parsed
  const [key = '', value = ''] = tag?.split(/=(.*)/s) ?? []
  const byName = (name: string) => ({ query: { name } })
  const listeners = useRead(workspace, 'GET /v2/listeners', byName(listener ?? ''), { enabled: listener !== undefined })
  const keys = useRead(workspace, 'GET /v2/tag-keys', byName(key), { enabled: value !== '' })
  const keyId = keys.data?.resources.find(one => one.key === key)?.id
  const values = useRead(
    workspace,
    'GET /v2/tag-keys/{tag_key_id}/values',
    { params: { tag_key_id: keyId ?? '' }, ...byName(value) },
    { enabled: keyId !== undefined && value !== '' },
  )
  const listenerId = listeners.data?.resources.find(one => one.compute_id === listener)?.id
  const valueId = values.data?.resources.find(one => one.value === value)?.id
  const isListenerKnown = !listener || listenerId !== undefined
  const isTagKnown = !value || valueId !== undefined
  const isTagMissing = !isTagKnown && ((keys.isSuccess && !keyId) || values.isSuccess)
  const unknown =
    parsed.unknown ??
    (!isListenerKnown && listeners.isSuccess ? `listener:${listener}` : isTagMissing ? `tag:${tag}` : undefined)
  return {
    query: {
      ...parsed.query,
      ...(listener && listenerId && { listener_id: listenerId }),
      ...(value && valueId && { tag_value_ids: [valueId] }),
    },
    isReady: isListenerKnown && isTagKnown && unknown === undefined,
    unknown,
  }
}

/** Each once, newest first. */
function mergeRows(items: Deployment[], firsts: Deployment[]): Deployment[] {
  if (firsts.length === 0) return items
  const known = new Set(items.map(({ id }) => id))
  return [...items, ...firsts.filter(({ id }) => !known.has(id))]
}

type Counts = { total: number; has_more: boolean }
function countText(shown: number, all: Counts, isFiltered: boolean): string {
  const total = `${all.has_more ? 'more than ' : ''}${all.total.toLocaleString('en')}`
  if (isFiltered) return `${shown.toLocaleString('en')} of ${total}`
  return `${total} ${all.total === 1 ? 'deployment' : 'deployments'}`
}

const activeRow = signal<string | undefined>(undefined)

type GroupProps = { label: string; count: number | undefined; rows: Deployment[] }
const GroupRows = ({ label, count, rows }: GroupProps) =>
  rows.length === 0 ? null : (
    <tbody {...ROLES.group}>
      <tr class={styles.group} {...ROLES.row}>
        <th colSpan={5} scope="colgroup" {...ROLES.header}>
          {label} <b>{count ?? rows.length}</b>
        </th>
      </tr>
      {rows.map(deployment => (
        <DeploymentRow key={deployment.id} deployment={deployment} />
      ))}
    </tbody>
  )

/** Drawn again only if its deployment has changed. */
const DeploymentRow = ({ deployment }: { deployment: Deployment }) =>
  useMemo(() => <RowContent deployment={deployment} summary={deployment.summary!} />, [deployment])

function RowContent({ deployment, summary }: { deployment: Deployment; summary: Summary }) {
  const { id, name, url, updated_at } = deployment
  const source = describeSource(deployment)
  const state = stateOfDeployment(deployment, summary.latest_revision ?? undefined)
  const detail = describeDetail(deployment, summary)
  const activate = () => {
    activeRow.value = id
  }
  return (
    <tr class={styles.row} onMouseEnter={activate} onFocusCapture={activate} {...ROLES.row}>
      <td {...ROLES.cell}>
        <div class={styles.name}>
          <Icon name={source.kind} label={source.kindWord} />
          <Link to={`/deployments/${id}`} data-row class={styles.link} title={name}>
            {name}
          </Link>
          <span class={styles.detail}>{url ? hostOf(url) : 'No URL yet'}</span>
        </div>
      </td>
      <td {...ROLES.cell}>
        <StateLabel state={state} />
        <p class={`${styles.detail} ${styles.why}`} title={detail}>
          {detail}
        </p>
      </td>
      <td {...ROLES.cell}>
        <ServingRevision deployment={deployment} summary={summary} />
      </td>
      <td {...ROLES.cell}>
        <Outcomes revisions={summary.recent_revisions} />
      </td>
      <td class={styles.age} {...ROLES.cell}>
        <Ago time={updated_at} />
        <ActiveActions deployment={deployment} />
      </td>
    </tr>
  )
}

const ActiveActions = ({ deployment }: { deployment: Deployment }) =>
  activeRow.value === deployment.id ? (
    <div class={styles.actions}>
      <RowActions deployment={deployment} />
    </div>
  ) : null

function ServingRevision({ deployment, summary }: { deployment: Deployment; summary: Summary }) {
  const { serving_revision: serving } = summary
  const source = describeSource(deployment)
  if (!serving)
    return (
      <>
        <p class={styles.none}>Nothing serves</p>
        <p class={styles.detail}>
          Created <Ago time={deployment.created_at} suffix=" ago" />
        </p>
      </>
    )
  const title = serving.commit?.title ?? source.version ?? source.name
  return (
    <>
      <p class={styles.cut} title={title}>
        <b>r{serving.number}</b> {serving.commit && <code>{shortCommit(serving.commit.sha)}</code>} {title}
      </p>
      <p class={styles.detail}>
        <Ago time={serving.since} suffix=" ago" /> by {describeActor(serving.actor)}
      </p>
    </>
  )
}

function describeDetail({ hold, preview }: Deployment, { latest_revision: latest, ...summary }: Summary): string {
  if (!latest) return 'No revision yet'
  const before = summary.in_flight_revision
  if (before && before.id !== latest.id) return `r${latest.number} waits behind r${before.number}`
  // Backticks mark code. A row is a line of text.
  if (latest.status_message && latest.status !== 'DEPLOYED')
    return `r${latest.number}: ${latest.status_message.replaceAll('`', '')}`
  if (latest.status !== 'DEPLOYED') return `r${latest.number} by ${describeActor(latest.actor)}`
  if (summary.healthy === false) return 'Its health check fails'
  if (hold) return 'Rolled back, pushes wait'
  return preview ? `Preview of #${preview.number}, ${preview.branch}` : 'The latest revision'
}

function NoMatch({ unknown, others }: { unknown: string | undefined; others: number | undefined }) {
  const [condition, value] = unknown?.split(/:(.*)/s) ?? []
  const values = condition && CONDITIONS[condition as keyof typeof CONDITIONS]
  return (
    <Empty
      title={unknown ? `There is no ${condition} “${value}”` : 'No deployment matches'}
      action={
        <Button onClick={() => setFilters({ q: '', view: '' })}>
          {others === undefined ? 'Show all deployments' : `Show all ${others} deployments`}
        </Button>
      }
    >
      {values && values.length > 0
        ? `It can be ${values.join(', ')}.`
        : 'The filter is in the address, so a link to it shows the same.'}
    </Empty>
  )
}

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
