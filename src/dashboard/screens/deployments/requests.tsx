// The tab of requests: the newest that the router told of, and which ones it tells of.
import { useState } from 'preact/hooks'
import { type Action, request } from '../../api/actions.ts'
import type { Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import type { Deployment } from '../../format/state.ts'
import { formatClock, formatExact } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { Fields, SelectField, unlessChanged } from '../../parts/form.tsx'
import { Stack } from '../../parts/page.tsx'
import { CommandLine, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Link } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { DeploymentFrame } from './frame.tsx'
import styles from './settings.module.css'

type Line = Reply<'GET /v2/deployments/{deployment_id}/logs'>['logs'][number]
type Mode = Deployment['request_logs']['mode']

/** Lines have no event. */
const READ_EVERY_MS = 5_000
const SHOWN_REQUESTS = 200

export default function DeploymentRequests({ workspace, params, me }: ScreenProps<{ deployment: string }>) {
  const missing = explainMissing(me, workspace, 'deployments:update')
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/requests">
      {deployment => (
        <Stack>
          <Requests workspace={workspace} deployment={deployment} />
          <RequestLogs key={deployment.request_logs.mode} deployment={deployment} missing={missing} />
        </Stack>
      )}
    </DeploymentFrame>
  )
}

function Requests({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const { data, error, refetch } = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}/logs',
    {
      params: { deployment_id: deployment.id },
      query: { kind: 'request', tail: SHOWN_REQUESTS, limit: SHOWN_REQUESTS },
    },
    { everyMs: READ_EVERY_MS },
  )
  const lines = data?.logs.toReversed()
  return (
    <Card title="Requests">
      {error && !lines && <Problem error={error} onRetry={() => void refetch()} />}
      {!lines && !error && <Skeleton lines={5} />}
      {lines?.length === 0 && (
        <Body>
          <Note>No request is logged yet. A request is shown some seconds after its answer is over.</Note>
          <CommandLine command={`slipway logs ${deployment.name} --requests --follow`} />
        </Body>
      )}
      {lines && lines.length > 0 && (
        <Table
          caption="Requests, newest first"
          columns={[
            { label: 'Time', width: '110' },
            { label: 'Request' },
            { label: 'Status', width: '90' },
            { label: 'Duration', width: '120', isEnd: true },
            { label: 'Trace', width: '90', isEnd: true },
          ]}
        >
          {lines.map(line => (
            <RequestRow key={line.id} line={line} isTraced={deployment.source_config.tracing !== false} />
          ))}
        </Table>
      )}
    </Card>
  )
}

function RequestRow({ line, isTraced }: { line: Line; isTraced: boolean }) {
  const { method, path, host, status, duration_ms, first_byte_ms, trace_id } = line.attributes ?? {}
  const time = (
    <time dateTime={line.timestamp} title={formatExact(line.timestamp)}>
      {formatClock(line.timestamp)}
    </time>
  )
  if (status === undefined)
    return (
      <Row>
        <Cell>{time}</Cell>
        <Cell>{line.message}</Cell>
        <Cell />
        <Cell />
        <Cell />
      </Row>
    )
  return (
    <Row>
      <Cell>{time}</Cell>
      <Cell detail={String(host)}>
        <code>
          {String(method)} {String(path)}
        </code>
      </Cell>
      <Cell>
        <Badge tone={Number(status) >= 500 ? 'bad' : Number(status) >= 400 ? 'warn' : 'ok'}>{String(status)}</Badge>
      </Cell>
      <Cell isEnd detail={first_byte_ms === undefined ? undefined : `first byte ${formatMs(first_byte_ms)}`}>
        {formatMs(duration_ms)}
      </Cell>
      <Cell isEnd>
        {isTraced && typeof trace_id === 'string' && <Link to={`/traces/run/${runOfTrace(trace_id)}`}>Trace</Link>}
      </Cell>
    </Row>
  )
}

const formatMs = (ms: unknown): string =>
  typeof ms !== 'number' ? '' : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`

/** The first run of a trace has its id. */
const runOfTrace = (trace_id: string): string => trace_id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

const MODES: { value: Mode; label: string }[] = [
  { value: 'sampled', label: 'Failed and slow ones, and a sample' },
  { value: 'errors', label: 'Failed and slow ones' },
  { value: 'all', label: 'All, up to 200 a second' },
  { value: 'off', label: 'None' },
]

function RequestLogs({ deployment, missing }: { deployment: Deployment; missing: string | undefined }) {
  const { request_logs: logs } = deployment
  const [mode, setMode] = useState(logs.mode)
  const save: Action = {
    label: 'Apply request log',
    request: request('PUT /v2/deployments/{deployment_id}/request-logs', {
      params: { deployment_id: deployment.id },
      body: { ...logs, mode },
    }),
    unavailable: missing ?? unlessChanged(mode !== logs.mode),
    done: `${deployment.name}: the request log is set.`,
  }
  return (
    <Card title="Request log">
      <p class={styles.about}>Takes effect within seconds, without a revision.</p>
      <Fields>
        <SelectField
          label="Logged requests"
          value={mode}
          options={MODES}
          onChange={value => setMode(value as Mode)}
          isChanged={mode !== logs.mode}
          unavailable={missing}
        />
      </Fields>
      <p class={styles.tagAction}>
        <ActionButton small action={save} />
      </p>
    </Card>
  )
}
