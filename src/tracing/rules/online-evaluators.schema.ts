// Schemas of evaluators that several rules use.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { boundedText, commaSeparated, exactName, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { MAX_KEY_LENGTH } from '../feedback/feedback.schema.ts'
import { flag, idFilter, JsonObject, jsonFilter, offsetPage, Time } from '../runs/list-parameters.schema.ts'
import {
  EVALUATOR_EXAMPLE,
  NEEDS_MODEL,
  notSupported,
  promptPatchShape,
  promptShape,
  ShownStructured,
} from './evaluators.schema.ts'

export const EvaluatorRef = z.object({ evaluator_id: Uuid })

const NO_HUB = 'Send `prompt` and `schema`.'
const NO_CODE = 'It would run in the control plane. Send the runs to your evaluator by `webhooks` of a rule.'
const unsupportedShape = {
  prompt_repo_handle: notSupported(NO_HUB),
  commit_hash_or_tag: notSupported(NO_HUB),
  num_few_shot_examples: notSupported('Write examples into the `prompt`.'),
  use_corrections_dataset: notSupported('Write examples into the `prompt`.'),
}
const TYPES = ['llm', 'code', 'decision_model'] as const
const shape = {
  name: label(256),
  code_evaluator: notSupported(NO_CODE),
  metadata: JsonObject.nullish(),
}

export const NewOnlineEvaluator = z
  .object({
    ...shape,
    type: z
      .enum(TYPES)
      .default('llm')
      .refine(type => type === 'llm', { error: `must be \`llm\`. ${NO_CODE}` })
      .meta({ enum: ['llm'] }),
    llm_evaluator: z.object({ ...promptShape, ...unsupportedShape }).meta(NEEDS_MODEL),
  })
  .meta({
    id: 'NewOnlineEvaluator',
    description: 'A prompt that several rules use.',
    example: { name: 'Helpfulness', type: 'llm', llm_evaluator: EVALUATOR_EXAMPLE.structured },
  })
export type NewOnlineEvaluator = z.output<typeof NewOnlineEvaluator>

export const OnlineEvaluatorPatch = z
  .object({
    ...shape,
    name: shape.name.optional(),
    llm_evaluator: z.object({ ...promptPatchShape, ...unsupportedShape }).optional(),
  })
  .meta({
    id: 'OnlineEvaluatorPatch',
    description: 'Members that are absent stay as they are. Rules use the change from their next run on.',
    example: { name: 'Helpfulness of answers' },
  })
export type OnlineEvaluatorPatch = z.output<typeof OnlineEvaluatorPatch>

const SpendLimit = z.object({ limit_usd: z.number(), utilization_pct: z.number(), window: z.literal('weekly') })

export const OnlineEvaluator = z
  .object({
    id: Uuid,
    tenant_id: Uuid,
    name: z.string(),
    type: z.literal('llm'),
    feedback_keys: z.array(z.string()),
    is_managed: z.literal(false),
    llm_evaluator: z.object({
      evaluator_id: Uuid,
      ...ShownStructured.shape,
      use_corrections_dataset: z.literal(false),
    }),
    metadata: JsonObject.nullable(),
    run_rules: z.array(
      z.object({
        id: Uuid,
        session_id: Uuid.nullable(),
        session_name: z.string().nullable(),
        dataset_id: Uuid.nullable(),
        dataset_name: z.string().nullable(),
        spend_limit: SpendLimit.nullable(),
        spend_usd: z.number().meta({ description: 'In this week, from Monday in UTC.' }),
      }),
    ),
    created_by: z.string().nullable(),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'OnlineEvaluator', description: 'An evaluator that several rules use, with the rules.' })
export type OnlineEvaluator = z.output<typeof OnlineEvaluator>
export const OnlineEvaluatorAnswer = z.object({ evaluator: OnlineEvaluator }).meta({ id: 'OnlineEvaluatorAnswer' })
export const OnlineEvaluatorList = z
  .object({ evaluators: z.array(OnlineEvaluator), total: z.int() })
  .meta({ id: 'OnlineEvaluatorList' })

const SORT_COLUMNS = ['name', 'created_at', 'updated_at'] as const
export const OnlineEvaluatorQuery = z.object({
  ...offsetPage(),
  type: optionalFilter(z.enum(TYPES)).meta({ description: 'Each is of the type `llm`.' }),
  name: exactName('name'),
  name_contains: optionalFilter(boundedText(256)).meta({ description: 'Part of the name. Case does not matter.' }),
  feedback_key: optionalFilter(boundedText(MAX_KEY_LENGTH)),
  resource_id: idFilter('Only evaluators of rules about one of these projects or datasets.'),
  tag_value_id: idFilter('Only evaluators of rules about projects and datasets with all of these tags.'),
  metadata: jsonFilter('A JSON object that `metadata` contains.'),
  sort_by: optionalFilter(z.enum(SORT_COLUMNS)),
  sort_by_desc: flag(true),
})
export type OnlineEvaluatorQuery = z.output<typeof OnlineEvaluatorQuery>

export const DeleteQuery = z.object({
  delete_run_rules: flag(false).meta({ description: 'Also deletes the rules that use it, with their logs.' }),
})
export const BulkDeleteQuery = z
  .object({ ...DeleteQuery.shape, evaluator_ids: commaSeparated(Uuid, 100) })
  .meta({ example: { evaluator_ids: '5d41402a-bc4b-4a76-b971-9d911017c592' } })
export const BulkDeleted = z
  .object({ succeeded: z.array(Uuid), failed: z.array(z.object({ id: Uuid, error: z.string() })) })
  .meta({ id: 'DeletedOnlineEvaluators' })

// ---- spending

const GROUPS = ['evaluator', 'resource', 'run_rule'] as const
export const SpendQuery = z
  .object({
    period_start: boundedText(10)
      .check(z.iso.date())
      .meta({ description: 'The first of seven days, in UTC. Evaluations are kept for a month.' }),
    group_by: optionalFilter(z.enum(GROUPS)),
    evaluator_id: optionalFilter(Uuid),
    session_id: optionalFilter(Uuid),
    dataset_id: optionalFilter(Uuid),
  })
  .refine(({ period_start: _, ...rest }) => Object.values(rest).filter(value => value !== undefined).length === 1, {
    error: 'exactly one of `group_by`, `evaluator_id`, `session_id` and `dataset_id` must be given',
    path: ['group_by'],
  })
  .meta({ example: { period_start: '2026-11-23', group_by: 'evaluator' } })
export type SpendQuery = z.output<typeof SpendQuery>

const Spent = z.object({ date: z.string(), spend_usd: z.number(), trace_count: z.int() })
export const Spending = z
  .object({
    period_start: z.string(),
    period_end: z.string(),
    groups: z.array(
      z.object({
        evaluator_id: Uuid.nullable(),
        evaluator_name: z.string().nullable(),
        run_rule_id: Uuid.nullable(),
        run_rule_name: z.string().nullable(),
        session_id: Uuid.nullable(),
        session_name: z.string().nullable(),
        dataset_id: Uuid.nullable(),
        dataset_name: z.string().nullable(),
        days: z.array(Spent),
        total_spend_usd: z.number(),
        total_trace_count: z.int(),
        prev_total_spend_usd: z.number(),
        prev_total_trace_count: z.int(),
      }),
    ),
  })
  .meta({ id: 'OnlineEvaluatorSpending', description: 'What evaluators cost, as far as prices are known.' })
export type Spending = z.output<typeof Spending>
