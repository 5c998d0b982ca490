// The tracing projects of the workspace: how much each of them does, how fast, and how often it fails.
import { useRef } from 'preact/hooks'
import { type ArrayRoute, useOffsetPages } from '../../api/offset-pages.ts'
import { useRowKeys } from '../../commands/commands.ts'
import { formatCost, formatCount, formatLatency, formatShare } from '../../format/amount.ts'
import { Button } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { ListCard, PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { SortButton } from '../../parts/sort-button.tsx'
import { Cell, type Column, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import FirstTrace from './first-trace.tsx'
import type { Project } from './project.ts'
import { type Span, useSpan } from './since.ts'
import { SpanPicker } from './span-picker.tsx'
import styles from './traces.module.css'

const READ_EVERY_MS = 15_000
const ROUTE = 'GET /sessions' satisfies ArrayRoute
const VIEWS = [
  { name: '', label: 'Projects', query: { reference_free: true } },
  { name: 'errors', label: 'With errors', query: { reference_free: true, filter: 'gt(error_rate, 0)' } },
  { name: 'experiments', label: 'Experiments', query: { reference_free: false } },
] as const

const SORTS = ['last_run_start_time', 'name', 'runs_count', 'error_rate', 'latency_p50', 'latency_p99'] as const
type Sort = (typeof SORTS)[number]
const STATISTICS = [
  'run_count',
  'error_rate',
  'latency_p50',
  'latency_p99',
  'total_tokens',
  'total_cost',
  'last_run_start_time',
] as const

/** `name` is ascending and `-name` descending. */
function useSort(): { sort: Sort; isDescending: boolean; column: (label: string, by: Sort) => Column } {
  const [text, setText] = useFilter('sort')
  const sort = SORTS.find(one => one === text.replace(/^-/, '')) ?? SORTS[0]
  const isDescending = text === '' || text.startsWith('-')
  return {
    sort,
    isDescending,
    column: (label, by) => {
      const sorted = by === sort ? (isDescending ? 'descending' : 'ascending') : undefined
      const onSort = () => {
        const next = by === sort ? !isDescending : by !== 'name'
        setText(by === SORTS[0] && next ? '' : `${next ? '-' : ''}${by}`)
      }
      const head = (
        <SortButton sorted={sorted} onSort={onSort}>
          {label}
        </SortButton>
      )
      return { label, sorted, head }
    },
  }
}

export default function ProjectList({ workspace }: ScreenProps) {
  useCrumbs({ label: 'Traces' })
  const [name, setName] = useFilter('name')
  const [viewName, setView] = useFilter('view')
  const view = VIEWS.find(one => one.name === viewName) ?? VIEWS[0]
  const { span, from } = useSpan()
  const { sort, isDescending, column } = useSort()
  const query = {
    include_stats: true,
    stats_start_time: from,
    stats_select: [...STATISTICS],
    sort_by: sort,
    sort_by_desc: isDescending,
    ...view.query,
    ...(name && { name_contains: name }),
  }
  const { items, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = useOffsetPages(
    workspace,
    ROUTE,
    { query },
    { everyMs: READ_EVERY_MS },
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'project')
  const isFiltered = name !== '' || view !== VIEWS[0]
  return (
    <>
      <PageHead
        title="Traces"
        actions={<SpanPicker />}
        meta={[`Traces of the applications in this workspace in the last ${span.label}.`]}
      />
      <Toolbar
        views={VIEWS.map(one => (
          <Chip key={one.name} pressed={one === view} onPress={() => setView(one.name)}>
            {one.label}
          </Chip>
        ))}
      >
        <FilterField
          label="Filter projects by name"
          placeholder="Filter by name"
          value={name}
          onChange={setName}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={6} />}
        {items?.length === 0 && !isFiltered && <FirstTrace workspace={workspace} />}
        {items?.length === 0 && isFiltered && (
          <Empty
            title="No project matches"
            action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all projects</Button>}
          >
            {view.name === 'experiments' && !name
              ? 'An experiment runs an application on each example of a dataset, and stores the runs in a project.'
              : 'A link to this address has the filter.'}
          </Empty>
        )}
        {items && items.length > 0 && (
          <Table
            caption={`Tracing projects, with the traces of the last ${span.label}`}
            tableRef={table}
            isOld={isPlaceholderData}
            columns={[
              { ...column('Project', 'name'), width: '30%' },
              column('Traces', 'runs_count'),
              column('Failed', 'error_rate'),
              column('Median', 'latency_p50'),
              column('p99', 'latency_p99'),
              { label: 'Tokens' },
              { ...column('Last trace', 'last_run_start_time'), width: '120', isEnd: true },
            ]}
          >
            {items.map(project => (
              <ProjectRow key={project.id} project={project} span={span} />
            ))}
          </Table>
        )}
      </ListCard>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}

function ProjectRow({ project, span }: { project: Project; span: Span }) {
  const { id, name, run_count, error_rate, latency_p50, latency_p99, total_tokens, total_cost } = project
  const hasRun = Boolean(run_count)
  const latency = (value: number | null) => (value === null ? '–' : formatLatency(value))
  return (
    <Row>
      <Cell icon={<Icon name="spans" />} detail={<Origin project={project} />}>
        <Link to={`/traces/${id}`} data-row class={rowLink} title={name}>
          {name}
        </Link>
      </Cell>
      <Cell>
        {hasRun ? (
          <>
            {formatCount(run_count ?? 0)} <span class={styles.phoneUnit}>{run_count === 1 ? 'trace' : 'traces'}</span>
          </>
        ) : (
          <span class={styles.none}>None in {span.label}</span>
        )}
      </Cell>
      <Cell isWideOnly={!hasRun || !error_rate}>{hasRun && <ErrorRate rate={error_rate ?? 0} />}</Cell>
      <Cell isWideOnly>{hasRun && latency(latency_p50)}</Cell>
      <Cell isWideOnly>{hasRun && latency(latency_p99)}</Cell>
      <Cell isWideOnly detail={hasRun && Number(total_cost) > 0 && formatCost(total_cost ?? 0)}>
        {hasRun && (total_tokens ? formatCount(total_tokens) : '–')}
      </Cell>
      <Cell isEnd>{project.last_run_start_time ? <Ago time={project.last_run_start_time} /> : '–'}</Cell>
    </Row>
  )
}

const Origin = ({ project: { deployment_id, description, reference_dataset_id } }: { project: Project }) => {
  if (deployment_id) return <Link to={`/deployments/${deployment_id}`}>Deployment</Link>
  if (reference_dataset_id) return <Link to={`/datasets/${reference_dataset_id}`}>Experiment on a dataset</Link>
  return <>{description || 'No description'}</>
}

const ErrorRate = ({ rate }: { rate: number }) =>
  rate > 0 ? (
    <span class={styles.failed}>
      <Glyph shape="octagon" tone="bad" />
      {formatShare(rate)} <span class={styles.phoneUnit}>failed</span>
    </span>
  ) : (
    <>0 %</>
  )
