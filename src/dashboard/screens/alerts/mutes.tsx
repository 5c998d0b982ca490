// The mutes of the workspace: those that run, those that come, and those that have ended lately.
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Cell, Group, Row, Table } from '../../parts/table.tsx'
import { now } from '../../parts/time.tsx'
import { ResourceList } from '../resource-list.tsx'
import { describeScope } from '../scope.ts'
import type { ScreenProps } from '../screen-props.ts'
import { endMute, muteForAnHour } from './actions.ts'
import { type AlertRule, describeTimes, exactTimes, type Mute, type MutePhase, phaseOf } from './alert-state.ts'
import { AlertsFrame } from './frame.tsx'

/** A mute begins and ends without an event. */
const READ_EVERY_MS = 30_000

const PHASES: [phase: MutePhase, label: string][] = [
  ['running', 'Running'],
  ['coming', 'Coming'],
  ['ended', 'Ended'],
]
const COLUMNS = [
  { label: 'Mute', width: '30%' },
  { label: 'Time', width: '36%' },
  { label: 'Covers' },
  { label: 'End', width: '140', isEnd: true },
]

export default function MuteList({ workspace, me }: ScreenProps) {
  const missing = explainMissing(me, workspace, 'alerts:manage')
  const rules = usePages(workspace, 'GET /v2/alert-rules', { query: { limit: 100 } })
  return (
    <ResourceList
      title="Alerts"
      frame={parts => <AlertsFrame tab="/mutes" {...parts} />}
      thing="mute"
      caption="Mutes by phase"
      query={usePages(workspace, 'GET /v2/alert-mutes', { query: { limit: 100 } }, { everyMs: READ_EVERY_MS })}
      create={{ label: 'Create mute', to: '/alerts/mutes/new', unavailable: missing }}
      actions={<ActionButton action={muteForAnHour([], missing)} />}
      filter={{ by: 'reason', texts: ({ reason }) => [reason] }}
      empty={{
        title: 'No mutes',
        command: 'slipway alerts mute "The database moves" --for 2h',
        text: 'During a mute, incidents are recorded and not sent. It has times, or the same hours each week.',
      }}
      body={mutes => <Mutes mutes={mutes} rules={rules.items} missing={missing} />}
    />
  )
}

type Props = { mutes: Mute[]; rules: AlertRule[] | undefined; missing: string | undefined }
const Mutes = ({ mutes, rules, missing }: Props) => (
  <Table caption="Mutes by phase" columns={COLUMNS} isGrouped>
    {PHASES.map(([phase, label]) => {
      const members = mutes.filter(mute => phaseOf(mute, now.value) === phase)
      return (
        members.length > 0 && (
          <Group key={phase} label={label} count={members.length} columns={COLUMNS.length}>
            {members.map(mute => (
              <Row key={mute.id}>
                <Cell detail={mute.created_by_name}>{mute.reason}</Cell>
                <Cell>
                  <span title={exactTimes(mute)}>{describeTimes(mute, now.value)}</span>
                </Cell>
                <Cell>{describeCovers(mute, rules)}</Cell>
                <Cell isEnd>
                  <ActionButton small action={endMute(mute, missing)} />
                </Cell>
              </Row>
            ))}
          </Group>
        )
      )
    })}
  </Table>
)

function describeCovers(mute: Mute, rules: AlertRule[] | undefined): string {
  const scope = describeScope(mute)
  const named = mute.rule_ids.map(id => rules?.find(rule => rule.id === id)?.name ?? 'a rule')
  const all = named.length === 0 ? 'All rules' : named.join(', ')
  return scope === 'All' ? all : `${all}; deployments: ${scope}`
}
