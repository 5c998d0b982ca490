// Creates an alert rule on a metric, on log lines or on events.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { type Faults, faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Choices, Form } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { createRule, type NewRuleBody } from './actions.ts'
import { METRICS, SEVERITIES } from './alert-state.ts'

type Kind = 'metric' | 'log' | 'event'
const EMPTY = {
  kind: 'metric' as Kind,
  name: '',
  metric: 'error_rate',
  operator: 'above' as 'above' | 'below',
  threshold: '0.05',
  contains: '',
  count: '1',
  types: '',
  minutes: '5',
  severity: 'error' as keyof typeof SEVERITIES,
}
type Draft = typeof EMPTY

const KINDS: { value: Kind; label: string; detail: string }[] = [
  { value: 'metric', label: 'Metric', detail: 'Errors, latency, CPU, memory, disk, restarts.' },
  { value: 'log', label: 'Log lines', detail: 'Lines that contain a text.' },
  { value: 'event', label: 'Events', detail: 'Such as revision.*_failed.' },
]
const OPERATORS = [
  { value: 'above', label: 'Above' },
  { value: 'below', label: 'Below' },
]
const toOptions = (labels: Record<string, string>) => Object.entries(labels).map(([value, label]) => ({ value, label }))

/** The API refuses what is no number, and says so at the field. */
function toCondition(draft: Draft): NewRuleBody['condition'] {
  const window_seconds = Number(draft.minutes) * 60
  if (draft.kind === 'event')
    return {
      kind: 'event',
      types: draft.types
        .split(',')
        .map(type => type.trim())
        .filter(Boolean),
    }
  if (draft.kind === 'log') return { kind: 'log', contains: draft.contains, count: Number(draft.count), window_seconds }
  const metric = draft.metric as 'error_rate'
  return { kind: 'metric', metric, operator: draft.operator, threshold: Number(draft.threshold), window_seconds }
}

export default function NewAlertRule({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Alerts', to: '/alerts' }, { label: 'Rules', to: '/alerts/rules' }, { label: 'Create' })
  const [draft, setDraft] = useState(EMPTY)
  const [, navigate] = useLocation()
  const { start, busy, error } = useAction({
    onDone: reply => navigate(toAddress(`/alerts/rules/${(reply as Reply<'POST /v2/alert-rules'>).id}`)),
    showsError: true,
  })
  const body = { name: draft.name.trim(), severity: draft.severity, condition: toCondition(draft) }
  const action = createRule(body, explainMissing(me, workspace, 'alerts:manage'))
  const change = (part: Partial<Draft>) => setDraft(current => ({ ...current, ...part }))
  return (
    <>
      <PageHead title="Create an alert rule" />
      <Card title="Alert rule">
        <Form
          error={error}
          label="Create an alert rule"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/alerts/rules')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <Choices legend="Condition on" value={draft.kind} onChange={kind => change({ kind })} options={KINDS} />
          <TextField
            label="Name"
            value={draft.name}
            onChange={name => change({ name })}
            placeholder="Payments fail"
            fault={faultAt(listFaults(error), 'name')}
          />
          <ConditionFields draft={draft} change={change} faults={listFaults(error)} />
          <SelectField
            label="Severity"
            value={draft.severity}
            options={toOptions(SEVERITIES)}
            onChange={severity => change({ severity: severity as Draft['severity'] })}
          />
        </Form>
      </Card>
    </>
  )
}

type Props = { draft: Draft; change: (part: Partial<Draft>) => void; faults: Faults }
function ConditionFields({ draft, change, faults }: Props) {
  if (draft.kind === 'event')
    return (
      <TextField
        label="Types of events"
        mono
        value={draft.types}
        onChange={types => change({ types })}
        placeholder="revision.build_failed, revision.deploy_failed"
        hint="Separated by commas. * stands for any text."
        fault={faultAt(faults, 'condition.types')}
      />
    )
  return (
    <>
      {draft.kind === 'log' ? (
        <>
          <TextField
            label="Text"
            value={draft.contains}
            onChange={contains => change({ contains })}
            hint="In any case. No pattern."
            fault={faultAt(faults, 'condition.contains')}
          />
          <TextField
            label="Lines"
            inputMode="numeric"
            value={draft.count}
            onChange={count => change({ count })}
            fault={faultAt(faults, 'condition.count')}
          />
        </>
      ) : (
        <>
          <SelectField
            label="Metric"
            value={draft.metric}
            options={toOptions(METRICS)}
            onChange={metric => change({ metric })}
          />
          <SelectField
            label="Is"
            value={draft.operator}
            options={OPERATORS}
            onChange={operator => change({ operator: operator as Draft['operator'] })}
          />
          <TextField
            label="Threshold"
            inputMode="decimal"
            value={draft.threshold}
            onChange={threshold => change({ threshold })}
            fault={faultAt(faults, 'condition.threshold')}
          />
        </>
      )}
      <TextField
        label="Minutes that are looked at"
        inputMode="numeric"
        value={draft.minutes}
        onChange={minutes => change({ minutes })}
        fault={faultAt(faults, 'condition.window_seconds')}
      />
    </>
  )
}
