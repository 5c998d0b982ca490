// Insights of a tracing project: its jobs, a form for another one, and saved configs with their schedules.
import { useRef } from 'preact/hooks'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { formatExact } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Icon } from '../../parts/icon.tsx'
import { ListCard, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import type { Project } from '../traces/project.ts'
import { ProjectFrame } from '../traces/project-frame.tsx'
import { type Config, deleteConfig, type Job, startConfig } from './actions.ts'
import { describeMethod, describeProgress, isOpen, stateOfJob } from './insight-state.ts'
import styles from './insights.module.css'
import { JobForm } from './job-form.tsx'

/** Jobs have no events. */
const READ_EVERY_MS = 15_000
const READ_OPEN_EVERY_MS = 2000

export default function InsightsPage({ workspace, params, me }: ScreenProps<{ project: string }>) {
  const missing = explainMissing(me, workspace, 'rules:create')
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="/insights">
      {project => <Insights workspace={workspace} project={project} missing={missing} />}
    </ProjectFrame>
  )
}

type Props = { workspace: string; project: Project; missing: string | undefined }
function Insights({ workspace, project, missing }: Props) {
  const [open, setOpen] = useFilter('open')
  const { data, error, refetch } = useRead(
    workspace,
    'GET /sessions/{session_id}/insights',
    { params: { session_id: project.id }, query: { limit: 100 } },
    { everyMs: last => (last?.clustering_jobs.some(isOpen) ? READ_OPEN_EVERY_MS : READ_EVERY_MS) },
  )
  useCommands(
    missing ? [] : [{ id: 'new', label: 'Start insights', kind: 'action', keys: 'n', run: () => setOpen('new') }],
  )
  const jobs = data?.clustering_jobs
  const isFormOpen = open === 'new' && !missing
  return (
    <Stack>
      {isFormOpen ? (
        <JobForm workspace={workspace} project={project.id} onClose={() => setOpen('')} />
      ) : (
        <div class={styles.bar}>
          <p>Clusters of similar traces in this project.</p>
          <Button look="primary" icon="plus" unavailable={missing} onClick={() => setOpen('new')}>
            New insights
          </Button>
        </div>
      )}
      {error && !jobs && <Problem error={error} onRetry={() => void refetch()} />}
      {!jobs && !error && <Skeleton lines={4} />}
      {jobs?.length === 0 && !isFormOpen && (
        <Empty title="No insights yet">
          A job groups up to 1,000 traces into clusters. With a model it also writes summaries and a report. Without a
          model it groups traces by shared words.
        </Empty>
      )}
      {jobs && jobs.length > 0 && <Jobs project={project} jobs={jobs} />}
      <Configs workspace={workspace} project={project.id} />
    </Stack>
  )
}

function Jobs({ project, jobs }: { project: Project; jobs: Job[] }) {
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'job')
  return (
    <ListCard>
      <Table
        caption={`Insights jobs of ${project.name}, newest first`}
        tableRef={table}
        columns={[
          { label: 'Job', width: '34%' },
          { label: 'State', width: '128' },
          { label: 'Progress' },
          { label: 'Started', width: '96', isEnd: true },
        ]}
      >
        {jobs.map(job => (
          <Row key={job.id}>
            <Cell icon={<Icon name="grid" />} detail={describeMethod(job)}>
              <Link to={`/traces/${project.id}/insights/${job.id}`} data-row class={rowLink} title={job.name}>
                {job.name}
              </Link>
            </Cell>
            <Cell>
              <StateLabel state={stateOfJob(job)} />
            </Cell>
            <Cell isWideOnly detail={job.error}>
              {describeProgress(job)}
            </Cell>
            <Cell isEnd>
              <Ago time={job.created_at} />
            </Cell>
          </Row>
        ))}
      </Table>
    </ListCard>
  )
}

function Configs({ workspace, project }: { workspace: string; project: string }) {
  const { data } = useRead(workspace, 'GET /sessions/{session_id}/insights/configs', {
    params: { session_id: project },
    query: {},
  })
  if (!data || data.configs.length === 0) return null
  return (
    <Card title="Configs" aside="Schedules are in UTC">
      <Table
        caption="Saved configs, newest first"
        columns={[
          { label: 'Config', width: '34%' },
          { label: 'Schedule' },
          { label: 'Actions', width: '260', isEnd: true },
        ]}
      >
        {data.configs.map(config => (
          <Row key={config.id}>
            <Cell detail={config.description || describeMethod({ metadata: methodOf(config) })}>{config.name}</Cell>
            <Cell
              detail={config.schedule_note ?? (config.next_start_at && `Next ${formatExact(config.next_start_at)}`)}
            >
              {config.schedule_cron ? <code>{config.schedule_cron}</code> : 'None'}
            </Cell>
            <Cell isEnd>
              <span class={styles.actions}>
                <ActionButton
                  small
                  action={startConfig(project, config)}
                  onDone={() => void readAgain('/sessions/{session_id}/insights')}
                />
                <ActionButton small look="bare" action={deleteConfig(project, config)} />
              </span>
            </Cell>
          </Row>
        ))}
      </Table>
    </Card>
  )
}

const methodOf = ({ config }: Config) => ({
  method: config.model === 'none' ? 'lexical' : 'model',
  model: config.model ?? 'openai',
})
