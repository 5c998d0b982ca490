// An incident: its cause, the last lines of the log, and its history.
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { formatExact } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Plot } from '../../parts/chart.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { acknowledge, muteForAnHour, resolve } from './actions.ts'
import { explainUntold, type IncidentDetails, SEVERITIES, stateOfIncident } from './alert-state.ts'

/** A fact is a text, which may be a time. */
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

export default function IncidentPage({ workspace, params, me }: ScreenProps<{ incident: string }>) {
  const ref = { params: { incident_id: params.incident } }
  const { data: incident, error, refetch } = useRead(workspace, 'GET /v2/incidents/{incident_id}', ref)
  useCrumbs({ label: 'Alerts', to: '/alerts' }, { label: incident?.title ?? '…' })
  if (isMissing(error))
    return (
      <Empty title="Incident not found" action={<ButtonLink href={toAddress('/alerts')}>Open the alerts</ButtonLink>}>
        Resolved incidents are kept for 90 days. Those of a deleted deployment are deleted with it.
      </Empty>
    )
  if (error && !incident) return <Problem error={error} onRetry={() => void refetch()} />
  if (!incident) return <Skeleton lines={9} />
  const missing = explainMissing(me, workspace, 'alerts:manage')
  const isResolved = incident.state === 'resolved'
  const untold = explainUntold(incident)
  return (
    <>
      <PageHead
        title={incident.title}
        state={<StateLabel state={stateOfIncident(incident)} large />}
        actions={
          !isResolved && (
            <>
              {incident.state === 'open' && <ActionButton look="primary" action={acknowledge(incident, missing)} />}
              <ActionButton action={resolve(incident, missing)} />
              {incident.rule.id && <ActionButton action={muteForAnHour([incident.rule.id], missing)} />}
            </>
          )
        }
        meta={[
          SEVERITIES[incident.severity],
          <>
            Opened <Ago time={incident.opened_at} suffix=" ago" />
          </>,
          incident.subject.type === 'deployment' && (
            <Link to={`/deployments/${incident.subject.id}`}>{incident.subject.name}</Link>
          ),
        ]}
      />
      <Stack>
        {untold && (
          <Card tone="warn" title="The channels do not know of it">
            <Body>
              <Note>{untold}</Note>
            </Body>
          </Card>
        )}
        <Card title="Cause">
          <Body>
            <p>{incident.cause || 'The rule names no cause.'}</p>
            <Facts
              facts={incident.evidence.facts.map(({ name, value }) => [
                name,
                TIME.test(value) ? formatExact(value) : value,
              ])}
            />
          </Body>
        </Card>
        {incident.evidence.chart && <Chart chart={incident.evidence.chart} />}
        {incident.evidence.lines.length > 0 && (
          <Card title="Last lines of the log">
            <Body>
              <pre>{incident.evidence.lines.join('\n')}</pre>
            </Body>
          </Card>
        )}
        <History history={incident.history} />
      </Stack>
    </>
  )
}

function Chart({ chart }: { chart: NonNullable<IncidentDetails['evidence']['chart']> }) {
  const { title, unit, points, threshold } = chart
  const values = points.map(([, value]) => value)
  return (
    <Card title={title} aside={unit}>
      <Body>
        <Plot
          label={title}
          times={points.map(([time]) => time / 1000)}
          series={[
            { label: title, tone: 'accent', values },
            ...(threshold === undefined
              ? []
              : [{ label: 'Threshold', tone: 'bad' as const, values: values.map(() => threshold), dash: [4, 4] }]),
          ]}
          marks={[]}
          format={value => `${Number(value.toPrecision(3))} ${unit}`.trim()}
          formatTime={at => new Date(at * 1000).toLocaleTimeString()}
          steps={undefined}
          onLook={() => {}}
        />
      </Body>
    </Card>
  )
}

const KINDS: Record<IncidentDetails['history'][number]['kind'], string> = {
  opened: 'Opened',
  reopened: 'Came back',
  acknowledged: 'Acknowledged',
  resolved: 'Resolved',
  muted: 'Muted',
  told: 'Told',
}

const History = ({ history }: { history: IncidentDetails['history'] }) => (
  <Card title="History">
    <Table
      caption="History, oldest first"
      columns={[
        { label: 'What', width: '24%' },
        { label: 'Message', width: '56%' },
        { label: 'When', width: '96', isEnd: true },
      ]}
    >
      {history.map(({ id, kind, message, actor_name, created_at }) => (
        <Row key={id}>
          <Cell detail={actor_name}>{KINDS[kind]}</Cell>
          <Cell>{message ?? '–'}</Cell>
          <Cell isEnd>
            <Ago time={created_at} />
          </Cell>
        </Row>
      ))}
    </Table>
  </Card>
)
