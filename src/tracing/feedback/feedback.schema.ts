// Schemas of feedback, and of the configurations of its keys.
import * as z from 'zod'
import { hasAnyOf, hasMembers, implies, isAnyOf } from '../../protocol/conditions.ts'
import { arrayOf, boundedText, commaSeparated, optionalFilter, Uuid } from '../../protocol/wire.ts'
import {
  flag,
  idFilter,
  JsonObject,
  offsetPage,
  optionalFlag,
  storableText,
  Time,
  timeFilter,
} from '../runs/list-parameters.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'

export const FEEDBACK_SOURCES = ['api', 'model', 'app', 'auto_eval'] as const
export const MAX_KEY_LENGTH = 180
const MAX_SCORE = 999_999_999
const MAX_COMMENT_LENGTH = 65_536
const MAX_CATEGORIES = 100

export const FeedbackRef = z.object({ feedback_id: Uuid })
export const FeedbackKey = storableText(MAX_KEY_LENGTH).min(1).meta({ description: 'What is judged: `correctness`.' })

export const Score = z
  .union([z.number().min(-MAX_SCORE).max(MAX_SCORE), z.boolean()], {
    error: `must be a number from -${MAX_SCORE} to ${MAX_SCORE}, true or false`,
  })
  .meta({ description: 'Kept with four decimals. True is 1, and false is 0.' })

const Category = z.object({ value: z.number(), label: storableText(256).nullish() })
export const FeedbackConfig = z
  .object({
    type: z.enum(['continuous', 'categorical', 'freeform']),
    min: z.number().nullish(),
    max: z.number().nullish(),
    categories: arrayOf(Category, MAX_CATEGORIES).nullish(),
  })
  .refine(({ min, max }) => min == null || max == null || min <= max, {
    path: ['max'],
    error: 'must be at least `min`',
  })
  .refine(({ type, categories }) => type !== 'categorical' || (categories != null && categories.length > 0), {
    path: ['categories'],
    error: 'must have the categories, for the type `categorical`',
  })
  .meta({
    id: 'FeedbackConfig',
    ...implies(isAnyOf('type', 'categorical'), hasMembers({ categories: { type: 'array', items: {}, minItems: 1 } })),
    description:
      'What a key may say: numbers from `min` to `max`, the values of `categories`, or anything (`freeform`). ' +
      'Feedback without a score always may.',
  })

const FeedbackSource = z.object({ type: z.enum(FEEDBACK_SOURCES).default('api'), metadata: JsonObject.nullish() })

const judgement = {
  score: Score.nullish(),
  value: z.unknown().optional().meta({ description: 'Any JSON: the category as a text, for example.' }),
  comment: storableText(MAX_COMMENT_LENGTH).nullish(),
  correction: z
    .union([JsonObject, boundedText(MAX_COMMENT_LENGTH)])
    .nullish()
    .meta({
      description: 'What the run should have answered.',
    }),
}

