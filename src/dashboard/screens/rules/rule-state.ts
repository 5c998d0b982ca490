// Automation rules and what they did, in words (pure).
import { formatShare } from '../../format/amount.ts'
import type { State } from '../../format/state.ts'
import type { Rule, RuleLog } from './actions.ts'

export function stateOfRule({ is_enabled, backfill_status }: Rule): State {
  if (!is_enabled) return { word: 'Paused', tone: 'idle', shape: 'held' }
  if (backfill_status === 'waiting' || backfill_status === 'running')
    return { word: 'Backfilling', tone: 'busy', shape: 'arc' }
  return { word: 'Active', tone: 'ok', shape: 'check' }
}

export const describeScope = ({ session_name, dataset_name, dataset_id }: Rule): string =>
  dataset_id ? `Experiments on ${dataset_name ?? 'a dataset'}` : `Runs of ${session_name ?? 'a project'}`

export function describeActions(rule: Rule): string[] {
  const { add_to_dataset_id, add_to_dataset_name, webhooks, extend_only, add_to_annotation_queue_id } = rule
  return [
    ...(add_to_dataset_id ? [`Add to ${add_to_dataset_name ?? 'a dataset'}`] : []),
    ...(add_to_annotation_queue_id ? [`Queue in ${rule.add_to_annotation_queue_name ?? 'a queue'}`] : []),
    ...(rule.evaluators.length > 0 || rule.evaluator_id ? [`Evaluate ${listKeys(rule).join(', ')}`.trim()] : []),
    ...(rule.alerts.length > 0 ? ['Alert PagerDuty'] : []),
    ...(webhooks.length > 0 ? [webhooks.length === 1 ? 'Send to a URL' : `Send to ${webhooks.length} URLs`] : []),
    ...(extend_only ? ['Extend retention'] : []),
  ]
}

export const listKeys = ({ evaluators, evaluator_name }: Rule): string[] => [
  ...evaluators.flatMap(({ structured: { schema } }) =>
    Object.keys(schema.properties ?? {}).filter(key => !['comment', 'reasoning', 'explanation'].includes(key)),
  ),
  ...(evaluator_name ? [`by ${evaluator_name}`] : []),
]

type Verdict = { key: string; score?: number | boolean | undefined; value?: string | undefined }
/** `helpful yes`, `score 0.75` or `tone kind`. */
export function describeVerdict({ key, score, value }: Verdict): string {
  if (typeof score === 'boolean') return `${key} ${score ? 'yes' : 'no'}`
  return `${key} ${score === undefined ? (value ?? '') : Number(score.toFixed(2))}`
}

export const describeSampling = ({ sampling_rate }: Pick<Rule, 'sampling_rate'>): string =>
  sampling_rate === 1 ? 'All traces' : `${formatShare(sampling_rate)} of the traces`

const OUTCOMES: Record<'success' | 'skipped' | 'error', State> = {
  success: { word: 'Succeeded', tone: 'ok', shape: 'check' },
  skipped: { word: 'Skipped', tone: 'idle', shape: 'struck' },
  error: { word: 'Failed', tone: 'bad', shape: 'octagon' },
}
export type Did = { what: string; state: State; detail: string | undefined }

function readVerdicts(payload: Record<string, unknown> | null): string | undefined {
  const evaluations = (payload?.evaluations ?? []) as { feedback: (Verdict & { comment?: string })[] }[]
  const said = evaluations.flatMap(({ feedback }) => feedback)
  const comments = new Set(said.flatMap(({ comment }) => comment || []))
  return said.length > 0 ? [said.map(describeVerdict).join(', '), ...comments].join(': ') : undefined
}

/** Reads the reason of a skip or failure from its payload. */
function readDetail(payload: Record<string, unknown> | null): string | undefined {
  const found = ['message', 'reason', 'error', 'detail']
    .map(name => payload?.[name])
    .find(one => typeof one === 'string')
  return found as string | undefined
}

export function listDone(log: RuleLog): Did[] {
  const parts = [
    ['Evaluator', log.evaluators],
    ['Alert', log.alerts],
    ['Dataset', log.add_to_dataset],
    ['Queue', log.add_to_annotation_queue],
    ['URL', log.webhooks],
    ['Retention', log.extend_only],
  ] as const
  return parts.flatMap(([what, one]) =>
    one ? [{ what, state: OUTCOMES[one.outcome], detail: readVerdicts(one.payload) ?? readDetail(one.payload) }] : [],
  )
}
