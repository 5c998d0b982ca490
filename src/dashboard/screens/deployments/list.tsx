// The deployments of the workspace, those that need attention first.
import { useMemo } from 'preact/hooks'
import { usePages, useRead } from '../../api/queries.ts'
import { describeActor, describeSource, hostOf, shortCommit } from '../../format/source.ts'
import { type Deployment, type Shape, type Summary, stateOfDeployment, type Tone } from '../../format/state.ts'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useFilter } from '../../router/links.tsx'
import { type ColumnsOf, ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import styles from './list.module.css'
import { CONDITIONS, type ListQuery, parseFilter } from './list-filter.ts'

const EmptyWorkspace = lazily(() => import('../new/empty-workspace.tsx'))
const Outcomes = lazily(() => import('./outcomes.tsx'))
const RowActions = lazily(() => import('./row-actions.tsx'))

const PAGE_SIZE = 100
type State = Summary['state']
/** In the order of the groups. */
const STATES: [State, label: string, shape: Shape, tone: Tone][] = [
  ['attention', 'Needs attention', 'triangle', 'warn'],
  ['in_flight', 'In progress', 'queued', 'busy'],
  ['serving', 'Serving', 'check', 'ok'],
  ['idle', 'Not serving', 'minus', 'idle'],
]
/** These groups are complete and first, also if the list has more pages. */
const FIRST: State[] = ['attention', 'in_flight']

const SUMMARY: ['summary'] = ['summary']
const LIST = 'GET /v2/deployments'
const COUNTS = 'GET /v2/deployment-counts'

export default function DeploymentList({ workspace }: ScreenProps) {
  const [text] = useFilter('q')
  const [view] = useFilter('view')
  const state = STATES.find(([name]) => name === view)?.[0]
  const { query, isReady, unknown, reads } = useQuery(workspace, text)
  const page = { query: { ...query, ...(state && { state }), include: SUMMARY, limit: PAGE_SIZE } }
  const pages = usePages(workspace, LIST, page, { enabled: isReady })
  const hasMore = pages.hasNextPage && state === undefined
  const firsts = FIRST.map(name =>
    useRead(workspace, LIST, { query: { ...page.query, state: name } }, { enabled: isReady && hasMore }),
  )
  const all = useRead(workspace, COUNTS, { query: {} })
  const matching = useRead(workspace, COUNTS, { query }, { enabled: isReady })
  const counts = matching.data
  const shown = counts && (state ? counts[state] : counts.total)
  const [condition, value] = unknown?.split(/:(.*)/s) ?? []
  const values = condition && CONDITIONS[condition as keyof typeof CONDITIONS]
  return (
    <ResourceList<Deployment>
      title="Deployments"
      thing="deployment"
      caption="Deployments, those that need attention first"
      query={{
        ...pages,
        items:
          pages.items && mergeRows(pages.items, hasMore ? firsts.flatMap(({ data }) => data?.resources ?? []) : []),
      }}
      reads={[...reads, ...firsts, all, matching]}
      create={{ label: 'New deployment', to: '/new', key: 'C' }}
      filter={{
        param: 'q',
        by: 'name or condition',
        placeholder: `Name, or ${Object.keys(CONDITIONS)
          .map(name => `${name}:`)
          .join(' ')}`,
        aside: shown !== undefined && all.data && countText(shown, all.data, text !== '' || state !== undefined),
      }}
      allLabel={<>All {counts && <b>{counts.total}</b>}</>}
      views={STATES.map(([name, label, shape, tone]) => ({
        name,
        label: (
          <>
            <Glyph shape={shape} tone={counts?.[name] ? tone : 'idle'} />
            {label} {counts && <b>{counts[name]}</b>}
          </>
        ),
      }))}
      empty={<EmptyWorkspace workspace={workspace} />}
      noMatch={
        unknown
          ? {
              title: `There is no ${condition} “${value}”`,
              text:
                values && values.length > 0
                  ? `The ${condition} can be ${values.join(', ')}.`
                  : 'A link to this address has the filter.',
            }
          : undefined
      }
      groups={STATES.map(([name, label]) => ({
        label,
        count: counts?.[name],
        has: ({ summary }) => summary?.state === name,
      }))}
      columns={COLUMNS}
      quick={deployment => <RowActions deployment={deployment} />}
      isSteady
      isEager
    />
  )
}

/** The ids of the tag and the listener that the filter names are read first. */
function useQuery(workspace: string, text: string) {
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
  const query: ListQuery = {
    ...parsed.query,
    ...(listener && listenerId && { listener_id: listenerId }),
    ...(value && valueId && { tag_value_ids: [valueId] }),
  }
  return {
    query,
    isReady: isListenerKnown && isTagKnown && unknown === undefined,
    unknown,
    reads: [listeners, keys, values],
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

const COLUMNS: ColumnsOf<Deployment> = [
  {
    label: 'Deployment',
    width: '26%',
    icon: deployment => {
      const { kind, kindWord } = describeSource(deployment)
      return <Icon name={kind} label={kindWord} />
    },
    to: ({ id }) => `/deployments/${id}`,
    name: ({ name }) => name,
    detail: ({ url }) => (url ? hostOf(url) : 'No URL yet'),
  },
  {
    label: 'State',
    width: '26%',
    cell: deployment => (
      <StateLabel state={stateOfDeployment(deployment, deployment.summary?.latest_revision ?? undefined)} />
    ),
    detail: deployment => {
      const text = describeDetail(deployment, deployment.summary!)
      return <span title={text}>{text}</span>
    },
  },
  { label: 'Serving', isWideOnly: true, cell: describeServing, detail: describeServingSince },
  {
    label: 'Last deploys',
    width: '96',
    isWideOnly: true,
    cell: ({ summary }) => (
      <div class={styles.outcomes}>
        <Outcomes revisions={summary!.recent_revisions} />
      </div>
    ),
  },
  { label: 'Changed', width: '112', isEnd: true, cell: ({ updated_at }) => <Ago time={updated_at} /> },
]

function describeServing(deployment: Deployment) {
  const serving = deployment.summary?.serving_revision
  if (!serving) return <span class={styles.none}>Not serving</span>
  const source = describeSource(deployment)
  const title = serving.commit?.title ?? source.version ?? source.name
  return (
    <span class={styles.serving} title={title}>
      <b>r{serving.number}</b> {serving.commit && <code>{shortCommit(serving.commit.sha)}</code>} {title}
    </span>
  )
}

function describeServingSince({ created_at, summary }: Deployment) {
  const serving = summary?.serving_revision
  return serving ? (
    <>
      <Ago time={serving.since} suffix=" ago" /> by {describeActor(serving.actor)}
    </>
  ) : (
    <>
      Created <Ago time={created_at} suffix=" ago" />
    </>
  )
}

/** A row is a line of text, without the backticks of code. */
const toLine = (text: string): string => text.split('\n', 1)[0]!.replaceAll('`', '')

function describeDetail(
  { health, hold, preview }: Deployment,
  { latest_revision: latest, ...summary }: Summary,
): string {
  if (!latest) return 'No revision yet'
  if (health?.reason) return toLine(health.reason)
  const before = summary.in_flight_revision
  if (before && before.id !== latest.id) return `r${latest.number} is queued behind r${before.number}`
  if (latest.status_message && latest.status !== 'DEPLOYED')
    return toLine(`r${latest.number}: ${latest.status_message}`)
  if (latest.status !== 'DEPLOYED') return `r${latest.number} by ${describeActor(latest.actor)}`
  if (hold) return 'Rolled back, pushes do not deploy'
  return preview ? `Preview of #${preview.number}, ${preview.branch}` : 'The latest revision'
}
