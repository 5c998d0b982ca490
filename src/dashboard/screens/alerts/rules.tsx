// The alert rules of the workspace, and the switch of the built-in ones.
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { setDefaults } from './actions.ts'
import { describeCondition, SEVERITIES, stateOfRule } from './alert-state.ts'
import { AlertsFrame } from './frame.tsx'

export default function AlertRuleList({ workspace, me }: ScreenProps) {
  const settings = useRead(workspace, 'GET /v2/alert-settings', {})
  const missing = explainMissing(me, workspace, 'alerts:manage')
  return (
    <ResourceList
      title="Alerts"
      frame={parts => <AlertsFrame tab="/rules" {...parts} />}
      thing="alert rule"
      caption="Alert rules, newest first"
      query={usePages(workspace, 'GET /v2/alert-rules', { query: { limit: 100 } })}
      reads={[settings]}
      create={{ label: 'Create alert rule', to: '/alerts/rules/new', unavailable: missing }}
      actions={settings.data && <ActionButton action={setDefaults(!settings.data.defaults_enabled, missing)} />}
      filter={{ by: 'name', texts: one => [one.name, describeCondition(one)] }}
      empty={{
        title: 'No alert rules',
        command: 'slipway alerts create NAME --log "payment failed"',
        text: 'A rule notices what is wrong, and tells channels.',
      }}
      columns={[
        {
          label: 'Rule',
          width: '50%',
          icon: () => <Icon name="bell" />,
          to: ({ id }) => `/alerts/rules/${id}`,
          name: ({ name }) => name,
          detail: describeCondition,
        },
        { label: 'State', width: '20%', cell: rule => <StateLabel state={stateOfRule(rule)} /> },
        { label: 'Severity', isWideOnly: true, cell: ({ severity }) => SEVERITIES[severity] },
        { label: 'Built in', isWideOnly: true, cell: ({ built_in }) => (built_in ? 'Yes' : '–') },
      ]}
    />
  )
}
