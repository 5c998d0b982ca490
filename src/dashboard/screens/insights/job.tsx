// A job of insights: its report, its clusters on all levels, and the runs of the one that is chosen.
import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { formatCount, formatLatency, formatShare, plural } from '../../format/amount.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Chip } from '../../parts/field.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Foot, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { type Cluster, deleteJob, type JobDetails, type JobRun } from './actions.ts'
import {
  type ClusterNode,
  describeMethod,
  describeProgress,
  isLexical,
  isOpen,
  stateOfJob,
  toTree,
} from './insight-state.ts'
import styles from './insights.module.css'

const READ_EVERY_MS = 2000
const PAGE = 20

export default function JobPage({ workspace, params }: ScreenProps<{ project: string; job: string }>) {
  const { project } = params
  const ref = { session_id: project, job_id: params.job }
  const to = `/traces/${project}`
  const {
    data: job,
    error,
    refetch,
  } = useRead(
    workspace,
    'GET /sessions/{session_id}/insights/{job_id}',
    { params: ref },
    {
      everyMs: last => (last && isOpen(last) ? READ_EVERY_MS : false),
    },
  )
  const { data: found } = useRead(workspace, 'GET /sessions/{session_id}', { params: { session_id: project } })
  const [cluster, setCluster] = useFilter('cluster')
  const [, navigate] = useLocation()
  useCrumbs(
    { label: 'Traces', to: '/traces' },
    { label: found?.name ?? '…', to },
    { label: 'Insights', to: `${to}/insights` },
    { label: job?.name ?? '…' },
  )
  if (isMissing(error))
    return (
      <Empty
        title="Job not found"
        action={<ButtonLink href={toAddress(`${to}/insights`)}>Open the insights</ButtonLink>}
      >
        The job was deleted, or it belongs to another project.
      </Empty>
    )
  if (error && !job) return <Problem error={error} onRetry={() => void refetch()} />
  if (!job) return <Skeleton lines={9} />
  const chosen = job.clusters.find(({ id }) => id === cluster)
  return (
    <>
      <PageHead
        title={job.name}
        state={<StateLabel state={stateOfJob(job)} large />}
        meta={[describeMethod(job), describeProgress(job), <Ago time={job.created_at} suffix=" ago" />]}
      />
      <Stack>
        {job.error && (
          <Card title="Error" tone="bad">
            <Body>
              <p>{job.error}</p>
            </Body>
          </Card>
        )}
        {job.report && <Report job={job} report={job.report} project={project} onChoose={setCluster} />}
        {job.clusters.length > 0 && <Clusters job={job} chosen={cluster} onChoose={setCluster} />}
        {job.status === 'success' && job.clusters.length === 0 && (
          <Empty title="No traces matched">No trace of that period matches the filter of the job.</Empty>
        )}
        {job.clusters.length > 0 && (
          <Runs
            key={cluster}
            workspace={workspace}
            project={project}
            job_id={job.id}
            chosen={chosen}
            onChoose={setCluster}
          />
        )}
      </Stack>
      <Foot>
        <p>
          Id <code>{job.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteJob(project, job)}
          onDone={() => navigate(toAddress(`${to}/insights`))}
        />
      </Foot>
    </>
  )
}

type ReportProps = {
  job: JobDetails
  report: NonNullable<JobDetails['report']>
  project: string
  onChoose: (cluster: string) => void
}
const Report = ({ report, project, onChoose }: ReportProps) => (
  <Card title={report.title ?? 'Report'} aside="Written by the model">
    <Body>
      <ul class={styles.points}>
        {report.key_points.map(point => (
          <li key={point}>{point}</li>
        ))}
      </ul>
      {report.highlighted_traces.length > 0 && (
        <>
          <h3 class={styles.subtitle}>Notable traces</h3>
          <ol class={styles.points}>
            {report.highlighted_traces.map(({ run_id, highlight_reason, cluster_id, cluster_name }) => (
              <li key={run_id}>
                <Link to={`/traces/${project}/${run_id}`}>{highlight_reason}</Link>{' '}
                {cluster_id && (
                  <Chip pressed={false} onPress={() => onChoose(cluster_id)}>
                    {cluster_name}
                  </Chip>
                )}
              </li>
            ))}
          </ol>
        </>
      )}
    </Body>
  </Card>
)

