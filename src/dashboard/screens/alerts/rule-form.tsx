// The fields of an alert rule: its condition with units, of which deployments, when it opens, and its channels.
import { type Faults, faultAt } from '../../api/faults.ts'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { usePages } from '../../api/queries.ts'
import { ChipChoice, Inside } from '../../parts/chip-set.tsx'
import { Pair, SelectField, TextField } from '../../parts/form.tsx'
import { Choices } from '../../parts/form-frame.tsx'
import { LEVEL_OPTIONS } from '../log-levels.ts'
import { ScopeFields } from '../scope-fields.tsx'
import { type AlertRule, SEVERITIES } from './alert-state.ts'
import { METRICS, TRACE_METRICS } from './metrics.ts'
import { type Draft, EMPTY_DRAFT, type Kind, metricOf } from './rule-draft.ts'

const KINDS: { value: Kind; label: string; detail: string }[] = [
  { value: 'metric', label: 'Metric', detail: 'Errors, latency, CPU, memory, disk, restarts.' },
  { value: 'log', label: 'Log lines', detail: 'Lines that contain a text.' },
  { value: 'trace', label: 'Traces', detail: 'Errors, latency, cost and feedback of a project.' },
  { value: 'event', label: 'Events', detail: 'Such as revision.*_failed.' },
]
const OPERATORS = [
  { value: 'above', label: 'Above' },
  { value: 'below', label: 'Below' },
]

type Props = {
  workspace: string
  draft: Draft
  onChange: (part: Partial<Draft>) => void
  faults: Faults
  /** The rule that is edited. The kind of its condition and its project stay. */
  rule?: AlertRule | undefined
}
export function RuleFields(props: Props) {
  const { workspace, draft, onChange, faults, rule } = props
  const chooseKind = (kind: Kind) =>
    onChange({ kind, ...(kind in { metric: 1, trace: 1 } && { metric: EMPTY_DRAFT.metric }) })
  return (
    <>
      {!rule && <Choices legend="Condition on" value={draft.kind} onChange={chooseKind} options={KINDS} />}
      <TextField
        label="Name"
        value={draft.name}
        onChange={name => onChange({ name })}
        placeholder="Payments fail"
        fault={faultAt(faults, 'name')}
      />
      {draft.kind === 'event' ? (
        <EventFields {...props} />
      ) : draft.kind === 'log' ? (
        <LogFields {...props} />
      ) : (
        <ValueFields {...props} />
      )}
      {draft.kind !== 'trace' && (
        <ScopeFields
          workspace={workspace}
          scope={draft.scope}
          onChange={scope => onChange({ scope })}
          faults={faults}
          some="Only selected deployments, or deployments with a tag."
        />
      )}
      <SelectField
        label="Severity"
        value={draft.severity}
        options={toOptions(SEVERITIES, label => label)}
        onChange={severity => onChange({ severity: severity as Draft['severity'] })}
      />
      <Pair>
        <TextField
          label="Opens after"
          inputMode="decimal"
          unit="minutes"
          value={draft.forMinutes}
          onChange={forMinutes => onChange({ forMinutes })}
          hint="The condition must hold for so long."
          fault={faultAt(faults, 'for_seconds')}
        />
        <TextField
          label="Is resolved after"
          inputMode="decimal"
          unit="minutes"
          value={draft.resolveMinutes}
          onChange={resolveMinutes => onChange({ resolveMinutes })}
          placeholder={rule ? '' : 'As usual for the condition'}
          hint={
            draft.kind === 'event'
              ? 'After an event that ends it, or after the last event if none does.'
              : 'The condition must be over for so long.'
          }
          fault={faultAt(faults, 'resolve_after_seconds')}
        />
      </Pair>
      <ChannelFields {...props} />
    </>
  )
}

const toOptions = <One,>(labels: Record<string, One>, labelOf: (one: One) => string) =>
  Object.entries(labels).map(([value, one]) => ({ value, label: labelOf(one) }))

const Window = ({ draft, onChange, faults }: Props) => (
  <TextField
    label="Within the last"
    inputMode="decimal"
    unit="minutes"
    value={draft.minutes}
    onChange={minutes => onChange({ minutes })}
    fault={faultAt(faults, 'condition.window_seconds')}
  />
)

