// The runs of a tracing project, filtered by what stands in the address.
import { useMemo, useRef } from 'preact/hooks'
import { listFaults } from '../../api/faults.ts'
import { useRead } from '../../api/queries.ts'
import { type Run, type RunQuery, useRunPages, useRunQuery } from '../../api/runs.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { plural } from '../../format/amount.ts'
import { Button } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { ListCard } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { More } from '../../parts/table.tsx'
import { setFilters, useFilter } from '../../router/links.tsx'
import type { Project } from './project.ts'
import { allOf, CONDITIONS, parseRunFilter } from './run-filter.ts'
import { RUN_TYPES, type RunType, TYPE_WORDS } from './run-state.ts'
import { ROW_SELECT, RunTable } from './run-table.tsx'
import styles from './runs.module.css'
import { useSpan } from './since.ts'

const FilterEditor = lazily(() => import('./filter-editor.tsx'))
const FirstTrace = lazily(() => import('./first-trace.tsx'))

const NEW_EVERY_MS = 10_000
const MAX_NEW = 100
const STATUSES = [
  { name: '', label: 'All' },
  { name: 'success', label: 'Succeeded', shape: 'check', tone: 'ok' },
  { name: 'error', label: 'Failed', shape: 'octagon', tone: 'bad' },
  { name: 'pending', label: 'Running', shape: 'arc', tone: 'busy' },
] as const

/** Turns the address into a query of the API. */
function useShownRuns({ id }: Project) {
  const [text] = useFilter('q')
  const [status] = useFilter('status')
  const [type] = useFilter('type')
  const [scope] = useFilter('scope')
  const [filter] = useFilter('filter')
  const { span, from } = useSpan()
  const known = STATUSES.find(({ name }) => name !== '' && name === status)?.name ?? ''
  const parsed = useMemo(() => parseRunFilter(text), [text])
  const query: RunQuery = useMemo(() => {
    const searched = allOf([...(parsed.filter ? [parsed.filter] : []), ...(known ? [`eq(status, "${known}")`] : [])])
    return {
      session: [id],
      start_time: from,
      select: [...ROW_SELECT],
      skip_prev_cursor: true,
      ...(scope !== 'all' && { is_root: true }),
      ...(RUN_TYPES.some(one => one === type) && { run_type: type as RunType }),
      ...(filter && { filter }),
      ...(searched && { search_filter: searched }),
    }
  }, [id, from, scope, type, parsed.filter, filter, known])
  return { text, status: known, type, scope, filter, span, query, parsed }
}

/** From the address: a command keeps what it was registered with. */
function toggleScope(): void {
  const isAll = new URLSearchParams(location.search).get('scope') === 'all'
  setFilters({ scope: isAll ? '' : 'all' })
}

const NO_FILTERS = { q: '', status: '', type: '', scope: '', filter: '' }

