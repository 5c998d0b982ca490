// Schemas of annotation queues.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { arrayOf, boundedText, commaSeparated, optionalFilter, recordOf, Uuid } from '../../protocol/wire.ts'
import { flag, idFilter, JsonObject, offsetPage, storableText, Time } from '../runs/list-parameters.schema.ts'

export const MAX_ITEMS = 10_000
export const MAX_REVIEWERS = 100
const MAX_RUBRIC_ITEMS = 100
const ACCESS_MODES = ['any', 'assigned'] as const
const QUEUE_TYPES = ['single', 'pairwise'] as const

const Text = boundedText(10_000)
const Descriptions = recordOf(boundedText(256), Text, 100)

/** Members that clients derive from the feedback of the key are read by them alone. */
const RubricItem = z.looseObject({
  feedback_key: boundedText(180).min(1),
  description: Text.nullish(),
  value_descriptions: Descriptions.nullish(),
  score_descriptions: Descriptions.nullish(),
  is_required: z.boolean().nullish(),
  is_assertion: z.boolean().nullish(),
})

const settingsShape = {
  description: storableText(10_000).nullish(),
  default_dataset: Uuid.nullish().meta({ description: 'Where reviewers add runs to.' }),
  num_reviewers_per_item: z
    .int()
    .min(1)
    .max(MAX_REVIEWERS)
    .nullish()
    .meta({ description: 'How many reviewers complete each item. Null: all assigned reviewers, or one.' }),
  enable_reservations: z
    .boolean()
    .nullish()
    .meta({ description: 'Who views an item has it for `reservation_minutes`: others get the next one.' }),
  reservation_minutes: z.int().min(1).max(1440).nullish(),
  reviewer_access_mode: z
    .enum(ACCESS_MODES)
    .nullish()
    .meta({ description: '`assigned`: only assigned reviewers review.' }),
  rubric_items: arrayOf(RubricItem, MAX_RUBRIC_ITEMS).nullish(),
  rubric_instructions: storableText(50_000).nullish(),
  metadata: JsonObject.nullish(),
  tag_value_ids: arrayOf(Uuid, 100).nullish(),
}

export const QueueRef = z.object({ queue_id: Uuid })
export const RunRef = z.object({ run_id: Uuid })

export const NewQueue = z
  .object({
    id: Uuid.nullish(),
    name: label(256),
    ...settingsShape,
    session_ids: arrayOf(Uuid, 100)
      .nullish()
      .meta({ description: 'Projects, such as experiments, whose root runs are added.' }),
  })
  .meta({
    id: 'NewAnnotationQueue',
    example: {
      name: 'Answers to review',
      rubric_items: [{ feedback_key: 'correct', description: 'Is the answer correct?' }],
    },
  })
export type NewQueue = z.output<typeof NewQueue>

export const QueuePatch = z.object({ name: label(256).nullish(), ...settingsShape }).meta({
  id: 'AnnotationQueuePatch',
  description: 'Members that are absent stay as they are. Null removes a value.',
  example: { description: 'Answers about capitals' },
})
export type QueuePatch = z.output<typeof QueuePatch>

const Reviewer = z.object({ id: Uuid, name: z.string().nullable(), email: z.string().nullable() })

const queueShape = {
  id: Uuid,
  tenant_id: Uuid,
  name: z.string(),
  description: z.string().nullable(),
  created_at: Time,
  updated_at: Time,
  queue_type: z.literal('single'),
  default_dataset: Uuid.nullable(),
  num_reviewers_per_item: z.int().nullable(),
  enable_reservations: z.boolean(),
  reservation_minutes: z.int(),
  reviewer_access_mode: z.enum(ACCESS_MODES),
  assigned_reviewers: z.array(Reviewer),
  metadata: JsonObject.nullable(),
  tag_value_ids: z.array(Uuid),
  source_rule_id: z.null(),
  run_rule_id: z.null(),
  rubric_items: z.array(z.looseObject({ feedback_key: z.string() })).nullable(),
  rubric_instructions: z.string().nullable(),
  total_runs: z.int().meta({ description: 'The number of items, reviewed ones too.' }),
}
export const Queue = z
  .object(queueShape)
  .meta({ id: 'AnnotationQueue', description: 'Runs and threads that people review.' })
export type Queue = z.output<typeof Queue>
export const QueueList = z.array(Queue).meta({ id: 'AnnotationQueueList', description: 'A page of queues.' })

export const SORT_COLUMNS = ['name', 'created_at', 'updated_at', 'total_runs'] as const
export const QueueQuery = z.object({
  ids: idFilter('Repeat it for several queues.'),
  name: optionalFilter(z.string()).meta({ description: 'The exact name.' }),
  name_contains: optionalFilter(z.string()).meta({ description: 'Part of the name. Case does not matter.' }),
  tag_value_id: idFilter('Only queues with all of these tags.'),
  dataset_id: optionalFilter(Uuid).meta({ description: 'Only queues with this default dataset.' }),
  queue_type: optionalFilter(z.enum(QUEUE_TYPES)).meta({ description: 'There are no queues of pairs.' }),
  assigned_to_me: flag(false).meta({ description: 'Only queues that the caller is assigned to.' }),
  sort_by: optionalFilter(z.enum(SORT_COLUMNS)).meta({ description: '`created_at` by default.' }),
  sort_by_desc: flag(true),
  ...offsetPage(),
})
export type QueueQuery = z.output<typeof QueueQuery>

export const QueueIds = z.object({ queue_ids: commaSeparated(Uuid, 100) }).meta({
  example: { queue_ids: '5d41402a-bc4b-4a76-b971-9d911017c592' },
})
export const Deleted = z.object({ id: Uuid }).meta({ id: 'DeletedAnnotationQueue' })
export const DeletedList = z.object({ ids: z.array(Uuid) }).meta({ id: 'DeletedAnnotationQueues' })

export const NewReviewer = z
  .object({ identity_id: Uuid.meta({ description: 'Of a member of the workspace, or of an API key.' }) })
  .meta({ id: 'NewQueueReviewer', example: { identity_id: '5d41402a-bc4b-4a76-b971-9d911017c592' } })
export const ReviewerRef = z.object({ queue_id: Uuid, identity_id: Uuid })