export const NewFeedbackBody = z
  .object({
    id: Uuid.nullish().meta({ description: 'By default a new one. Sending it again replaces the feedback.' }),
    run_id: Uuid.nullish(),
    trace_id: Uuid.nullish(),
    session_id: Uuid.nullish().meta({
      description: 'The project of the run. Without `run_id`, the project that the feedback is about.',
    }),
    start_time: TraceTime.nullish().meta({ description: 'Of the run.' }),
    key: FeedbackKey,
    ...judgement,
    feedback_group_id: Uuid.nullish(),
    comparative_experiment_id: Uuid.nullish(),
    feedback_source: FeedbackSource.nullish(),
    feedback_config: FeedbackConfig.nullish().meta({
      description: 'What the key may say from now on, unless that is configured already.',
    }),
    error: z.boolean().nullish().meta({ description: 'The evaluator failed.' }),
    created_at: TraceTime.nullish(),
    modified_at: TraceTime.nullish(),
    extend_trace_retention: z.boolean().nullish().meta({
      description: 'By default, a trace with feedback is kept for as long as those of the long-lived tier.',
    }),
  })
  .refine(({ run_id, session_id }) => run_id != null || session_id != null, {
    path: ['run_id'],
    error: 'is required, or session_id for feedback about a whole project',
  })
  .meta({
    id: 'NewFeedback',
    ...hasAnyOf('run_id', 'session_id'),
    description: 'What is said of a run, which may arrive later, or of a whole project.',
    example: { run_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10', key: 'correctness', score: 1, comment: 'As expected.' },
  })

export const FeedbackPatch = z.object({ ...judgement, feedback_config: FeedbackConfig.nullish() }).meta({
  id: 'FeedbackPatch',
  description: 'Absent members stay as they are. Null clears a member.',
  example: { score: 0, comment: 'Not what was asked.' },
})

export const Feedback = z
  .object({
    id: Uuid,
    run_id: Uuid.nullable(),
    trace_id: Uuid.nullable(),
    session_id: Uuid.nullable().meta({ description: 'Null until the run has arrived.' }),
    start_time: Time.nullable(),
    is_root: z.boolean().meta({ description: 'The run is the root of its trace.' }),
    key: z.string(),
    score: z.number().nullable(),
    value: z.unknown(),
    comment: z.string().nullable(),
    correction: z.unknown(),
    feedback_group_id: Uuid.nullable(),
    comparative_experiment_id: Uuid.nullable(),
    feedback_source: z.object({
      type: z.enum(FEEDBACK_SOURCES),
      metadata: JsonObject.nullable(),
      user_id: Uuid.nullable().meta({ description: 'The API key or the member. Null for feedback by a link.' }),
      user_name: z.string().nullable().meta({ description: 'With `include_user_names=true`.' }),
    }),
    error: z.boolean(),
    created_at: Time,
    modified_at: Time,
  })
  .meta({ id: 'Feedback', description: 'What was said of a run, or of a whole project.' })
export type Feedback = z.output<typeof Feedback>
export const FeedbackList = z.array(Feedback).meta({ id: 'FeedbackList' })

export const WithUserNames = z.object({ include_user_names: flag(false) })

const texts = (schema: z.ZodType<string>, maximum = 100) => optionalFilter(commaSeparated(schema, maximum))

export const FeedbackQuery = z.object({
  ...offsetPage(),
  ...WithUserNames.shape,
  run: idFilter('Feedback about one of these runs.'),
  session: idFilter('Feedback about one of these projects, or about their runs.'),
  key: texts(boundedText(MAX_KEY_LENGTH)),
  source: texts(z.enum(FEEDBACK_SOURCES)),
  user: idFilter('Feedback of one of these API keys or members.'),
  level: optionalFilter(z.enum(['run', 'session'])).meta({ description: 'About runs, or about whole projects.' }),
  has_comment: optionalFlag(),
  has_score: optionalFlag(),
  comparative_experiment_id: optionalFilter(Uuid),
  min_created_at: timeFilter(),
  max_created_at: timeFilter(),
})

// ---- configurations

const configMembers = {
  feedback_key: FeedbackKey,
  feedback_config: FeedbackConfig,
  is_lower_score_better: z.boolean(),
}
export const FeedbackConfigEntry = z
  .object({ id: Uuid, ...configMembers, tenant_id: Uuid, modified_at: Time })
  .meta({ id: 'FeedbackConfigEntry', description: 'What the feedback of a key may say.' })
export const FeedbackConfigList = z.array(FeedbackConfigEntry).meta({ id: 'FeedbackConfigList' })
export const NewFeedbackConfig = z.object({ ...configMembers, is_lower_score_better: z.boolean().nullish() }).meta({
  id: 'NewFeedbackConfig',
  example: { feedback_key: 'helpfulness', feedback_config: { type: 'continuous', min: 0, max: 5 } },
})
export const FeedbackConfigPatch = z
  .object({
    feedback_key: FeedbackKey,
    feedback_config: FeedbackConfig.nullish(),
    is_lower_score_better: z.boolean().nullish(),
  })
  .meta({
    id: 'FeedbackConfigPatch',
    description: 'Members that are absent or null stay as they are. Feedback that exists stays as it is.',
    example: { feedback_key: 'helpfulness', feedback_config: { type: 'continuous', min: 0, max: 10 } },
  })
export const FeedbackConfigQuery = z.object({
  ...offsetPage(),
  key: texts(boundedText(MAX_KEY_LENGTH)),
  name_contains: optionalFilter(boundedText(MAX_KEY_LENGTH)),
  sort_by_desc: flag(true).meta({ description: 'By key, descending.' }),
})
export const FeedbackConfigRef = z
  .object({ feedback_key: FeedbackKey })
  .meta({ example: { feedback_key: 'helpfulness' } })
