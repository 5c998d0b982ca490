// The frame of all pages of a tracing project: heading, totals of the chosen time, and tabs.
import type { ComponentChildren } from 'preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { formatCost, formatCount, formatLatency, formatShare } from '../../format/amount.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import { Tabs } from '../tabs.tsx'
import type { Project } from './project.ts'
import { useSpan } from './since.ts'
import { SpanPicker } from './span-picker.tsx'
import styles from './traces.module.css'

const READ_EVERY_MS = 15_000
const TABS = [
  { path: '', label: 'Runs', keys: 'r' },
  { path: '/charts', label: 'Charts', keys: 'm' },
  { path: '/threads', label: 'Threads', keys: 't' },
  { path: '/feedback', label: 'Feedback', keys: 'f' },
  { path: '/insights', label: 'Insights', keys: 'i' },
] as const

type FrameProps = {
  workspace: string
  id: string
  tab: (typeof TABS)[number]['path']
  children: (project: Project) => ComponentChildren
}

export function ProjectFrame({ workspace, id, tab, children }: FrameProps) {
  const { span, from } = useSpan()
  const options = { params: { session_id: id }, query: { include_stats: true, stats_start_time: from } }
  const {
    data: project,
    error,
    refetch,
  } = useRead(workspace, 'GET /sessions/{session_id}', options, { everyMs: READ_EVERY_MS })
  const to = `/traces/${id}`
  const label = TABS.find(({ path }) => path === tab && path !== '')?.label
  useCrumbs(
    { label: 'Traces', to: '/traces' },
    { label: project?.name ?? '…', ...(label && { to }) },
    ...(label ? [{ label }] : []),
  )
  if (isMissing(error))
    return (
      <Empty title="Project not found" action={<ButtonLink href={toAddress('/traces')}>Open the projects</ButtonLink>}>
        The project was deleted, or it is in another workspace.
      </Empty>
    )
  if (error && !project) return <Problem error={error} onRetry={() => void refetch()} />
  if (!project) return <Skeleton lines={9} />
  return (
    <>
      <PageHead
        title={project.name}
        actions={<SpanPicker />}
        meta={[<Origin project={project} />, ...factsOf(project)]}
      />
      <Tabs
        label="Project"
        thing="this project"
        tabs={TABS}
        to={to}
        tab={tab}
        search={span.name && `?span=${span.name}`}
      />
      {children(project)}
    </>
  )
}

const Origin = ({ project }: { project: Project }) => {
  const { deployment_id, reference_dataset_id, trace_tier } = project
  return (
    <>
      {deployment_id && (
        <>
          <Icon name="cube" />
          <Link to={`/deployments/${deployment_id}`}>Deployment</Link>
        </>
      )}
      {reference_dataset_id && (
        <>
          <Icon name="stack" />
          <Link to={`/datasets/${reference_dataset_id}`}>Dataset</Link>
        </>
      )}
      <span>Kept {trace_tier === 'longlived' ? `${project.longlived_ttl_days ?? 400} days` : '14 days'}</span>
    </>
  )
}

function factsOf(project: Project): ComponentChildren[] {
  const { run_count, error_rate, latency_p50, latency_p99, total_tokens, total_cost } = project
  if (!run_count) return []
  return [
    <span>
      <b>{formatCount(run_count)}</b> {run_count === 1 ? 'trace' : 'traces'}
    </span>,
    error_rate ? (
      <span class={styles.failed}>
        <Glyph shape="octagon" tone="bad" />
        <span>
          <b>{formatShare(error_rate)}</b> failed
        </span>
      </span>
    ) : (
      'No failures'
    ),
    latency_p50 !== null && (
      <span>
        Median <b>{formatLatency(latency_p50)}</b>
        {latency_p99 !== null && (
          <>
            , p99 <b>{formatLatency(latency_p99)}</b>
          </>
        )}
      </span>
    ),
    total_tokens ? (
      <span>
        <b>{formatCount(total_tokens)}</b> tokens
        {Number(total_cost) > 0 && (
          <>
            , <b>{formatCost(total_cost ?? 0)}</b>
          </>
        )}
      </span>
    ) : null,
  ]
}