type ClustersProps = { job: JobDetails; chosen: string; onChoose: (cluster: string) => void }
function Clusters({ job, chosen, onChoose }: ClustersProps) {
  const tops = toTree(job.clusters)
  const total = tops.reduce((sum, { num_runs }) => sum + num_runs, 0)
  return (
    <Card title="Clusters" aside={plural(total, 'trace')}>
      <Body>
        {isLexical(job) && (
          <Note>Grouped by shared words, without a model. Each cluster is named by its most significant words.</Note>
        )}
        <ClusterList nodes={tops} total={total} chosen={chosen} onChoose={onChoose} />
      </Body>
    </Card>
  )
}

type ListProps = { nodes: ClusterNode[]; total: number; chosen: string; onChoose: (cluster: string) => void }
const ClusterList = ({ nodes, total, chosen, onChoose }: ListProps) => (
  <ul class={styles.clusters}>
    {nodes.map(node => (
      <li key={node.id}>
        <button
          type="button"
          class={styles.cluster}
          aria-pressed={node.id === chosen}
          onClick={() => onChoose(node.id === chosen ? '' : node.id)}
        >
          <span class={styles.name}>{node.name}</span>
          <span class={styles.count}>
            {formatCount(node.num_runs)} · {formatShare(total === 0 ? 0 : node.num_runs / total)}
          </span>
          <meter class={styles.meter} min={0} max={Math.max(1, total)} value={node.num_runs} aria-hidden="true" />
          <span class={styles.about}>{[node.description, describeStats(node)].filter(Boolean).join(' ')}</span>
        </button>
        {node.children.length > 0 && (
          <ClusterList nodes={node.children} total={total} chosen={chosen} onChoose={onChoose} />
        )}
      </li>
    ))}
  </ul>
)

function describeStats({ stats }: Cluster): string {
  const { error_rate, latency_p50 } = (stats ?? {}) as { error_rate?: number; latency_p50?: number | null }
  return [
    error_rate ? `${formatShare(error_rate)} failed.` : '',
    latency_p50 != null ? `Median ${formatLatency(latency_p50)}.` : '',
  ]
    .filter(Boolean)
    .join(' ')
}

type RunsProps = {
  workspace: string
  project: string
  job_id: string
  chosen: Cluster | undefined
  onChoose: (cluster: string) => void
}
function Runs({ workspace, project, job_id, chosen, onChoose }: RunsProps) {
  const [offset, setOffset] = useState(0)
  const [shown, setShown] = useState<JobRun[]>([])
  const { data, error, refetch, isFetching } = useRead(workspace, 'GET /sessions/{session_id}/insights/{job_id}/runs', {
    params: { session_id: project, job_id },
    query: { limit: PAGE, offset, ...(chosen && { cluster_id: chosen.id }) },
  })
  useEffect(() => {
    if (data && !isFetching) setShown(before => [...before.slice(0, offset), ...data.runs])
  }, [data, isFetching, offset])
  return (
    <Card
      title={chosen ? chosen.name : 'All traces'}
      aside={
        chosen && (
          <Chip pressed onPress={() => onChoose('')}>
            Show all ×
          </Chip>
        )
      }
    >
      {error && shown.length === 0 && <Problem error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeleton lines={4} />}
      {shown.length > 0 && (
        <Table
          caption={`Traces of ${chosen ? chosen.name : 'the job'}`}
          columns={[
            { label: 'Trace' },
            { label: 'Cluster', width: '30%' },
            { label: 'Started', width: '96', isEnd: true },
          ]}
        >
          {shown.map(run => (
            <Row key={run.id}>
              <Cell detail={run.summary ? String(run.inputs_preview ?? '') : String(run.outputs_preview ?? '')}>
                <Link to={`/traces/${project}/${run.id}`} data-row class={rowLink}>
                  {run.summary || String(run.inputs_preview ?? '') || String(run.name ?? 'An expired trace')}
                </Link>
              </Cell>
              <Cell isWideOnly>{run.cluster_name ?? '–'}</Cell>
              <Cell isEnd>{typeof run.start_time === 'string' ? <Ago time={run.start_time} /> : '–'}</Cell>
            </Row>
          ))}
        </Table>
      )}
      {data?.offset != null && <More isBusy={isFetching} onMore={() => setOffset(data.offset!)} />}
    </Card>
  )
}