export function Runs({ workspace, project }: { workspace: string; project: Project }) {
  const { text, status, type, scope, filter, span, query, parsed } = useShownRuns(project)
  const { items, error, isPartial, isPlaceholderData, isFetching, refetch, ...pages } = useRunPages(workspace, query)
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages
  const [editor, setEditor] = useFilter('editor')
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'run')
  useCommands([
    { id: 'all-runs', label: 'Show all runs, or only traces', kind: 'action', keys: 'a', run: toggleScope },
    { id: 'refresh', label: 'Show new runs', kind: 'action', keys: '.', run: () => void refetch() },
  ])
  const isFiltered = [text, status, type, filter].some(Boolean)
  const fault = listFaults(error ?? undefined).get('filter')
  const showsEditor = editor !== '' || filter !== ''
  return (
    <>
      <div class={styles.filters}>
        <FilterField
          label="Filter runs"
          placeholder={`Words, or ${Object.keys(CONDITIONS)
            .map(name => `${name}:`)
            .join(' ')}`}
          value={text}
          onChange={q => setFilters({ q })}
          hint="/"
        />
        <div class={styles.views}>
          {STATUSES.map(one => (
            <Chip
              key={one.name}
              pressed={one.name === status}
              onPress={() => setFilters({ status: one.name === status ? '' : one.name })}
            >
              {'shape' in one && <Glyph shape={one.shape} tone={one.tone} />}
              {one.label}
            </Chip>
          ))}
        </div>
        <div class={styles.scope}>
          <Chip pressed={scope !== 'all'} onPress={() => setFilters({ scope: '' })}>
            Traces
          </Chip>
          <Chip pressed={scope === 'all'} onPress={() => setFilters({ scope: 'all' })}>
            All runs
          </Chip>
          <label class={styles.type}>
            <span>Type</span>
            <select value={type} onChange={({ currentTarget }) => setFilters({ type: currentTarget.value })}>
              <option value="">Any type</option>
              {RUN_TYPES.map(name => (
                <option key={name} value={name}>
                  {TYPE_WORDS[name]}
                </option>
              ))}
            </select>
          </label>
          <Chip pressed={showsEditor} onPress={() => setEditor(showsEditor ? '' : 'open')}>
            Filter language
          </Chip>
        </div>
        <New workspace={workspace} query={query} newest={items?.[0]} known={items} onShow={() => void refetch()} />
      </div>
      {showsEditor && (
        <FilterEditor
          value={filter}
          fault={fault}
          typed={parsed.filter}
          onApply={next => setFilters({ filter: next, editor: next ? '' : 'open' })}
          onClose={() => setFilters({ filter: '', editor: '' })}
        />
      )}
      {parsed.unknown && <Unknown condition={parsed.unknown} />}
      {isPartial && (
        <p class={styles.partial} role="status">
          Only the beginning or preview of errors, inputs and outputs over 32 KB was searched.
        </p>
      )}
      {error && !fault && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={8} />}
        {fault && (
          <Empty
            title="The filter cannot be read"
            action={<Button onClick={() => setFilters({ filter: '' })}>Remove the filter</Button>}
          >
            Correct the filter above to see the runs.
          </Empty>
        )}
        {!fault && items?.length === 0 && !isFetching && (
          <NoRuns
            workspace={workspace}
            project={project}
            isFiltered={isFiltered}
            hasMore={hasNextPage}
            label={span.label}
          />
        )}
        {!fault && items && items.length > 0 && (
          <RunTable
            runs={items}
            tableRef={table}
            isOld={isPlaceholderData}
            caption={`${scope === 'all' ? 'Runs' : 'Traces'} of ${project.name}, newest first`}
          />
        )}
      </ListCard>
      {hasNextPage && !fault && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}

const Unknown = ({ condition }: { condition: string }) => {
  const name = condition.slice(0, condition.indexOf(':')) as keyof typeof CONDITIONS
  return (
    <p class={styles.unknown} role="status">
      <Glyph shape="triangle" tone="warn" />
      <span>
        <code>{condition}</code> is ignored. Expected form: <code>{CONDITIONS[name]}</code>.
      </span>
    </p>
  )
}

type NoRunsProps = { workspace: string; project: Project; isFiltered: boolean; hasMore: boolean; label: string }
function NoRuns({ workspace, project, isFiltered, hasMore, label }: NoRunsProps) {
  if (isFiltered)
    return (
      <Empty
        title={hasMore ? 'No run matches so far' : 'No run matches'}
        action={<Button onClick={() => setFilters(NO_FILTERS)}>Show all runs</Button>}
      >
        {hasMore
          ? 'The newest runs were searched. Older ones may match: show more.'
          : `No run of the last ${label} matches. A link to this address has the filter.`}
      </Empty>
    )
  return <NoRunsInSpan workspace={workspace} project={project} label={label} />
}

/** Counts of traces stay when traces expire, so they say whether there was ever one. */
function NoRunsInSpan({ workspace, project, label }: Pick<NoRunsProps, 'workspace' | 'project' | 'label'>) {
  const { data, error } = useRead(workspace, 'GET /sessions/{session_id}', {
    params: { session_id: project.id },
    query: { include_stats: true },
  })
  if (!data && !error) return <Skeleton lines={4} />
  if (data && !data.run_count) return <FirstTrace workspace={workspace} project={project} />
  const isAll = label === '400 days'
  return (
    <Empty
      title={`No runs in the last ${label}`}
      action={!isAll && <Button onClick={() => setFilters({ span: '400d' })}>Show 400 days</Button>}
    >
      {project.trace_tier === 'longlived'
        ? 'Older runs exist.'
        : 'Traces of this project are kept for 14 days. Their counts and charts stay.'}
    </Empty>
  )
}

type NewProps = {
  workspace: string
  query: RunQuery
  newest: Run | undefined
  known: Run[] | undefined
  onShow: () => void
}
/** Counts the runs that have started since the table was read. The table changes only when a person asks for it. */
function New({ workspace, query, newest, known, onShow }: NewProps) {
  const since = newest?.start_time
  const { data } = useRunQuery(
    workspace,
    { ...query, select: ['id'], limit: MAX_NEW, ...(since && { start_time: since }) },
    { enabled: known !== undefined, everyMs: NEW_EVERY_MS },
  )
  const ids = new Set(known?.map(({ id }) => id))
  const count = data?.runs.filter(({ id }) => !ids.has(id)).length ?? 0
  return (
    <div class={styles.new} role="status">
      {count > 0 && (
        <Button small icon="up" onClick={onShow}>
          {count === MAX_NEW ? `${MAX_NEW} or more new` : plural(count, 'new run')}
        </Button>
      )}
    </div>
  )
}
