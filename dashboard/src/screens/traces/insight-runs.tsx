// The traces of a cluster, with what the job says of each.
import { useRead } from '../../api/queries.ts'
import type { Run } from '../../api/runs.ts'
import { plural } from '../../format/amount.ts'
import { Glyph } from '../../parts/icon.tsx'
import { ListCard } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import type { Cluster } from './insight-state.ts'
import { runPath } from './run-path.ts'
import { stateOfRun } from './run-state.ts'
import runStyles from './runs.module.css'

const SHOWN = 100

type Props = { workspace: string; project: string; job: string; cluster: Cluster }
export function ClusterRuns({ workspace, project, job, cluster }: Props) {
  const { data, error, refetch } = useRead(workspace, 'GET /sessions/{session_id}/insights/{job_id}/runs', {
    params: { session_id: project, job_id: job },
    query: { cluster_id: cluster.id, limit: SHOWN },
  })
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={4} />
  const runs = data.runs as ((typeof data.runs)[number] & Run)[]
  const rest = cluster.num_runs - runs.length
  return (
    <ListCard>
      {runs.length === 0 ? (
        <Empty title="No trace of this cluster is left">They were deleted, or have expired.</Empty>
      ) : (
        <Table
          caption={
            data.offset === null
              ? `Traces of ${cluster.name}`
              : `Traces of ${cluster.name}, without ${plural(rest, 'more')}`
          }
          columns={[
            { label: 'What happened' },
            { label: 'Attributes', width: '26%' },
            { label: 'Began', width: '92', isEnd: true },
          ]}
        >
          {runs.map(run => {
            const state = stateOfRun(run)
            return (
              <Row key={run.id}>
                <Cell
                  icon={
                    <span class={runStyles.glyph}>
                      <Glyph shape={state.shape} tone={state.tone} />
                    </span>
                  }
                  detail={run.summary ? run.inputs_preview || run.name : run.outputs_preview || run.name}
                >
                  <Link to={runPath(run)} class={rowLink}>
                    {run.summary || run.inputs_preview || run.name}
                  </Link>
                  <span class={runStyles.unseen}>{state.word}</span>
                </Cell>
                <Cell isWideOnly>{describeAttributes(run.attributes)}</Cell>
                <Cell isEnd>{run.start_time && <Ago time={run.start_time} />}</Cell>
              </Row>
            )
          })}
        </Table>
      )}
    </ListCard>
  )
}

const describeAttributes = (attributes: Record<string, unknown> | null): string =>
  Object.entries(attributes ?? {})
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}: ${value}`)
    .join(', ') || '–'
