// The fields of a rule: which runs it is about, and what is done with them.

import { type Faults, faultAt } from '../../api/faults.ts'
import { useOffsetPages } from '../../api/offset-pages.ts'
import { CheckField, SelectField, TextField } from '../../parts/form.tsx'
import type { NewRule, Rule, RulePatch } from './actions.ts'
import {
  EMPTY_EVALUATOR,
  type EvaluatorDraft,
  toEvaluatorDraft,
  toEvaluators,
  toSpendLimit,
} from './evaluator-draft.ts'
import { EvaluatorFields } from './evaluator-fields.tsx'
import styles from './rules.module.css'

export type Draft = {
  name: string
  project: string
  filter: string
  traceFilter: string
  percent: string
  dataset: string
  queue: string
  prefersCorrection: boolean
  urls: string
  extends: boolean
  backfillFrom: string
  evaluator: EvaluatorDraft
}
export const EMPTY_DRAFT: Draft = {
  name: '',
  project: '',
  filter: '',
  traceFilter: '',
  percent: '100',
  dataset: '',
  queue: '',
  prefersCorrection: false,
  urls: '',
  extends: false,
  backfillFrom: '',
  evaluator: EMPTY_EVALUATOR,
}
export const toDraft = (rule: Rule): Draft => ({
  name: rule.display_name,
  project: rule.session_id ?? '',
  filter: rule.filter ?? '',
  traceFilter: rule.trace_filter ?? '',
  percent: String(Number((rule.sampling_rate * 100).toFixed(4))),
  queue: rule.add_to_annotation_queue_id ?? '',
  dataset: rule.add_to_dataset_id ?? '',
  prefersCorrection: rule.add_to_dataset_prefer_correction,
  urls: rule.webhooks.map(({ url }) => url).join('\n'),
  extends: rule.extend_only,
  backfillFrom: '',
  evaluator: toEvaluatorDraft(rule),
})

const listUrls = (text: string): string[] => text.split(/\s+/).filter(Boolean)

const toActions = (draft: Draft) => ({
  display_name: draft.name.trim(),
  // Send invalid numbers as none: the API explains what is expected.
  sampling_rate: Number(draft.percent.replace(',', '.')) / 100,
  filter: draft.filter.trim() || null,
  trace_filter: draft.traceFilter.trim() || null,
  add_to_dataset_id: draft.dataset || null,
  add_to_annotation_queue_id: draft.queue || null,
  add_to_dataset_prefer_correction: draft.dataset !== '' && draft.prefersCorrection,
  extend_only: draft.extends,
})

export const toNewRule = (draft: Draft): NewRule => ({
  ...toActions(draft),
  session_id: draft.project || null,
  ...(draft.evaluator.model && {
    evaluators: toEvaluators(draft.evaluator),
    spend_limit: toSpendLimit(draft.evaluator),
  }),
  ...(listUrls(draft.urls).length > 0 && { webhooks: listUrls(draft.urls).map(url => ({ url })) }),
  ...(draft.backfillFrom && { backfill_from: new Date(draft.backfillFrom).toISOString() }),
})

/**
 * Webhooks are sent only if they change: their headers are not shown, and would be lost. So are evaluators, which take
 * permissions of their own.
 */
export function toPatch(rule: Rule, draft: Draft): RulePatch {
  const urls = listUrls(draft.urls)
  const isSame = urls.join() === rule.webhooks.map(({ url }) => url).join()
  const isJudged = JSON.stringify(draft.evaluator) !== JSON.stringify(toEvaluatorDraft(rule))
  return {
    ...toActions(draft),
    ...(!isSame && { webhooks: urls.map(url => ({ url })) }),
    ...(isJudged && { evaluators: toEvaluators(draft.evaluator), spend_limit: toSpendLimit(draft.evaluator) }),
  }
}

