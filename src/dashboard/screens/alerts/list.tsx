// The incidents of the workspace, those that are open first, and its mutes.
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { toAddress } from '../../router/links.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { endMute, muteForAnHour } from './actions.ts'
import { type Incident, type Mute, SEVERITIES, stateOfIncident } from './alert-state.ts'

const isOpen = ({ state }: Incident): boolean => state !== 'resolved'

export default function IncidentList({ workspace, me }: ScreenProps) {
  const settings = useRead(workspace, 'GET /v2/alert-settings', {})
  const mutes = usePages(workspace, 'GET /v2/alert-mutes', { query: { limit: 100 } })
  const missing = explainMissing(me, workspace, 'alerts:manage')
  const isUntold = settings.data?.default_channels === 0
  return (
    <ResourceList
      title="Alerts"
      thing="incident"
      caption="Incidents, those that are open first"
      query={usePages(workspace, 'GET /v2/incidents', { query: { limit: 100 } })}
      actions={
        <>
          <ActionButton action={muteForAnHour([], missing)} />
          <ButtonLink href={toAddress('/alerts/rules')}>Rules</ButtonLink>
        </>
      }
      filter={{ by: 'title or cause', texts: one => [one.title, one.cause] }}
      views={[
        { name: 'open', label: 'Open', has: isOpen },
        { name: 'resolved', label: 'Resolved', has: one => !isOpen(one) },
      ]}
      groups={[
        { label: 'Open', has: isOpen },
        { label: 'Resolved', has: one => !isOpen(one) },
      ]}
      empty={{
        title: 'No incidents',
        text: 'Crash loops, failing requests, full disks and lost listeners are noticed from the beginning.',
        command: 'slipway alerts list',
      }}
      columns={[
        {
          label: 'Incident',
          width: '46%',
          icon: () => <Icon name="bell" />,
          to: ({ id }) => `/alerts/${id}`,
          name: ({ title }) => title,
          detail: ({ cause }) => cause,
        },
        {
          label: 'State',
          width: '20%',
          cell: incident => <StateLabel state={stateOfIncident(incident)} />,
          detail: incident => SEVERITIES[incident.severity],
        },
        { label: 'Subject', isWideOnly: true, cell: ({ subject }) => subject.name },
        { label: 'Opened', width: '96', isEnd: true, cell: ({ opened_at }) => <Ago time={opened_at} /> },
      ]}
    >
      {isUntold && (
        <Card tone="warn" title="Nobody is told">
          <Body>
            <Note>
              Rules that name no channel tell the default channels, and this workspace has none. Incidents are only
              shown here.
            </Note>
            <p>
              <ButtonLink href={toAddress('/channels/new')}>Create a channel</ButtonLink>
            </p>
          </Body>
        </Card>
      )}
      {mutes.items && mutes.items.length > 0 && <Mutes mutes={mutes.items} missing={missing} />}
    </ResourceList>
  )
}

const describeTime = ({ ends_at, weekly }: Mute): string =>
  weekly
    ? `${weekly.days.join(', ')}, ${weekly.from} to ${weekly.until} (${weekly.time_zone})`
    : ends_at === null
      ? 'Until it is ended'
      : `Until ${ends_at.slice(0, 16).replace('T', ' ')} UTC`

const Mutes = ({ mutes, missing }: { mutes: Mute[]; missing: string | undefined }) => (
  <Card title="Mutes">
    <Table
      caption="Mutes, newest first"
      columns={[
        { label: 'Reason', width: '40%' },
        { label: 'Time', width: '40%' },
        { label: 'End', width: '96', isEnd: true },
      ]}
    >
      {mutes.map(mute => (
        <Row key={mute.id}>
          <Cell detail={mute.created_by_name}>{mute.reason}</Cell>
          <Cell detail={mute.is_active ? 'Active' : 'Not active now'}>{describeTime(mute)}</Cell>
          <Cell isEnd>
            <ActionButton small action={endMute(mute, missing)} />
          </Cell>
        </Row>
      ))}
    </Table>
  </Card>
)
