// The jobs of a deployment, its schedules, and what a job writes.
import { useRef } from 'preact/hooks'
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { useRowKeys } from '../../commands/commands.ts'
import type { Deployment } from '../../format/state.ts'
import { formatExact, formatSeconds, formatShort } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Stack } from '../../parts/page.tsx'
import { CommandLine, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { useFilter } from '../../router/links.tsx'
import { DeploymentFrame } from '../deployments/frame.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { cancelJob, runSchedule, switchSchedule } from './actions.ts'
import { describeCommand, isOpen, type Job, type Schedule, stateOfJob } from './job-state.ts'
import { Snapshots } from './snapshots.tsx'

/** A job of a schedule has an event at its end only. */
const READ_EVERY_MS = 5_000
const PAGE_SIZE = 25
const SHOWN_LINES = 1000

type CardProps = { workspace: string; deployment: Deployment; missing: string | undefined }

export default function DeploymentJobs({ workspace, params, me }: ScreenProps<{ deployment: string }>) {
  const missing = explainMissing(me, workspace, 'deployments:change-commands')
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/jobs">
      {deployment => (
        <Stack>
          <Schedules workspace={workspace} deployment={deployment} missing={missing} />
          <Jobs workspace={workspace} deployment={deployment} missing={missing} />
          <Snapshots workspace={workspace} deployment={deployment} me={me} />
        </Stack>
      )}
    </DeploymentFrame>
  )
}

function Schedules({ workspace, deployment, missing }: CardProps) {
  const ref = { params: { deployment_id: deployment.id }, query: { limit: 100 } }
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages(
    workspace,
    'GET /v2/deployments/{deployment_id}/schedules',
    ref,
  )
  return (
    <Card title="Schedules">
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={2} />}
      {items?.length === 0 && (
        <Body>
          <Note>A schedule runs a command at the times of a cron expression.</Note>
          <CommandLine command={`slipway schedules add ${deployment.name} nightly '30 3 * * *' -- COMMAND`} />
        </Body>
      )}
      {items && items.length > 0 && (
        <Table
          caption="Schedules, newest first"
          columns={[
            { label: 'Name', width: '34%' },
            { label: 'Times', width: '22%' },
            { label: 'Next run' },
            { label: 'Change', width: '200', isEnd: true },
          ]}
        >
          {items.map(one => (
            <Row key={one.id}>
              <Cell detail={<code>{describeCommand(one)}</code>}>{one.name}</Cell>
              <Cell detail={one.time_zone}>
                <code>{one.cron}</code>
              </Cell>
              <Cell detail={`Overlap: ${one.overlap}${one.declared ? ', of the source' : ''}`}>
                <NextRun schedule={one} />
              </Cell>
              <Cell isEnd>
                <ActionButton small action={runSchedule(one, missing)} />{' '}
                <ActionButton small action={switchSchedule(one, missing)} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </Card>
  )
}

const NextRun = ({ schedule: { next_runs } }: { schedule: Schedule }) =>
  next_runs[0] ? (
    <time dateTime={next_runs[0]} title={formatExact(next_runs[0])}>
      {formatShort(next_runs[0])}
    </time>
  ) : (
    <>Disabled</>
  )

function Jobs({ workspace, deployment, missing }: CardProps) {
  const [selected, select] = useFilter('job')
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'job')
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/deployments/{deployment_id}/jobs',
    { params: { deployment_id: deployment.id }, query: { limit: PAGE_SIZE } },
    { everyMs: READ_EVERY_MS },
  )
  return (
    <Card title="Jobs">
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={4} />}
      {items?.length === 0 && (
        <Body>
          <Note>A job runs a command once, in the environment of the revision that serves.</Note>
          <CommandLine command={`slipway run ${deployment.name} -- COMMAND`} />
        </Body>
      )}
      {items && items.length > 0 && (
        <Table
          caption="Jobs, newest first"
          tableRef={table}
          columns={[
            { label: 'Command', width: '40%' },
            { label: 'State', width: '24%' },
            { label: 'By' },
            { label: 'Created', width: '96', isEnd: true },
          ]}
        >
          {items.map(one => (
            <Row key={one.id}>
              <Cell detail={one.reason ?? undefined}>
                <button type="button" data-row class={rowLink} onClick={() => select(one.id)}>
                  {describeCommand(one)}
                </button>
              </Cell>
              <Cell detail={describeDuration(one)}>
                <StateLabel state={stateOfJob(one)} />
              </Cell>
              <Cell detail={one.attempt > 1 ? `Attempt ${one.attempt}` : undefined}>
                {one.actor.name ?? one.actor.kind}
              </Cell>
              <Cell isEnd>
                <Ago time={one.created_at} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
      {selected && (
        <JobDialog
          key={selected}
          workspace={workspace}
          deployment={deployment}
          missing={missing}
          job_id={selected}
          onClose={() => select('')}
        />
      )}
    </Card>
  )
}

function describeDuration({ started_at, finished_at }: Job): string | undefined {
  if (!started_at) return undefined
  const end = finished_at ? Date.parse(finished_at) : now.value
  return formatSeconds(Math.max(0, Math.round((end - Date.parse(started_at)) / 1000)))
}

type DialogProps = CardProps & { job_id: string; onClose: () => void }
function JobDialog({ workspace, deployment, missing, job_id, onClose }: DialogProps) {
  const { data, error } = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}/jobs/{job_id}/logs',
    { params: { deployment_id: deployment.id, job_id }, query: { limit: SHOWN_LINES } },
    { everyMs: reply => (reply && !isOpen(reply.job) ? false : READ_EVERY_MS) },
  )
  const job = data?.job
  return (
    <Dialog
      title={job ? describeCommand(job) : 'Job'}
      onClose={onClose}
      footer={job && isOpen(job) && <ActionButton action={cancelJob(job, missing)} />}
    >
      {error && !data && <Problem error={error} />}
      {!data && !error && <Skeleton lines={6} height={20} />}
      {data && job && (
        <>
          <Facts
            facts={[
              ['State', <StateLabel key="state" state={stateOfJob(job)} />],
              ['Reason', job.reason],
              ['Exit code', job.exit_code],
              ['Due', job.due_at && formatExact(job.due_at)],
              ['Duration', describeDuration(job)],
            ]}
          />
          {data.logs.length > 0 && <pre>{data.logs.map(({ message }) => `${message}\n`).join('')}</pre>}
          {data.has_more && <CommandLine command={`slipway jobs ${deployment.name} ${job.id}`} />}
        </>
      )}
    </Dialog>
  )
}
