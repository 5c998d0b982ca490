// The form of a job, and of a config that is saved for later.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { type Faults, faultAt, listFaults } from '../../api/faults.ts'
import { usePages } from '../../api/queries.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Fields, SelectField, TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { toAddress } from '../../router/links.tsx'
import { createConfig, createJob, type NewJob } from './actions.ts'
import styles from './insights.module.css'

const SCHEDULES = [
  { value: '', label: 'Once, now' },
  { value: '0 8 * * *', label: 'Every day at 8:00 UTC' },
  { value: '0 8 * * 1', label: 'Every Monday at 8:00 UTC' },
]
const SPANS = [
  { value: '24', label: 'The last day' },
  { value: '168', label: 'The last week' },
  { value: '720', label: 'The last 30 days' },
]

type Draft = {
  name: string
  model: string
  hours: string
  filter: string
  sample: string
  hierarchy: string
  question: string
  prompt: string
  cron: string
}
const EMPTY: Draft = {
  name: '',
  model: '',
  hours: '168',
  filter: '',
  sample: '',
  hierarchy: '',
  question: '',
  prompt: '',
  cron: '',
}
const QUESTION = 'What would you like to learn about your application?'

/** Send invalid numbers unchanged: the API explains what is expected. */
const toNumber = (text: string) => (Number.isNaN(Number(text)) ? (text as unknown as number) : Number(text))

function toRequest(draft: Draft, model: string): NewJob {
  const { name, hours, filter, sample, hierarchy, question, prompt } = draft
  return {
    model,
    last_n_hours: Number(hours),
    ...(name.trim() && { name: name.trim() }),
    ...(filter.trim() && { filter: filter.trim() }),
    ...(sample.trim() && { sample: toNumber(sample) }),
    ...(hierarchy.trim() && {
      hierarchy: hierarchy
        .split(/[\s,]+/)
        .filter(Boolean)
        .map(toNumber),
    }),
    ...(prompt.trim() && { summary_prompt: prompt.trim() }),
    ...(question.trim() && model !== 'none' && { user_context: { [QUESTION]: question.trim() } }),
  }
}

type Props = { workspace: string; project: string; onClose: () => void }
export function JobForm({ workspace, project, onClose }: Props) {
  const [draft, setDraft] = useState(EMPTY)
  const [, navigate] = useLocation()
  const models = usePages(workspace, 'GET /v1/model-configurations', { query: { limit: 100 } })
  const { start, busy, error } = useAction({
    showsError: true,
    onDone: reply => {
      onClose()
      const { status, id } = reply as Reply<'POST /sessions/{session_id}/insights'>
      if (status) navigate(toAddress(`/traces/${project}/insights/${id}`))
    },
  })
  const model = draft.model || models.items?.[0]?.name || 'none'
  const request = toRequest(draft, model)
  const action = draft.cron
    ? createConfig(project, { name: draft.name.trim(), config: request, schedule_cron: draft.cron })
    : createJob(project, request)
  const faults = listFaults(error)
  return (
    <Card title="New insights">
      <Form
        label="New insights"
        error={error}
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
              {action.label}
            </Button>
            <Button onClick={onClose}>Cancel</Button>
            <CopyAs action={action} />
          </>
        }
      >
        <div class={styles.fields}>
          <JobFields
            draft={draft}
            model={model}
            models={(models.items ?? []).map(({ name }) => name)}
            onChange={part => setDraft(before => ({ ...before, ...part }))}
            fault={name => faultAt(faults, name) ?? faultAt(faults, `config.${name}`)}
            faults={faults}
          />
        </div>
      </Form>
    </Card>
  )
}

type FieldsProps = {
  draft: Draft
  model: string
  models: string[]
  onChange: (part: Partial<Draft>) => void
  fault: (name: string) => string | undefined
  faults: Faults
}
const JobFields = ({ draft, model, models, onChange, fault, faults }: FieldsProps) => (
  <Fields>
    <TextField
      label="Name"
      value={draft.name}
      onChange={name => onChange({ name })}
      placeholder="Questions of users"
      fault={fault('name')}
    />
    <SelectField
      label="Model"
      value={model}
      onChange={value => onChange({ model: value })}
      options={[
        ...models.map(name => ({ value: name, label: name })),
        { value: 'none', label: 'None: the lexical method' },
      ]}
      hint={
        model === 'none'
          ? 'Groups traces by shared words, and names each group by its most significant words. There are no ' +
            'summaries and no report.'
          : 'The model summarizes each trace in one call. A few more calls find clusters and write a report.'
      }
      fault={fault('model')}
    />
    <SelectField
      label="Traces of"
      value={draft.hours}
      onChange={hours => onChange({ hours })}
      options={SPANS}
      fault={fault('last_n_hours')}
    />
    <SelectField
      label="When"
      value={draft.cron}
      onChange={cron => onChange({ cron })}
      options={SCHEDULES}
      fault={faultAt(faults, 'schedule_cron')}
    />
    {model !== 'none' && (
      <TextField
        label="What would you like to learn?"
        wide
        rows={2}
        value={draft.question}
        onChange={question => onChange({ question })}
        placeholder="Where does the assistant not help, and why?"
        fault={fault('user_context')}
      />
    )}
    <TextField
      label="Filter of the traces"
      mono
      wide
      value={draft.filter}
      onChange={filter => onChange({ filter })}
      placeholder='eq(status, "error")'
      hint="In the filter language, about the first run of a trace."
      fault={fault('filter')}
    />
    <TextField
      label="Sample"
      inputMode="decimal"
      value={draft.sample}
      onChange={sample => onChange({ sample })}
      placeholder="1000"
      hint="A number of traces, or a share such as 0.1."
      fault={fault('sample')}
    />
    <TextField
      label="Clusters by level"
      value={draft.hierarchy}
      onChange={hierarchy => onChange({ hierarchy })}
      placeholder="20, 5"
      hint="The finest level first."
      fault={fault('hierarchy')}
    />
    <TextField
      label="Prompt template for a trace"
      mono
      wide
      rows={3}
      value={draft.prompt}
      onChange={prompt => onChange({ prompt })}
      placeholder="{{run.inputs}}"
      hint="By default inputs, outputs and the error."
      fault={fault('summary_prompt')}
    />
  </Fields>
)
