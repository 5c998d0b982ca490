// Lines of all deployments: a search, and their number over time.
import { useState } from 'preact/hooks'
import type { Reply } from '../../../client/client.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { toPlainText } from '../../format/ansi.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { ChartFigure, StackedBars } from '../../parts/chart.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { PageHead, Stack, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Facts } from '../../parts/sections.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { LEVELS } from './blocks.ts'
import styles from './search.module.css'

type Found = Reply<'GET /v2/logs'>['logs'][number]
type Bin = Reply<'GET /v2/logs/histogram'>['bins'][number]
type Filters = { q?: string; level?: 'ERROR'; deployment_id?: string; attribute?: string[]; start_time?: string }

const PERIODS = [
  { value: '15m', label: 'Last 15 minutes', ms: 15 * 60_000 },
  { value: '', label: 'Last hour', ms: 3_600_000 },
  { value: '6h', label: 'Last 6 hours', ms: 6 * 3_600_000 },
  { value: '1d', label: 'Last day', ms: 86_400_000 },
  { value: '7d', label: 'Last 7 days', ms: 7 * 86_400_000 },
  { value: '30d', label: 'Last 30 days', ms: 30 * 86_400_000 },
]
const LIVE_MS = 5000
const PAGE_LINES = 100
const MEMBER = /^[^=,]{1,64}=[^,]{1,512}$/
const TRACE = /^[0-9a-f]{32}$/

export default function LogSearch({ workspace }: ScreenProps) {
  useCrumbs({ label: 'Logs' })
  const [q] = useFilter('q')
  const [level, setLevel] = useFilter('level')
  const [period, setPeriod] = useFilter('period')
  const [deployment, setDeployment] = useFilter('deployment')
  const [member, setMember] = useFilter('where')
  const [request, setRequest] = useFilter('request')
  const [trace, setTrace] = useFilter('trace')
  const [live, setLive] = useFilter('live')
  const [openedAt, setOpenedAt] = useState(Date.now)
  const deployments = usePages(workspace, 'GET /v2/deployments', { query: { limit: 100 } })
  const names = new Map((deployments.items ?? []).map(({ id, name }) => [id, name]))
  const { ms } = PERIODS.find(one => one.value === period) ?? PERIODS[1]!
  const filters = {
    ...(q && { q }),
    ...(LEVELS.some(one => one === level.toUpperCase()) && { level: level.toUpperCase() as 'ERROR' }),
    ...(deployment && { deployment_id: deployment }),
    ...(MEMBER.test(member) && { attribute: [member.replaceAll('\\', '\\\\')] }),
    ...(request && { request_id: request }),
    ...(TRACE.test(trace) && { trace_id: trace }),
    start_time: new Date(openedAt - ms).toISOString(),
  }
  const faultOf = (text: string, pattern: RegExp, words: string) =>
    text === '' || pattern.test(text) ? undefined : words
  const options = [
    { value: '', label: 'All deployments' },
    ...[...names].map(([value, label]) => ({ value, label })),
    ...(deployment && !names.has(deployment) ? [{ value: deployment, label: 'Another deployment' }] : []),
  ]
  return (
    <Stack>
      <PageHead
        title="Logs"
        actions={
          <>
            <Chip pressed={live !== ''} onPress={() => setLive(live ? '' : '1')}>
              Live
            </Chip>
            <Button icon="again" onClick={() => setOpenedAt(Date.now())}>
              Refresh
            </Button>
            <ButtonLink href={toAddress('/logs/archive')} icon="archive">
              Archive
            </ButtonLink>
          </>
        }
      />
      <Toolbar>
        <FilterField
          label="Find in messages"
          placeholder="Find in messages"
          value={q}
          onChange={text => setFilters({ q: text })}
          hint="/"
        />
      </Toolbar>
      <div class={styles.filters}>
        <SelectField label="Time" value={period} onChange={setPeriod} options={PERIODS} />
        <SelectField
          label="Level"
          value={level}
          onChange={setLevel}
          options={[
            { value: '', label: 'All levels' },
            { value: 'info', label: 'Info and above' },
            { value: 'warning', label: 'Warnings and errors' },
            { value: 'error', label: 'Errors' },
          ]}
        />
        <SelectField label="Deployment" value={deployment} onChange={setDeployment} options={options} />
        <TextField
          label="Member"
          mono
          value={member}
          onChange={setMember}
          placeholder="user=42"
          fault={faultOf(member, MEMBER, 'must be a name and a value, such as user=42')}
        />
        <TextField label="Request" mono value={request} onChange={setRequest} placeholder="id" />
        <TextField
          label="Trace"
          mono
          value={trace}
          onChange={setTrace}
          placeholder="32 hexadecimal digits"
          fault={faultOf(trace, TRACE, 'must be 32 hexadecimal digits')}
        />
      </div>
      <Histogram workspace={workspace} filters={filters} everyMs={live ? LIVE_MS : false} />
      <Results
        key={JSON.stringify(filters)}
        workspace={workspace}
        filters={filters}
        names={names}
        everyMs={live ? LIVE_MS : false}
      />
    </Stack>
  )
}

type ShownProps = { workspace: string; filters: Filters; everyMs: number | false }

const errorsOf = ({ counts }: Bin) => counts.ERROR + counts.CRITICAL

