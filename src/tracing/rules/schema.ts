// Schemas of automation rules and their logs.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { hasOneOf } from '../../protocol/conditions.ts'
import {
  arrayOf,
  boundedText,
  CREDENTIAL,
  exactName,
  Instant,
  optionalFilter,
  Page,
  parseWholeNumber,
  recordOf,
  Uuid,
} from '../../protocol/wire.ts'
import { flag, idFilter, offsetPage, storableText, Time } from '../runs/list-parameters.schema.ts'
import { Evaluator, MAX_EVALUATORS, notSupported, ShownEvaluator } from './evaluators.schema.ts'

export const MAX_RULES = 200
const MAX_WEBHOOKS = 5
const MAX_ALERTS = 5
export const ALERT_SEVERITIES = ['critical', 'warning', 'error', 'info'] as const
const OUTCOMES = ['success', 'skipped', 'error'] as const
const MAX_FILTER_LENGTH = 20_000

export const RuleRef = z.object({ rule_id: Uuid })
export const RuleIds = z
  .object({ rule_ids: arrayOf(Uuid, MAX_RULES, 1) })
  .meta({ id: 'RunRuleIds', example: { rule_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'] } })

/** Replaces the value of a header in replies. */
export const HIDDEN = '*****'

const OWN_HEADERS = /^(?:webhook-.*|content-type|content-length|host|cookie|connection|transfer-encoding)$/i
const HeaderName = boundedText(100)
  .regex(/^[\w!#$%&'*+.^`|~-]+$/, { error: 'must be the name of an HTTP header' })
  .refine(name => !OWN_HEADERS.test(name), { error: 'is a header that every webhook has. Choose another name' })
const HeaderValue = boundedText(4096)
  .regex(/^[\t\x20-\x7e]*$/, { error: 'must consist of printable ASCII characters' })
  .refine(value => value !== HIDDEN, {
    error: 'stands for a value that is not shown. Send the value, or leave `webhooks` out',
  })
const RuleWebhook = z.object({
  url: boundedText(2048).meta({ format: 'uri', description: '`https` with a public name. It is not redirected.' }),
  headers: recordOf(HeaderName, HeaderValue, 20).nullish().meta({ description: 'Stored encrypted, and not shown.' }),
})

const Filter = boundedText(MAX_FILTER_LENGTH)

const NO_CODE = 'It would run in the control plane. Send the runs to your evaluator by `webhooks`.'
const unsupportedShape = {
  code_evaluators: notSupported(NO_CODE),
  use_corrections_dataset: notSupported('Write examples into the `prompt`.'),
  num_few_shot_examples: notSupported('Write examples into the `prompt`.'),
  create_alignment_queue: notSupported('Use `add_to_annotation_queue_id`.'),
  group_by: notSupported('A rule applies to single runs.'),
}

const RuleAlert = z.object({
  type: z.literal('pagerduty').nullish(),
  routing_key: boundedText(256)
    .regex(/^[\x21-\x7e]+$/, { error: 'must be the integration key of a service: printable characters without spaces' })
    .refine(key => key !== HIDDEN, {
      error: 'stands for a key that is not shown. Send the key, or leave `alerts` out',
    })
    .meta({ description: 'Of the integration “Events API v2” of a PagerDuty service. Stored encrypted, not shown.' }),
  summary: storableText(1024).nullish().meta({ description: 'By default the name of the rule.' }),
  severity: z.enum(ALERT_SEVERITIES).nullish().meta({ description: 'By default `error`.' }),
})

const SpendLimit = z.object({
  limit_usd: z
    .union(
      [
        z.number(),
        boundedText(20)
          .regex(/^\d+(?:\.\d+)?$/)
          .transform(Number),
      ],
      { error: 'must be a number' },
    )
    .pipe(z.number().min(0.01).max(1_000_000)),
  window: z.literal('weekly').default('weekly').meta({ description: 'From Monday in UTC.' }),
})

const actionShape = {
  display_name: label(256),
  is_enabled: z.boolean(),
  sampling_rate: z
    .number()
    .min(0)
    .max(1)
    .meta({ description: 'The part of the traces that the rule applies to. All runs of a trace are taken, or none.' }),
  filter: Filter.nullish().meta({ description: 'About the run itself.' }),
  trace_filter: Filter.nullish().meta({ description: 'About the root of its trace.' }),
  tree_filter: Filter.nullish().meta({ description: 'About any run of its trace.' }),
  add_to_annotation_queue_id: Uuid.nullish().meta({ description: 'It makes the traces long-lived.' }),
  add_to_dataset_id: Uuid.nullish(),
  add_to_dataset_prefer_correction: z
    .boolean()
    .meta({ description: 'Takes the correction of the latest feedback that has one as the outputs of the example.' }),
  evaluators: arrayOf(Evaluator, MAX_EVALUATORS).nullish().meta({
    description: 'Have models of the workspace judge the runs. They need `models:invoke` and `feedback:create`.',
  }),
  evaluator_id: Uuid.nullish().meta({ description: 'An evaluator that several rules use, besides `evaluators`.' }),
  spend_limit: SpendLimit.nullish().meta({
    description: 'What the evaluators of the rule may cost. Calls that are under way can exceed it.',
  }),
  alerts: arrayOf(RuleAlert, MAX_ALERTS)
    .nullish()
    .meta({ description: 'Alerts of PagerDuty, each once in five minutes.' }),
  webhooks: arrayOf(RuleWebhook, MAX_WEBHOOKS).nullish(),
  extend_only: z.boolean().meta({
    description: 'Makes the traces long-lived. It needs `projects:increase-trace-tier`.',
  }),
}

const newRuleShape = {
  ...actionShape,
  ...unsupportedShape,
  is_enabled: actionShape.is_enabled.default(true),
  add_to_dataset_prefer_correction: actionShape.add_to_dataset_prefer_correction.default(false),
  extend_only: actionShape.extend_only.default(false),
  session_id: Uuid.nullish().meta({ description: 'The project whose runs the rule is about.' }),
  dataset_id: Uuid.nullish().meta({
    description: 'Or the dataset: the rule is about the runs of all experiments on it.',
  }),
  backfill_from: Instant.nullish().meta({
    description: 'Applies the rule also to the runs that began since then, in the background.',
  }),
}
const hasOneScope = ({ session_id, dataset_id }: { session_id?: unknown; dataset_id?: unknown }) =>
  !session_id !== !dataset_id
const ONE_SCOPE = { error: 'exactly one of `session_id` and `dataset_id` must be given', path: ['session_id'] }
const NEW_RULE_EXAMPLE = {
  display_name: 'Failed runs',
  sampling_rate: 1,
  session_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
  filter: 'eq(status, "error")',
}

export const NewRule = z
  .object(newRuleShape)
  .refine(hasOneScope, ONE_SCOPE)
  .meta({
    id: 'NewRunRule',
    ...hasOneOf('session_id', 'dataset_id'),
    description: 'What to do with the runs that match.',
    example: NEW_RULE_EXAMPLE,
  })
export type NewRule = z.output<typeof NewRule>

export const ValidatedRule = z
  .object({
    ...newRuleShape,
    sample_run_id: Uuid.nullish().meta({
      description: 'The run that the evaluators are tried on. By default the latest one that matches.',
    }),
  })
  .refine(hasOneScope, ONE_SCOPE)
  .meta({
    id: 'ValidatedRunRule',
    description: 'A rule to be checked.',
    ...hasOneOf('session_id', 'dataset_id'),
    example: NEW_RULE_EXAMPLE,
  })
export type ValidatedRule = z.output<typeof ValidatedRule>

export const RulePatch = z
  .object({
    ...unsupportedShape,
    ...z.object(actionShape).partial().shape,
    session_id: Uuid.nullish().meta({ description: 'It cannot change.' }),
    dataset_id: Uuid.nullish().meta({ description: 'It cannot change.' }),
    backfill_from: Instant.nullish()
      .refine(time => !time, { error: 'is for new rules. Create another rule' })
      .meta({ type: 'null', description: 'Only of new rules.' }),
  })
  .meta({
    id: 'RunRulePatch',
    description: 'Members that are absent stay as they are. Null removes a value.',
    example: { sampling_rate: 0.5 },
  })
export type RulePatch = z.output<typeof RulePatch>

const ShownLimit = z.object({ limit_usd: z.string(), window: z.literal('weekly') })

export const Rule = z
  .object({
    id: Uuid,
    tenant_id: Uuid,
    is_enabled: z.boolean(),
    session_id: Uuid.nullable(),
    session_name: z.string().nullable(),
    dataset_id: Uuid.nullable(),
    dataset_name: z.string().nullable(),
    display_name: z.string(),
    sampling_rate: z.number(),
    filter: z.string().nullable(),
    trace_filter: z.string().nullable(),
    tree_filter: z.string().nullable(),
    add_to_annotation_queue_id: Uuid.nullable(),
    add_to_annotation_queue_name: z.string().nullable(),
    add_to_dataset_id: Uuid.nullable(),
    add_to_dataset_name: z.string().nullable(),
    add_to_dataset_prefer_correction: z.boolean(),
    extend_only: z.boolean(),
    webhooks: z.array(
      z.object({
        url: z.string(),
        headers: z
          .record(z.string(), z.string())
          .nullable()
          .meta({ description: `Their values are \`${HIDDEN}\`.` }),
      }),
    ),
    evaluators: z.array(ShownEvaluator),
    evaluator_id: Uuid.nullable(),
    evaluator_name: z.string().nullable(),
    evaluator_type: z.literal('llm').nullable(),
    spend_limit: ShownLimit.nullable(),
    effective_spend_limit: ShownLimit.nullable(),
    spend_usd: z.number().meta({ description: 'What its evaluators cost in this week, as far as prices are known.' }),
    alerts: z.array(
      z.object({
        type: z.literal('pagerduty'),
        routing_key: z.literal(HIDDEN),
        summary: z.string().nullable(),
        severity: z.enum(ALERT_SEVERITIES),
      }),
    ),
    webhook_secret: z
      .string()
      .optional()
      .meta({
        ...CREDENTIAL,
        description: 'Verifies the signatures of the webhooks. It is shown where a request sets `webhooks`.',
      }),
    backfill_id: Uuid.nullable(),
    backfill_from: Time.nullable(),
    backfill_status: z.enum(['waiting', 'running', 'completed']).nullable(),
    backfill_progress: z.number().nullable().meta({ description: 'The part of the time that is done, from 0 to 1.' }),
    backfill_error: z.null(),
    backfill_completed_at: Time.nullable(),
    evaluator_version: z.int(),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'RunRule', description: 'What is done with the runs that match.' })
export type Rule = z.output<typeof Rule>
export const RuleList = z.array(Rule).meta({ id: 'RunRuleList', description: 'Rules, newest first.' })

export const RuleQuery = z.object({
  session_id: optionalFilter(Uuid),
  dataset_id: optionalFilter(Uuid),
  type: optionalFilter(z.enum(['session', 'dataset'])),
  name: exactName('display_name'),
  name_contains: optionalFilter(boundedText(256)).meta({ description: 'Part of the name. Case does not matter.' }),
  id: idFilter('Repeat it for several rules.'),
  evaluator_id: optionalFilter(Uuid).meta({ description: 'Only rules with this evaluator.' }),
  tag_value_id: idFilter('Only rules of projects and datasets with all of these tags.'),
  include_backfill_progress: flag(false).meta({ description: 'It is always included.' }),
})
export type RuleQuery = z.output<typeof RuleQuery>

export const RuleVerdicts = z
  .array(
    z.object({
      run_id: Uuid,
      run_name: z.string().nullable(),
      outcome: z.enum(OUTCOMES),
      payload: z.object({
        feedback: z.array(
          z.object({
            key: z.string(),
            score: z.union([z.number(), z.boolean()]).optional(),
            value: z.string().optional(),
            comment: z.string().optional(),
          }),
        ),
        evaluation_run_id: Uuid.nullable(),
        cost_usd: z.number().nullable(),
        reason: z.string().nullable(),
        message: z.string().nullable(),
      }),
    }),
  )
  .meta({
    id: 'RunRuleVerdicts',
    description: 'What each evaluator says of a run. It is empty without an evaluator, and if no run matches.',
  })
export type RuleVerdicts = z.output<typeof RuleVerdicts>
export const Triggered = z.object({ rule_ids: z.array(Uuid) }).meta({ id: 'TriggeredRunRules' })
export const Deleted = z.object({ id: Uuid }).meta({ id: 'DeletedRunRule' })

// ---- logs

const Outcome = z
  .object({
    outcome: z.enum(OUTCOMES),
    payload: z.looseObject({}).nullable(),
  })
  .nullable()

export const RuleLog = z
  .object({
    rule_id: Uuid,
    run_id: Uuid,
    run_name: z.string().nullable(),
    run_type: z.string().nullable(),
    run_session_id: Uuid,
    thread_id: z.string().nullable(),
    start_time: Time.meta({ description: 'Of the run.' }),
    end_time: Time.meta({ description: 'Of the run. Its start, if it ended without a time.' }),
    application_time: Time,
    add_to_annotation_queue: Outcome,
    add_to_dataset: Outcome,
    evaluators: Outcome.meta({ description: 'Null while an evaluator is still to be asked.' }),
    alerts: Outcome.meta({ description: 'Null while an alert is still to be sent.' }),
    webhooks: Outcome.meta({ description: 'Null while a webhook is still to be sent.' }),
    extend_only: Outcome,
  })
  .meta({ id: 'RunRuleLog', description: 'What a rule did with a run.' })
export type RuleLog = z.output<typeof RuleLog>
export const RuleLogList = z.array(RuleLog).meta({ id: 'RunRuleLogList', description: 'Newest first.' })

const logShape = {
  limit: z.preprocess(parseWholeNumber, z.int().min(1).max(1440).default(150)),
  start_time: optionalFilter(Instant).meta({ description: 'Only what was done since then.' }),
  end_time: optionalFilter(Instant).meta({ description: 'Only what was done before.' }),
  session_id: optionalFilter(Uuid).meta({ description: 'Only runs of this project.' }),
}
export const LogQuery = z.object({ ...logShape, offset: offsetPage().offset })
export type LogQuery = z.output<typeof LogQuery>

export const LogPageQuery = z.object({
  ...logShape,
  backfill: flag(false).meta({ description: 'Only what the backfill did.' }),
  cursor: Page.shape.cursor.meta({ type: 'string', description: 'From the previous answer.' }),
})
export type LogPageQuery = z.output<typeof LogPageQuery>
export const RuleLogPage = z
  .object({ logs: z.array(RuleLog), cursor: z.string().nullable(), has_more: z.boolean() })
  .meta({ id: 'RunRuleLogPage', description: 'Newest first.' })
export type RuleLogPage = z.output<typeof RuleLogPage>

export const BackfillFlag = z.object({ backfill: flag(false).meta({ description: 'Only what the backfill did.' }) })
