// An insights job: its report, its clusters, and the traces of one of them.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { useRowKeys } from '../../commands/commands.ts'
import { formatCount, formatLatency, formatShare, plural } from '../../format/amount.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Body, Foot, ListCard, PageHead, Stack } from '../../parts/page.tsx'
import { Card, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screens.tsx'
import { deleteInsights } from './insight-actions.ts'
import { ClusterRuns } from './insight-runs.tsx'
import {
  describeProgress,
  describeUsage,
  type InsightJob,
  inTreeOrder,
  isLexical,
  isOpen,
  type PlacedCluster,
  stateOfJob,
  statsOf,
} from './insight-state.ts'
import styles from './insights.module.css'
import { ProjectFrame } from './project-frame.tsx'

const READ_EVERY_MS = 3000

export default function InsightJobPage({ workspace, params }: ScreenProps<{ project: string; job: string }>) {
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="/insights">
      {project => <Job workspace={workspace} project={project.id} id={params.job} />}
    </ProjectFrame>
  )
}

type JobProps = { workspace: string; project: string; id: string }
function Job({ workspace, project, id }: JobProps) {
  const to = `/traces/${project}/insights`
  const [, navigate] = useLocation()
  const options = { params: { session_id: project, job_id: id } }
  const { data, error, refetch } = useRead(workspace, 'GET /sessions/{session_id}/insights/{job_id}', options, {
    everyMs: READ_EVERY_MS,
  })
  if (isMissing(error))
    return (
      <Empty title="This job is gone" action={<ButtonLink href={toAddress(to)}>Open the insights</ButtonLink>}>
        It was deleted, or it is of another project.
      </Empty>
    )
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={9} />
  return (
    <>
      <PageHead
        title={data.name}
        state={<StateLabel state={stateOfJob(data)} large />}
        meta={[
          isOpen(data) && <span>{describeProgress(data)}</span>,
          isLexical(data) ? 'Grouped by words, without a model' : describeUsage(data),
        ]}
      />
      <Stack>
        {data.error && (
          <Card title="It ended without a result" tone="bad">
            <Body>{data.error}</Body>
          </Card>
        )}
        {data.report && <Report report={data.report} to={to} job={id} />}
        <Clusters workspace={workspace} project={project} job={data} />
      </Stack>
      <Foot>
        <p>
          Started <Ago time={data.created_at} suffix=" ago" />. Id <code>{data.id}</code>
        </p>
        <ActionButton small look="bare" action={deleteInsights(project, data)} onDone={() => navigate(toAddress(to))} />
      </Foot>
    </>
  )
}

type ReportProps = { report: NonNullable<InsightJob['report']>; to: string; job: string }
const Report = ({ report: { title, key_points, highlighted_traces }, to, job }: ReportProps) => (
  <Card title={title ?? 'Report'}>
    <Body>
      <ul class={styles.points}>
        {key_points.map((point, i) => (
          <li key={i}>{point}</li>
        ))}
      </ul>
      {highlighted_traces.length > 0 && (
        <>
          <h3 class={styles.heading}>Worth a look</h3>
          <ul class={styles.points}>
            {highlighted_traces.map(({ run_id, cluster_id, cluster_name, highlight_reason, summary }) => (
              <li key={run_id}>
                <Link to={`/traces/run/${run_id}`} class={styles.link}>
                  {summary || 'A trace'}
                </Link>{' '}
                {highlight_reason} {cluster_id && <Link to={`${to}/${job}?cluster=${cluster_id}`}>{cluster_name}</Link>}
              </li>
            ))}
          </ul>
        </>
      )}
    </Body>
  </Card>
)

function Clusters({ workspace, project, job }: { workspace: string; project: string; job: InsightJob }) {
  const [chosen] = useFilter('cluster')
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'cluster')
  const clusters = inTreeOrder(job.clusters)
  const total = clusters.filter(({ depth }) => depth === 0).reduce((sum, { num_runs }) => sum + num_runs, 0)
  const cluster = clusters.find(({ id }) => id === chosen)
  if (clusters.length === 0)
    return isOpen(job) ? (
      <Card title="Clusters">
        <Body>They come once all traces are read.</Body>
      </Card>
    ) : job.error ? null : (
      <Empty title="No trace was selected">Choose a longer time, or another filter.</Empty>
    )
  return (
    <>
      <ListCard>
        <Table
          caption={`Clusters of ${plural(total, 'trace')}, the biggest first`}
          tableRef={table}
          columns={[
            { label: 'Cluster' },
            { label: 'Traces', width: '104' },
            { label: 'Failed', width: '84' },
            { label: 'Median', width: '92' },
            { label: 'Feedback', width: '132', isEnd: true },
          ]}
        >
          {clusters.map(one => (
            <ClusterRow
              key={one.id}
              cluster={one}
              total={total}
              to={`/traces/${project}/insights/${job.id}?cluster=${one.id}`}
            />
          ))}
        </Table>
      </ListCard>
      {cluster && <ClusterRuns workspace={workspace} project={project} job={job.id} cluster={cluster} />}
    </>
  )
}

function ClusterRow({ cluster, total, to }: { cluster: PlacedCluster; total: number; to: string }) {
  const { name, description, num_runs, depth } = cluster
  const { error_rate, latency_p50, feedback_stats } = statsOf(cluster)
  const [feedback] = Object.entries(feedback_stats ?? {})
  const place = styles[`depth${Math.min(depth, 3)}`]
  return (
    <Row>
      <Cell detail={<span class={place}>{description}</span>}>
        <span class={place}>
          <Link to={to} data-row class={rowLink} title={name}>
            {name}
          </Link>
        </span>
      </Cell>
      <Cell detail={formatShare(num_runs / total)}>{formatCount(num_runs)}</Cell>
      <Cell isWideOnly>{error_rate === undefined ? '–' : formatShare(error_rate)}</Cell>
      <Cell isWideOnly>{latency_p50 == null ? '–' : formatLatency(latency_p50)}</Cell>
      <Cell isWideOnly isEnd detail={feedback && `${feedback[1].n} times`}>
        {feedback ? `${feedback[0]} ${feedback[1].avg === null ? '' : Number(feedback[1].avg.toFixed(2))}` : '–'}
      </Cell>
    </Row>
  )
}
