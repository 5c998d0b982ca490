// The incidents of the workspace, those that are open first, and the mutes that cover them now.
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { toAddress } from '../../router/links.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { muteForAnHour } from './actions.ts'
import { describeTimes, type Incident, SEVERITIES, stateOfIncident } from './alert-state.ts'
import { AlertsFrame } from './frame.tsx'

/** A mute begins and ends without an event. */
const READ_EVERY_MS = 30_000

const isOpen = ({ state }: Incident): boolean => state !== 'resolved'

export default function IncidentList({ workspace, me }: ScreenProps) {
  const settings = useRead(workspace, 'GET /v2/alert-settings', {})
  const mutes = usePages(workspace, 'GET /v2/alert-mutes', { query: { limit: 100 } }, { everyMs: READ_EVERY_MS })
  const active = mutes.items?.filter(({ is_active }) => is_active) ?? []
  const missing = explainMissing(me, workspace, 'alerts:manage')
  const isUntold = settings.data?.default_channels === 0
  return (
    <ResourceList
      title="Alerts"
      frame={parts => <AlertsFrame tab="" {...parts} />}
      thing="incident"
      caption="Incidents, those that are open first"
      query={usePages(workspace, 'GET /v2/incidents', { query: { limit: 100 } })}
      actions={<ActionButton action={muteForAnHour([], missing)} />}
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
      {active.length > 0 && (
        <Card tone="warn" title="Muted now">
          <Body>
            <ul>
              {active.map(mute => (
                <li key={mute.id}>
                  {mute.reason}: {describeTimes(mute, Date.now())}
                </li>
              ))}
            </ul>
            <Note>Incidents that these mutes cover are recorded. Channels are told of them at the end.</Note>
            <p>
              <ButtonLink href={toAddress('/alerts/mutes')}>Open the mutes</ButtonLink>
            </p>
          </Body>
        </Card>
      )}
    </ResourceList>
  )
}
