// Creates a mute: for a time, or in the same hours each week.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { type Faults, faultAt } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { ChipChoice, Inside } from '../../parts/chip-set.tsx'
import { Pair, TextField, TimeField, toLocalInput } from '../../parts/form.tsx'
import { Choices } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import { EMPTY_SCOPE, explainScope, fromScope } from '../scope.ts'
import { ScopeFields } from '../scope-fields.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createMute, type NewMuteBody } from './actions.ts'
import { WEEKDAYS } from './alert-state.ts'

const HOUR_MS = 3_600_000
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone
const ZONES = ['UTC', ...Intl.supportedValuesOf('timeZone')]

const startDraft = (rule: string) => ({
  reason: '',
  isWeekly: false,
  /** The texts of a `TimeField`. */
  starts: '',
  ends: toLocalInput(Date.now() + HOUR_MS),
  days: ['mon', 'tue', 'wed', 'thu', 'fri'],
  from: '22:00',
  until: '06:00',
  zone: OWN_ZONE,
  hasAllRules: rule === '',
  rules: rule === '' ? [] : [rule],
  scope: EMPTY_SCOPE,
})
type Draft = ReturnType<typeof startDraft>

const toInstant = (local: string): string | null => (local === '' ? null : new Date(local).toISOString())
const toBody = (draft: Draft): NewMuteBody => ({
  reason: draft.reason.trim(),
  rule_ids: draft.hasAllRules ? [] : draft.rules,
  ...fromScope(draft.scope),
  starts_at: toInstant(draft.starts),
  ends_at: toInstant(draft.ends),
  ...(draft.isWeekly && {
    weekly: { days: draft.days as ['mon'], from: draft.from, until: draft.until, time_zone: draft.zone.trim() },
  }),
})

const explainDraft = ({ hasAllRules, rules, scope, isWeekly, days }: Draft): string | undefined => {
  if (isWeekly && days.length === 0) return 'Select a day first.'
  return !hasAllRules && rules.length === 0 ? 'Select a rule first.' : explainScope(scope)
}

export default function NewMute({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Alerts', to: '/alerts' }, { label: 'Mutes', to: '/alerts/mutes' }, { label: 'Create' })
  const [rule] = useFilter('rule')
  const [draft, setDraft] = useState(() => startDraft(rule))
  const [, navigate] = useLocation()
  const change = (part: Partial<Draft>) => setDraft(current => ({ ...current, ...part }))
  const missing = explainMissing(me, workspace, 'alerts:manage')
  return (
    <>
      <PageHead title="Create a mute" />
      <ActionForm
        title="Mute"
        action={createMute(toBody(draft), missing ?? explainDraft(draft))}
        cancel="/alerts/mutes"
        onDone={() => navigate(toAddress('/alerts/mutes'))}
      >
        {faults => (
          <>
            <TextField
              label="Reason"
              value={draft.reason}
              onChange={reason => change({ reason })}
              placeholder="The database moves"
              fault={faultAt(faults, 'reason')}
            />
            <Choices
              legend="When"
              value={draft.isWeekly ? 'weekly' : 'once'}
              onChange={value =>
                change(
                  value === 'weekly'
                    ? { isWeekly: true, ends: '' }
                    : { isWeekly: false, ends: toLocalInput(Date.now() + HOUR_MS) },
                )
              }
              options={[
                { value: 'once', label: 'For a time' },
                { value: 'weekly', label: 'The same hours each week', detail: 'Such as nights, or weekends.' },
              ]}
            />
            {draft.isWeekly && <Hours draft={draft} change={change} faults={faults} />}
            <Pair>
              <TimeField
                label="From"
                value={draft.starts}
                onChange={starts => change({ starts })}
                hint={`Empty: from now on. Times here are those of this browser (${OWN_ZONE}).`}
                fault={faultAt(faults, 'starts_at')}
              />
              <TimeField
                label="Until"
                value={draft.ends}
                onChange={ends => change({ ends })}
                hint="Empty: until you end it."
                fault={faultAt(faults, 'ends_at')}
              />
            </Pair>
            <Rules workspace={workspace} draft={draft} change={change} faults={faults} />
            <ScopeFields
              workspace={workspace}
              scope={draft.scope}
              onChange={scope => change({ scope })}
              faults={faults}
              all="All deployments and all other subjects"
              some="Only incidents of selected deployments, or of deployments with a tag."
            />
          </>
        )}
      </ActionForm>
    </>
  )
}

type Props = { draft: Draft; change: (part: Partial<Draft>) => void; faults: Faults }

const Hours = ({ draft, change, faults }: Props) => (
  <Inside>
    <ChipChoice
      legend="Days"
      options={Object.entries(WEEKDAYS).map(([value, label]) => ({ value, label }))}
      chosen={draft.days}
      onChange={days => change({ days })}
      fault={faultAt(faults, 'weekly.days')}
    />
    <Pair>
      <TimeField
        label="Begins at"
        type="time"
        value={draft.from}
        onChange={from => change({ from })}
        fault={faultAt(faults, 'weekly.from')}
      />
      <TimeField
        label="Ends at"
        type="time"
        value={draft.until}
        onChange={until => change({ until })}
        hint={draft.until <= draft.from ? 'On the next day.' : undefined}
        fault={faultAt(faults, 'weekly.until')}
      />
    </Pair>
    <TextField
      label="Time zone"
      value={draft.zone}
      onChange={zone => change({ zone })}
      suggestions={ZONES}
      hint="Of these hours, also when clocks change."
      fault={faultAt(faults, 'weekly.time_zone')}
    />
  </Inside>
)

function Rules({ workspace, draft, change, faults }: Props & { workspace: string }) {
  const { items } = usePages(workspace, 'GET /v2/alert-rules', { query: { limit: 100 } })
  return (
    <>
      <Choices
        legend="Rules"
        value={draft.hasAllRules ? 'all' : 'some'}
        onChange={value => change({ hasAllRules: value === 'all' })}
        options={[
          { value: 'all', label: 'All rules' },
          { value: 'some', label: 'Selected rules' },
        ]}
      />
      {!draft.hasAllRules && (
        <Inside>
          <ChipChoice
            options={(items ?? []).map(({ id, name }) => ({ value: id, label: name }))}
            chosen={draft.rules}
            onChange={rules => change({ rules })}
            fault={faultAt(faults, 'rule_ids')}
          />
        </Inside>
      )}
    </>
  )
}
