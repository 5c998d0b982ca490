// Starts an insights job.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { usePages } from '../../api/queries.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Card } from '../../parts/panel.tsx'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screens.tsx'
import { type NewInsightJob, startInsights } from './insight-actions.ts'
import styles from './insights.module.css'
import { ProjectFrame } from './project-frame.tsx'

const HOURS = [
  { value: '24', label: 'Of the last 24 hours' },
  { value: '168', label: 'Of the last 7 days' },
  { value: '720', label: 'Of the last 30 days' },
]
const QUESTION = 'What would you like to learn about your agent?'
const NO_MODEL = 'none'

type Draft = { name: string; hours: string; model: string; question: string; sizes: string } & Record<
  'categories' | 'filter' | 'prompt',
  string
>
const EMPTY: Draft = {
  ...{ name: '', hours: '168', model: '', question: '', sizes: '' },
  ...{ categories: '', filter: '', prompt: '' },
}

/** What is no number is sent as it is, so that the API says what it has to be. */
const readSizes = (text: string): number[] =>
  text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(Number)

/** `Billing: about money`, one in each line. */
const readCategories = (text: string): Record<string, string> =>
  Object.fromEntries(
    text
      .split('\n')
      .map(line => line.split(':'))
      .map(([name, ...description]) => [name!.trim(), description.join(':').trim()] as const)
      .filter(([name]) => name !== ''),
  )

function toJob(draft: Draft, model: string): NewInsightJob {
  const { name, hours, question, sizes, categories, filter, prompt } = draft
  const isLexical = model === NO_MODEL
  return {
    last_n_hours: Number(hours),
    model,
    ...(name.trim() && { name: name.trim() }),
    ...(sizes.trim() && { hierarchy: readSizes(sizes) }),
    ...(categories.trim() && { partitions: readCategories(categories) }),
    ...(filter.trim() && { filter: filter.trim() }),
    ...(prompt.trim() && { summary_prompt: prompt }),
    ...(question.trim() && !isLexical && { user_context: { [QUESTION]: question.trim() } }),
  }
}

export default function NewInsights({ workspace, params }: ScreenProps<{ project: string }>) {
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="/insights">
      {project => <NewJob workspace={workspace} project={project.id} />}
    </ProjectFrame>
  )
}

function NewJob({ workspace, project }: { workspace: string; project: string }) {
  const to = `/traces/${project}/insights`
  const [draft, setDraft] = useState(EMPTY)
  const [, navigate] = useLocation()
  // Who may not read the models can still sort by words.
  const models = usePages(workspace, 'GET /v1/model-configurations', { query: { limit: 100 } })
  const options = [
    ...(models.items ?? []).map(({ id, name, model }) => ({ value: id, label: `${name} (${model})` })),
    { value: NO_MODEL, label: 'No model: group by words' },
  ]
  const model = draft.model || options[0]!.value
  const { start, busy, error } = useAction({
    showsError: true,
    onDone: reply => navigate(toAddress(`${to}/${(reply as Reply<'POST /sessions/{session_id}/insights'>).id}`)),
  })
  const faults = listFaults(error)
  const action = startInsights(project, toJob(draft, model))
  const change = (name: keyof Draft) => (value: string) => setDraft(before => ({ ...before, [name]: value }))
  return (
    <Card title="Start an insights job">
      <Form
        label="Start an insights job"
        error={error}
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy} title={action.unavailable}>
              {action.label}
            </Button>
            <ButtonLink href={toAddress(to)}>Cancel</ButtonLink>
            <CopyAs action={action} />
          </>
        }
      >
        <div class={styles.fields}>
          <TextField
            label="Name"
            value={draft.name}
            onChange={change('name')}
            placeholder="What people ask"
            fault={faultAt(faults, 'name')}
          />
          <SelectField
            label="Traces"
            value={draft.hours}
            onChange={change('hours')}
            options={HOURS}
            hint="The newest ones, at most a thousand."
            fault={faultAt(faults, 'last_n_hours')}
          />
          <SelectField
            label="Model"
            value={model}
            onChange={change('model')}
            options={options}
            hint={
              model === NO_MODEL ? 'There are no summaries and no report.' : 'One call for each trace, and about 40.'
            }
            fault={faultAt(faults, 'model')}
          />
          <TextField
            label="Clusters of each level"
            value={draft.sizes}
            onChange={change('sizes')}
            placeholder="12, 4"
            hint="From the finest level to the broadest. Without numbers, they follow from the traces."
            fault={faultAt(faults, 'hierarchy')}
          />
          {model !== NO_MODEL && (
            <TextField
              label="What would you like to learn?"
              wide
              rows={2}
              value={draft.question}
              onChange={change('question')}
              placeholder="Where do people give up, and why?"
              fault={faultAt(faults, 'user_context')}
            />
          )}
          <TextField
            label="Categories that are known"
            wide
            rows={2}
            value={draft.categories}
            onChange={change('categories')}
            placeholder={'Billing: invoices and refunds'}
            hint="One in each line, with its description. They become the broadest level."
            fault={faultAt(faults, 'partitions')}
          />
          <TextField
            label="Filter of the traces"
            mono
            wide
            value={draft.filter}
            onChange={change('filter')}
            placeholder='eq(status, "error")'
            fault={faultAt(faults, 'filter')}
          />
          <TextField
            label="Prompt of the summaries"
            mono
            wide
            rows={4}
            value={draft.prompt}
            onChange={change('prompt')}
            placeholder={'Say what the user wanted, and whether they got it.\n\n{{run.inputs}}\n{{run.outputs}}'}
            hint="Variables: run.inputs, run.outputs, run.error, run.feedback, all_thread_messages."
            fault={faultAt(faults, 'summary_prompt')}
          />
        </div>
      </Form>
    </Card>
  )
}
