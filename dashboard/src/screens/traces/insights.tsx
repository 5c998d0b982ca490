// The insights jobs of a tracing project: what people ask of the application, and how it goes.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Me } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { plural } from '../../format/amount.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CreateLink, ListCard } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screens.tsx'
import { describeProgress, describeUsage, isLexical, isOpen, type ListedJob, stateOfJob } from './insight-state.ts'
import type { Project } from './project.ts'
import { ProjectFrame } from './project-frame.tsx'
import styles from './traces.module.css'

/** A job has no events. */
const READ_EVERY_MS = 5000
const SHOWN = 100

export default function InsightsPage({ workspace, params, me }: ScreenProps<{ project: string }>) {
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="/insights">
      {project => <Jobs workspace={workspace} project={project} me={me} />}
    </ProjectFrame>
  )
}

function Jobs({ workspace, project, me }: { workspace: string; project: Project; me: Me }) {
  const to = `/traces/${project.id}/insights`
  const [, navigate] = useLocation()
  const { data, error, refetch } = useRead(
    workspace,
    'GET /sessions/{session_id}/insights',
    { params: { session_id: project.id }, query: { limit: SHOWN } },
    { everyMs: READ_EVERY_MS },
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'job')
  const missing = explainMissing(me, workspace, 'rules:create')
  const start = () => navigate(toAddress(`${to}/new`))
  useCommands(missing ? [] : [{ id: 'new', label: 'Start an insights job', kind: 'action', keys: 'n', run: start }])
  const jobs = data?.clustering_jobs
  if (error && !jobs) return <Problem error={error} onRetry={() => void refetch()} />
  return (
    <>
      <div class={styles.bar}>
        <p>A job reads up to a thousand traces, and sorts them by what they are about.</p>
        <CreateLink href={toAddress(`${to}/new`)} missing={missing}>
          Start job
        </CreateLink>
      </div>
      <ListCard>
        {!jobs && <Skeleton lines={4} />}
        {jobs?.length === 0 && (
          <Empty
            title="No insights yet"
            action={!missing && <ButtonLink href={toAddress(`${to}/new`)}>Start a job</ButtonLink>}
          >
            What do people ask, and where does it go wrong? A model of yours summarizes each trace and names what they
            have in common. Without a model, traces are grouped by their words.
          </Empty>
        )}
        {jobs && jobs.length > 0 && (
          <Table
            caption={`Insights of ${project.name}, newest first`}
            tableRef={table}
            columns={[
              { label: 'Job' },
              { label: 'State', width: '24%' },
              { label: 'Used', width: '24%' },
              { label: 'Started', width: '92', isEnd: true },
            ]}
          >
            {jobs.map(job => (
              <Row key={job.id}>
                <Cell icon={<Icon name="spark" />} detail={describeShape(job)}>
                  <Link to={`${to}/${job.id}`} data-row class={rowLink} title={job.name}>
                    {job.name}
                  </Link>
                </Cell>
                <Cell detail={isOpen(job) ? describeProgress(job) : job.error}>
                  <StateLabel state={stateOfJob(job)} />
                </Cell>
                <Cell isWideOnly>{isLexical(job) ? 'No model' : (describeUsage(job) ?? '–')}</Cell>
                <Cell isEnd>
                  <Ago time={job.created_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
    </>
  )
}

function describeShape({ shape }: ListedJob): string | undefined {
  const counts = Object.values(shape ?? {})
  return counts.length > 0 ? plural(Math.max(...counts), 'cluster') : undefined
}
