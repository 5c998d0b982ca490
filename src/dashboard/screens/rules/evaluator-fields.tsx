// The fields of a rule's evaluator, and a try of it on the latest run that matches.
import { useState } from 'preact/hooks'
import { request } from '../../api/action-command.ts'
import type { Action } from '../../api/actions.ts'
import type { Reply } from '../../api/client.ts'
import { type Faults, faultAt } from '../../api/faults.ts'
import { explainMissingHere } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Note } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Link } from '../../router/links.tsx'
import type { NewRule, Rule } from './actions.ts'
import { type EvaluatorDraft, isShown, KINDS, NEW_SCORE, type ScoreDraft } from './evaluator-draft.ts'
import { describeVerdict } from './rule-state.ts'
import styles from './rules.module.css'

const MAX_SCORES = 10
const PLACE = 'evaluators.0.structured'

type Props = {
  workspace: string
  draft: EvaluatorDraft
  onChange: (part: Partial<EvaluatorDraft>) => void
  faults: Faults
  /** The request of the form. */
  sample: NewRule
  rule: Rule | undefined
}
export function EvaluatorFields({ workspace, draft, onChange, faults, sample, rule }: Props) {
  const models = usePages(workspace, 'GET /v1/model-configurations', { query: { limit: 100 } })
  if (rule && !isShown(rule))
    return (
      <section class={styles.section} aria-label="Evaluators">
        <h3>Evaluate runs with a model</h3>
        <Note>
          The evaluators of this rule have settings that this form does not support. Change them with the API.
        </Note>
      </section>
    )
  const setScore = (place: number, part: Partial<ScoreDraft>) =>
    onChange({ scores: draft.scores.map((one, i) => (i === place ? { ...one, ...part } : one)) })
  return (
    <section class={styles.section} aria-label="Evaluator">
      <h3>Evaluate runs with a model</h3>
      <div class={styles.fields}>
        <SelectField
          label="Model"
          value={draft.model}
          onChange={model => onChange({ model })}
          options={[
            { value: '', label: 'No model' },
            ...(models.items ?? []).map(({ id, name, model }) => ({ value: id, label: `${name} (${model})` })),
          ]}
          hint={
            models.items?.length === 0 ? (
              <>
                No models yet. <Link to="/models/new">Create one</Link>.
              </>
            ) : (
              'One call per run. The scores are stored as feedback.'
            )
          }
          fault={faultAt(faults, `${PLACE}.playground_settings_id`)}
        />
        {draft.model && (
          <>
            <TextField
              label="Weekly limit"
              inputMode="decimal"
              unit="USD"
              value={draft.limit}
              onChange={limit => onChange({ limit })}
              hint="Needs prices on the model. Budgets apply too."
              fault={faultAt(faults, 'spend_limit') && 'must be a number of dollars, from 0.01'}
            />
            <TextField label="System prompt" rows={2} value={draft.system} onChange={system => onChange({ system })} />
            <TextField
              label="Prompt"
              rows={5}
              mono
              value={draft.prompt}
              onChange={prompt => onChange({ prompt })}
              hint={
                draft.format === 'mustache'
                  ? 'Variables: {{input}}, {{output}}, {{reference}}, {{metadata}}, {{error}}, {{name}}, and places within ' +
                    'them: {{input.question}}.'
                  : 'Variables: {input}, {output}, {reference}, {metadata}, {error}, {name}, and places within them.'
              }
              fault={findFault(faults, 'prompt') ?? findFault(faults, 'variable_mapping')}
            />
            {draft.scores.map((score, i) => (
              <fieldset key={i} class={styles.score}>
                <legend>{`Score ${i + 1}`}</legend>
                <TextField
                  label="Feedback key"
                  mono
                  value={score.key}
                  onChange={key => setScore(i, { key })}
                  placeholder="helpful"
                />
                <SelectField
                  label="Type"
                  value={score.kind}
                  onChange={kind => setScore(i, { kind: kind as ScoreDraft['kind'] })}
                  options={[...KINDS]}
                />
                <TextField
                  label="Criterion"
                  value={score.description}
                  onChange={description => setScore(i, { description })}
                  placeholder="The answer helps the person who asked."
                />
                {draft.scores.length > 1 && (
                  <Button small onClick={() => onChange({ scores: draft.scores.filter((_, at) => at !== i) })}>
                    Remove score
                  </Button>
                )}
              </fieldset>
            ))}
            {findFault(faults, 'schema') && <Note>{findFault(faults, 'schema')}</Note>}
            <div class={styles.tries}>
              <Button
                small
                unavailable={
                  draft.scores.length >= MAX_SCORES ? `An evaluator has at most ${MAX_SCORES} scores.` : undefined
                }
                onClick={() => onChange({ scores: [...draft.scores, NEW_SCORE] })}
              >
                Add score
              </Button>
              <TryIt sample={sample} />
            </div>
          </>
        )}
      </div>
    </section>
  )
}

/** The form has one field for it, so the place within it says nothing. */
const findFault = (faults: Faults, member: string): string | undefined =>
  [...faults].find(([at]) => at.startsWith(`${PLACE}.${member}`))?.[1]

const tryEvaluator = (body: NewRule): Action => ({
  label: 'Test on the latest run',
  request: request('POST /runs/rules/validate', { body }),
  unavailable: explainMissingHere('models:invoke'),
  done: 'The evaluator has run.',
})

function TryIt({ sample }: { sample: NewRule }) {
  const [verdicts, setVerdicts] = useState<Reply<'POST /runs/rules/validate'>>()
  const { start, busy, error } = useAction({
    showsError: true,
    onDone: reply => setVerdicts(reply as Reply<'POST /runs/rules/validate'>),
  })
  const action = tryEvaluator({ ...sample, display_name: sample.display_name || 'Try' })
  return (
    <>
      <Button small busy={busy} onClick={() => start(action)}>
        {action.label}
      </Button>
      <div class={styles.verdict} role="status">
        {error && <Problem error={error} />}
        {!error && verdicts?.length === 0 && <Note>No completed run matches.</Note>}
        {!error &&
          verdicts?.map(({ run_id, run_name, outcome, payload }) => (
            <div key={run_id}>
              <p>
                Of <Link to={`/traces/run/${run_id}`}>{run_name ?? run_id}</Link>:{' '}
                {payload.feedback.map(one => (
                  <Badge key={one.key} tone={one.score === false ? 'warn' : 'ok'}>
                    {describeVerdict(one)}
                  </Badge>
                ))}
                {outcome !== 'success' && (
                  <Badge tone={outcome === 'error' ? 'bad' : 'idle'}>{payload.reason ?? outcome}</Badge>
                )}
              </p>
              <Note>{payload.feedback[0]?.comment ?? payload.message}</Note>
            </div>
          ))}
      </div>
    </>
  )
}
