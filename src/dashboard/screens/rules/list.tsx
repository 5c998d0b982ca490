// The automation rules of the workspace: actions on runs that match a filter.
import { useReadList } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeActions, describeSampling, describeScope, stateOfRule } from './rule-state.ts'

/** A backfill has no events. */
const READ_EVERY_MS = 15_000

export default function RuleList({ workspace, me }: ScreenProps) {
  return (
    <ResourceList
      title="Rules"
      thing="rule"
      caption="Automation rules, newest first"
      query={useReadList(workspace, 'GET /runs/rules', { query: {} }, { everyMs: READ_EVERY_MS })}
      create={{ label: 'Create rule', to: '/rules/new', unavailable: explainMissing(me, workspace, 'rules:create') }}
      filter={{
        by: 'name, project or filter',
        texts: rule => [rule.display_name, describeScope(rule), rule.filter, ...describeActions(rule)],
      }}
      views={[
        { name: 'active', label: 'Active', has: ({ is_enabled }) => is_enabled },
        { name: 'paused', label: 'Paused', has: ({ is_enabled }) => !is_enabled },
      ]}
      empty={{
        title: 'No rules yet',
        text:
          'A rule runs an action on each new run that matches its filter: add it to a dataset, send it to a URL, or ' +
          'keep its trace for longer.',
      }}
      columns={[
        {
          label: 'Rule',
          width: '28%',
          icon: () => <Icon name="bolt" />,
          to: ({ id }) => `/rules/${id}`,
          name: ({ display_name }) => display_name,
          detail: describeScope,
        },
        { label: 'State', width: '128', cell: rule => <StateLabel state={stateOfRule(rule)} /> },
        {
          label: 'Runs',
          isWideOnly: true,
          cell: ({ filter }) => (filter ? <code title={filter}>{filter}</code> : 'All runs'),
          detail: describeSampling,
        },
        { label: 'Actions', width: '24%', cell: rule => describeActions(rule).join(', ') || 'None' },
        { label: 'Changed', width: '88', isEnd: true, cell: ({ updated_at }) => <Ago time={updated_at} /> },
      ]}
    />
  )
}