type Props = {
  workspace: string
  draft: Draft
  onChange: (part: Partial<Draft>) => void
  faults: Faults
  /** Its project or dataset cannot change. */
  rule?: Rule
}
export function RuleFields({ workspace, draft, onChange, faults, rule }: Props) {
  const projects = useOffsetPages(
    workspace,
    'GET /sessions',
    { query: { reference_free: true, sort_by: 'name', sort_by_desc: false } },
    { pageSize: 100, enabled: !rule },
  )
  const datasets = useOffsetPages(
    workspace,
    'GET /datasets',
    { query: { sort_by: 'name', sort_by_desc: false } },
    { pageSize: 100 },
  )
  const queues = useOffsetPages(workspace, 'GET /annotation-queues', { query: {} }, { pageSize: 100 })
  const toOptions = (items: { id: string; name: string }[] | undefined, none: string) => [
    { value: '', label: none },
    ...(items ?? []).map(({ id, name }) => ({ value: id, label: name })),
  ]
  return (
    <div class={styles.fields}>
      <TextField
        label="Name"
        value={draft.name}
        onChange={name => onChange({ name })}
        placeholder="Failed answers"
        fault={faultAt(faults, 'display_name')}
      />
      <SelectField
        label="Project"
        value={draft.project}
        onChange={project => onChange({ project })}
        options={
          rule
            ? [{ value: draft.project, label: rule.session_name ?? rule.dataset_name ?? 'Dataset of the rule' }]
            : toOptions(projects.items, 'Choose a project')
        }
        unavailable={rule && 'The project of a rule cannot be changed.'}
        fault={faultAt(faults, 'session_id') && (draft.project ? faultAt(faults, 'session_id') : 'must be chosen')}
      />
      <TextField
        label="Sampling rate"
        inputMode="decimal"
        unit="%"
        value={draft.percent}
        onChange={percent => onChange({ percent })}
        hint="Sampled by trace: all runs of a trace, or none."
        fault={faultAt(faults, 'sampling_rate') && 'must be a number from 0 to 100'}
      />
      <TextField
        label="Filter for runs"
        mono
        wide
        value={draft.filter}
        onChange={filter => onChange({ filter })}
        placeholder='and(eq(is_root, true), eq(status, "error"))'
        hint="In the filter language. By default all runs match."
        fault={faultAt(faults, 'filter')}
      />
      <TextField
        label="Filter for the root run of the trace"
        mono
        wide
        value={draft.traceFilter}
        onChange={traceFilter => onChange({ traceFilter })}
        placeholder='has(tags, "beta")'
        fault={faultAt(faults, 'trace_filter')}
      />
      <SelectField
        label="Add runs to dataset"
        value={draft.dataset}
        onChange={dataset => onChange({ dataset })}
        options={toOptions(datasets.items, 'None')}
        fault={faultAt(faults, 'add_to_dataset_id')}
      />
      <SelectField
        label="Add runs to annotation queue"
        value={draft.queue}
        onChange={queue => onChange({ queue })}
        options={toOptions(queues.items, 'None')}
        fault={faultAt(faults, 'add_to_annotation_queue_id')}
      />
      <TextField
        label="Send runs to URLs"
        mono
        rows={2}
        value={draft.urls}
        onChange={urls => onChange({ urls })}
        placeholder="https://ci.example.com/runs"
        hint="One URL per line, at most five. Messages are signed."
        fault={faultAt(faults, 'webhooks')}
      />
      <CheckField
        label="Extend trace retention"
        hint="Traces move to the long-lived tier."
        checked={draft.extends}
        onChange={value => onChange({ extends: value })}
        fault={faultAt(faults, 'extend_only')}
      />
      {draft.dataset && (
        <CheckField
          label="Prefer corrections"
          hint="Use the correction from feedback as the expected output."
          checked={draft.prefersCorrection}
          onChange={prefersCorrection => onChange({ prefersCorrection })}
        />
      )}
      <EvaluatorFields
        workspace={workspace}
        draft={draft.evaluator}
        onChange={part => onChange({ evaluator: { ...draft.evaluator, ...part } })}
        faults={faults}
        sample={{ ...toNewRule(draft), ...(rule && { session_id: rule.session_id, dataset_id: rule.dataset_id }) }}
        rule={rule}
      />
      {!rule && <Backfill draft={draft} onChange={onChange} fault={faultAt(faults, 'backfill_from')} />}
    </div>
  )
}

const DAY_MS = 86_400_000
const AGES = [
  { value: '', label: 'New runs only' },
  { value: '1', label: 'Include runs of the last day' },
  { value: '7', label: 'Include runs of the last 7 days' },
  { value: '14', label: 'Include runs of the last 14 days' },
]

type BackfillProps = { draft: Draft; onChange: Props['onChange']; fault: string | undefined }
const Backfill = ({ draft, onChange, fault }: BackfillProps) => (
  <SelectField
    label="Backfill"
    value={AGES.find(({ value }) => value && draft.backfillFrom.startsWith(dayBefore(value)))?.value ?? ''}
    onChange={days => onChange({ backfillFrom: days && `${dayBefore(days)}T00:00:00Z` })}
    options={AGES}
    hint="Earlier runs are processed in the background."
    fault={fault}
  />
)
const dayBefore = (days: string): string => new Date(Date.now() - Number(days) * DAY_MS).toISOString().slice(0, 10)