function ValueFields(props: Props) {
  const { draft, onChange, faults } = props
  const isTrace = draft.kind === 'trace'
  const { unit } = metricOf(draft)
  return (
    <>
      {isTrace && <ProjectField {...props} />}
      <SelectField
        label="Value"
        value={draft.metric}
        options={toOptions(isTrace ? TRACE_METRICS : METRICS, ({ label }) => label)}
        onChange={metric => onChange({ metric })}
        fault={faultAt(faults, 'condition.metric')}
      />
      {isTrace && draft.metric === 'feedback' && (
        <TextField
          label="Feedback key"
          mono
          value={draft.feedbackKey}
          onChange={feedbackKey => onChange({ feedbackKey })}
          fault={faultAt(faults, 'condition.feedback_key')}
        />
      )}
      {isTrace && (
        <TextField
          label="Filter"
          mono
          value={draft.filter}
          onChange={filter => onChange({ filter })}
          placeholder='eq(name, "checkout")'
          hint="In the filter language of runs. Without it, all traces."
          fault={faultAt(faults, 'condition.filter') ?? faultAt(faults, 'filter')}
        />
      )}
      <Pair>
        <SelectField
          label="Is"
          value={draft.operator}
          options={OPERATORS}
          onChange={operator => onChange({ operator: operator as Draft['operator'] })}
        />
        <TextField
          label="Threshold"
          inputMode="decimal"
          unit={unit}
          value={draft.threshold}
          onChange={threshold => onChange({ threshold })}
          fault={faultAt(faults, 'condition.threshold')}
        />
      </Pair>
      <TextField
        label={`Is over ${draft.operator === 'above' ? 'below' : 'above'}`}
        inputMode="decimal"
        unit={unit}
        value={draft.clear}
        onChange={clear => onChange({ clear })}
        placeholder={draft.threshold}
        hint="A value near the threshold then does not open and resolve it again and again. By default the threshold."
        fault={faultAt(faults, 'condition.clear_threshold')}
      />
      <Pair>
        <Window {...props} />
        <TextField
          label={isTrace ? 'From so many traces on' : 'From so many requests on'}
          inputMode="numeric"
          value={draft.least}
          onChange={least => onChange({ least })}
          hint="With fewer, no incident opens: one failure of three is no rate."
          fault={faultAt(faults, isTrace ? 'condition.min_traces' : 'condition.min_requests')}
        />
      </Pair>
    </>
  )
}

function ProjectField({ workspace, draft, onChange, faults, rule }: Props) {
  const { items } = useOffsetPages(
    workspace,
    'GET /sessions',
    { query: { reference_free: true, sort_by: 'name', sort_by_desc: false } },
    { pageSize: 100 },
  )
  const projects = (items ?? []).map(({ id, name }) => ({ value: id, label: name }))
  return (
    <SelectField
      label="Project"
      value={draft.project}
      options={[
        { value: '', label: 'Choose a project' },
        ...projects,
        ...(rule && !projects.some(({ value }) => value === draft.project)
          ? [{ value: draft.project, label: draft.project }]
          : []),
      ]}
      onChange={project => onChange({ project })}
      unavailable={rule && 'The project of a rule stays. For another one, create another rule.'}
      fault={faultAt(faults, 'condition.project_id')}
    />
  )
}

function LogFields(props: Props) {
  const { draft, onChange, faults } = props
  return (
    <>
      <TextField
        label="Text"
        value={draft.contains}
        onChange={contains => onChange({ contains })}
        hint="In any case. No pattern."
        fault={faultAt(faults, 'condition.contains')}
      />
      <Pair>
        <SelectField
          label="Level"
          value={draft.level}
          options={LEVEL_OPTIONS}
          onChange={level => onChange({ level })}
          fault={faultAt(faults, 'condition.level')}
        />
        <TextField
          label="Process type"
          mono
          value={draft.process}
          onChange={process => onChange({ process })}
          placeholder="web"
          hint="Without it, all processes."
          fault={faultAt(faults, 'condition.process')}
        />
      </Pair>
      <Pair>
        <TextField
          label="At least"
          inputMode="numeric"
          unit="lines"
          value={draft.count}
          onChange={count => onChange({ count })}
          fault={faultAt(faults, 'condition.count')}
        />
        <Window {...props} />
      </Pair>
    </>
  )
}

const EventFields = ({ draft, onChange, faults }: Props) => (
  <>
    <TextField
      label="Types of events that open it"
      mono
      rows={2}
      value={draft.types}
      onChange={types => onChange({ types })}
      placeholder="revision.build_failed"
      hint="One in each line. `*` stands for any text."
      fault={faultAt(faults, 'condition.types')}
    />
    <TextField
      label="Types of events that end it"
      mono
      rows={2}
      value={draft.ends}
      onChange={ends => onChange({ ends })}
      placeholder="revision.deployed"
      hint="Without any, time ends it."
      fault={faultAt(faults, 'condition.ends')}
    />
  </>
)

function ChannelFields({ workspace, draft, onChange, faults }: Props) {
  const { items } = usePages(workspace, 'GET /v2/channels', { query: { limit: 100 } })
  const shared = (items ?? []).filter(({ is_own }) => !is_own).map(({ id, name }) => ({ value: id, label: name }))
  return (
    <>
      <Choices
        legend="Who is told"
        value={draft.hasDefaultChannels ? 'default' : 'some'}
        onChange={value => onChange({ hasDefaultChannels: value === 'default' })}
        options={[
          { value: 'default', label: 'The default channels' },
          { value: 'some', label: 'Selected channels', detail: 'Of the workspace, not those of a person.' },
        ]}
      />
      {!draft.hasDefaultChannels && (
        <Inside>
          <ChipChoice
            legend="Channels"
            options={shared}
            chosen={draft.channels}
            onChange={channels => onChange({ channels })}
            {...(items && shared.length === 0 && { hint: 'The workspace has no channels yet.' })}
            fault={faultAt(faults, 'channel_ids')}
          />
        </Inside>
      )}
    </>
  )
}