function Histogram({ workspace, filters, everyMs }: ShownProps) {
  const { data, error, refetch } = useRead(workspace, 'GET /v2/logs/histogram', { query: filters }, { everyMs })
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={2} />
  const step = data.step * 1000
  const first = Math.floor(Date.parse(filters.start_time ?? data.counted_from) / step) * step
  const byTime = new Map(data.bins.map(bin => [Date.parse(bin.time), bin]))
  const last = Math.max(Date.now(), ...byTime.keys())
  const bars = Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => {
    const at = first + i * step
    const counts = byTime.get(at)?.counts
    const bad = counts ? counts.ERROR + counts.CRITICAL : 0
    const warn = counts?.WARNING ?? 0
    const rest = counts ? counts.DEBUG + counts.INFO : 0
    return {
      label: `${formatShort(at)}: ${bad + warn + rest} lines, ${bad} errors`,
      parts: [['bad', bad] as ['bad', number], ['warn', warn] as ['warn', number], ['idle', rest] as ['idle', number]],
    }
  })
  const lines = data.bins.reduce((sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0)
  const errors = data.bins.reduce((sum, bin) => sum + errorsOf(bin), 0)
  const isCut = Date.parse(data.counted_from) > first + step
  return (
    <ChartFigure
      title="Lines over time"
      value={lines.toLocaleString()}
      aside={isCut ? `Counted from ${formatExact(data.counted_from)} on` : `${errors.toLocaleString()} errors`}
      columns={['Time', 'Lines', 'Errors']}
      rows={() =>
        data.bins.map(bin => ({
          label: formatExact(bin.time),
          cells: [String(Object.values(bin.counts).reduce((a, b) => a + b, 0)), String(errorsOf(bin))],
        }))
      }
    >
      <StackedBars bars={bars} label={`${lines} lines, ${errors} of them errors`} />
    </ChartFigure>
  )
}

type ResultsProps = ShownProps & { names: Map<string, string> }

/** Each page is read when it is asked for. Only the first one can have news. */
function Results({ workspace, filters, names, everyMs }: ResultsProps) {
  const [cursors, setCursors] = useState<string[]>([])
  const more = (cursor: string) => setCursors([...cursors, cursor])
  return (
    <Card title="Lines, newest first">
      {[undefined, ...cursors].map((cursor, place) => (
        <ResultPage
          key={cursor ?? ''}
          workspace={workspace}
          filters={filters}
          names={names}
          everyMs={place === 0 && cursors.length === 0 ? everyMs : false}
          cursor={cursor}
          onMore={place === cursors.length ? more : undefined}
        />
      ))}
    </Card>
  )
}

type PageProps = ResultsProps & { cursor: string | undefined; onMore: ((cursor: string) => void) | undefined }

function ResultPage({ workspace, filters, names, everyMs, cursor, onMore }: PageProps) {
  const query = { ...filters, limit: PAGE_LINES, ...(cursor && { cursor }) }
  const { data, error, refetch } = useRead(workspace, 'GET /v2/logs', { query }, { everyMs })
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={6} />
  const { logs, next_cursor: next, searched_until: until } = data
  return (
    <>
      {logs.length === 0 && cursor === undefined && next === null && (
        <Empty title="No line was found">
          Choose a longer time, or fewer filters. Applications write lines to standard output and standard error.
        </Empty>
      )}
      <ul class={styles.lines}>
        {logs.map(line => (
          <LogLine key={line.id} line={line} name={names.get(line.deployment_id)} />
        ))}
      </ul>
      {next !== null && onMore && (
        <div class={styles.more}>
          {until !== null && <span>Searched until {formatExact(until)}</span>}
          <Button onClick={() => onMore(next)}>Search older lines</Button>
        </div>
      )}
    </>
  )
}

const TONES: Partial<Record<Found['level'], string | undefined>> = {
  WARNING: styles.warning,
  ERROR: styles.error,
  CRITICAL: styles.error,
}

/** The message of a JSON line, or the line. */
function textOf({ message, attributes }: Found): string {
  if (!attributes || !message.startsWith('{')) return toPlainText(message)
  try {
    const entry = JSON.parse(message) as Record<string, unknown>
    const text = entry.message ?? entry.msg
    return typeof text === 'string' ? toPlainText(text) : message
  } catch {
    return message
  }
}

function LogLine({ line, name }: { line: Found; name: string | undefined }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <li class={TONES[line.level]}>
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          <time dateTime={line.timestamp}>{formatShort(line.timestamp)}</time>
          <span class={styles.who}>{name ?? line.deployment_id.slice(0, 8)}</span>
          <span>{textOf(line)}</span>
        </summary>
        {isOpen && <Members line={line} />}
      </details>
    </li>
  )
}

function Members({ line }: { line: Found }) {
  const { attributes = {}, trace_id, request_id } = line
  const around = `/deployments/${line.deployment_id}/logs?from=${line.timestamp}`
  return (
    <div class={styles.members}>
      <pre>{toPlainText(line.message)}</pre>
      <Facts
        facts={[
          ['Time', formatExact(line.timestamp)],
          ['Level', line.level.toLowerCase()],
          ['Kind', line.kind],
          ...(line.process ? [['Process', line.process] as [string, string]] : []),
          ...Object.entries(attributes).map(([member, value]): [string, preact.ComponentChildren] => [
            member,
            <Link key={member} class={styles.member} to={`/logs?where=${encodeURIComponent(`${member}=${value}`)}`}>
              {String(value)}
            </Link>,
          ]),
        ]}
      />
      <p class={styles.links}>
        <ButtonLink small href={toAddress(around)}>
          Open the log of the deployment
        </ButtonLink>
        {trace_id && (
          <>
            <ButtonLink small href={toAddress(`/logs?trace=${trace_id}`)}>
              Lines of this trace
            </ButtonLink>
            <ButtonLink small href={toAddress(`/traces/run/${toUuid(trace_id)}`)}>
              Open the trace
            </ButtonLink>
          </>
        )}
        {request_id && (
          <ButtonLink small href={toAddress(`/logs?request=${encodeURIComponent(request_id)}`)}>
            Lines of this request
          </ButtonLink>
        )}
      </p>
    </div>
  )
}

const toUuid = (hex: string) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
