// Schemas of the runs and threads in annotation queues.
import * as z from 'zod'
import { all, hasAll, hasAnyOf, implies, isAbsentOrAnyOf, isAnyOf } from '../../protocol/conditions.ts'
import { arrayOf, boundedText, optionalFilter, parseWholeNumber, Uuid } from '../../protocol/wire.ts'
import { flag, offsetPage, optionalFlag, storableText, Time, timeFilter } from '../runs/list-parameters.schema.ts'
import { Run } from '../runs/runs.schema.ts'
import { TIME_TEXT, TraceTime } from '../runs/time.schema.ts'
import { MAX_ITEMS } from './schema.ts'

const MAX_ADDED = 1000

/** `archived`: as many reviewers as the queue asks for have completed the item. */
const SECTIONS = ['needs_my_review', 'needs_others_review', 'archived'] as const
export type Section = (typeof SECTIONS)[number]
/** Names of the older routes. */
const RUN_STATUSES = ['needs_my_review', 'needs_others_review', 'completed'] as const
const RunStatus = z.enum(RUN_STATUSES)
export const toSection = (status: (typeof RUN_STATUSES)[number]): Section =>
  status === 'completed' ? 'archived' : status

const ITEM_TYPES = ['RUN', 'THREAD'] as const
const ExtendsRetention = (byDefault: boolean) =>
  flag(byDefault).meta({ description: 'Makes the traces of the runs long-lived.' })

// ---- runs

const AddedRun = z.object({
  run_id: Uuid,
  session_id: Uuid.nullish(),
  start_time: TraceTime.nullish().meta({ ...TIME_TEXT }),
  source_proposed_example_id: Uuid.nullish(),
})
const KeyedRun = z.object({
  ...AddedRun.shape,
  session_id: Uuid,
  start_time: TraceTime.meta({ ...TIME_TEXT }),
})

/** Published clients send ids, or objects with an id. */
export const AddedRuns = arrayOf(z.union([Uuid.transform(run_id => ({ run_id })), AddedRun]), MAX_ADDED)
  .transform(runs => ({ runs }))
  .meta({
    id: 'RunsForQueue',
    description: 'Ids of runs, or objects with a `run_id`.',
    example: ['5d41402a-bc4b-4a76-b971-9d911017c592'],
  })
export const KeyedRuns = arrayOf(KeyedRun, MAX_ADDED)
  .transform(runs => ({ runs }))
  .meta({
    id: 'KeyedRunsForQueue',
    description: 'Runs with their project and start.',
    example: [
      {
        run_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
        session_id: '7d793037-a076-4a0e-bfc1-a1a3ad0f9b5e',
        start_time: '2026-11-22T12:00:00.000Z',
      },
    ],
  })
export type AddedRuns = z.output<typeof AddedRuns>
export const Retention = z.object({ extend_trace_retention: ExtendsRetention(true) })

export const Populate = z.object({ queue_id: Uuid, session_ids: arrayOf(Uuid, 100, 1) }).meta({
  id: 'PopulateAnnotationQueue',
  description: 'Adds the root runs of projects, such as experiments.',
  example: {
    queue_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
    session_ids: ['7d793037-a076-4a0e-bfc1-a1a3ad0f9b5e'],
  },
})

export const QueueRun = z
  .object({
    id: Uuid.meta({ description: 'Of the item.' }),
    queue_id: Uuid,
    run_id: Uuid,
    added_at: Time,
    last_reviewed_time: Time.nullable(),
    source_proposed_example_id: Uuid.nullable(),
  })
  .meta({ id: 'QueueRun', description: 'A run in a queue.' })
export const QueueRuns = z.array(QueueRun).meta({ id: 'QueueRuns' })

const reviewShape = {
  last_reviewed_time: Time.nullable(),
  added_at: Time,
  effective_added_at: Time.meta({ description: 'Where it stands for the caller.' }),
  reserved_by: z.array(Uuid),
  completed_by: z.array(Uuid),
  source_proposed_example_id: Uuid.nullable(),
}
export const ReviewedRun = z
  .object({ ...Run.shape, queue_run_id: Uuid, ...reviewShape })
  .meta({ id: 'ReviewedRun', description: 'A run, and how far its review is.' })
export type ReviewedRun = z.output<typeof ReviewedRun>
export const ReviewedRuns = z.array(ReviewedRun).meta({ id: 'ReviewedRuns' })

export const RunListQuery = z.object({
  status: optionalFilter(RunStatus),
  archived: optionalFlag().meta({ description: 'True: only `completed` ones. False: only the others.' }),
  include_stats: flag(false).meta({ description: 'Has no effect.' }),
  ...offsetPage(),
})
export type RunListQuery = z.output<typeof RunListQuery>

export const RunIndex = z.object({
  queue_id: Uuid,
  index: z
    .preprocess(parseWholeNumber, z.int().min(0).max(MAX_ITEMS))
    .meta({ description: 'Among those that need the review of the caller, from 0.' }),
})
export const RunIndexQuery = z.object({ include_extra: flag(false).meta({ description: 'It is always included.' }) })
export const QueueRunRef = z.object({ queue_id: Uuid, queue_run_id: Uuid })

const timesShape = {
  added_at: TraceTime.nullish().meta({ ...TIME_TEXT }),
  last_reviewed_time: TraceTime.nullish().meta({ ...TIME_TEXT }),
}
export const ItemPatch = z.object(timesShape).meta({
  id: 'QueueItemPatch',
  description: 'Null stays as it is.',
  example: { last_reviewed_time: '2026-11-22T12:00:00.000Z' },
})
export type ItemPatch = z.output<typeof ItemPatch>

export const DeletedRuns = z
  .object({
    delete_all: z.boolean().default(false),
    run_ids: arrayOf(Uuid, MAX_ADDED).nullish().meta({ description: 'Of the items, or of their runs.' }),
    exclude_run_ids: arrayOf(Uuid, MAX_ADDED).nullish().meta({ description: 'With `delete_all`.' }),
  })
  .refine(({ delete_all, run_ids }) => delete_all || run_ids, {
    error: 'is needed without `delete_all`',
    path: ['run_ids'],
  })
  .meta({
    id: 'DeletedQueueRuns',
    ...implies(isAbsentOrAnyOf('delete_all', false), hasAll('run_ids')),
    example: { run_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'] },
  })
export type DeletedRuns = z.output<typeof DeletedRuns>

export const SizeQuery = z.object({ status: optionalFilter(RunStatus) })
export const ArchivedQuery = z.object({
  start_time: timeFilter('Only what was completed after it.'),
  end_time: timeFilter('Only what was completed before it.'),
})
export const Size = z.object({ size: z.int() }).meta({ id: 'QueueSize' })
export const RunPlace = z.object({ section: RunStatus, position: z.int() }).meta({ id: 'QueueRunPlace' })

// ---- items

const NewItem = z
  .object({
    item_type: z.enum(ITEM_TYPES).default('RUN'),
    run_id: Uuid.nullish(),
    thread_id: storableText(1024).min(1).nullish(),
    project_id: Uuid.nullish(),
    session_id: Uuid.nullish().meta({ description: 'The same as `project_id`.' }),
    start_time: AddedRun.shape.start_time,
    source_proposed_example_id: Uuid.nullish(),
  })
  .refine(({ item_type, run_id }) => item_type !== 'RUN' || run_id, {
    error: 'is needed for an item of the type RUN',
    path: ['run_id'],
  })
  .refine(({ item_type, thread_id }) => item_type !== 'THREAD' || thread_id, {
    error: 'is needed for an item of the type THREAD',
    path: ['thread_id'],
  })
  .refine(({ item_type, project_id, session_id }) => item_type !== 'THREAD' || project_id || session_id, {
    error: 'is needed for an item of the type THREAD',
    path: ['project_id'],
  })
  .meta(
    implies(
      isAnyOf('item_type', 'THREAD'),
      all(hasAll('thread_id'), hasAnyOf('project_id', 'session_id')),
      hasAll('run_id'),
    ),
  )
export const NewItems = z.object({ items: arrayOf(NewItem, MAX_ADDED) }).meta({
  id: 'NewQueueItems',
  example: { items: [{ item_type: 'RUN', run_id: '5d41402a-bc4b-4a76-b971-9d911017c592' }] },
})
export type NewItems = z.output<typeof NewItems>
export const ItemRetention = z.object({ extend_trace_retention: ExtendsRetention(false) })

const itemShape = {
  id: Uuid,
  queue_id: Uuid,
  item_type: z.enum(ITEM_TYPES),
  project_id: Uuid,
  run_id: Uuid.nullable(),
  thread_id: z.string().nullable(),
  start_time: Time.nullable(),
}
const { added_at, last_reviewed_time, source_proposed_example_id } = reviewShape
export const Item = z
  .object({ ...itemShape, added_at, last_reviewed_time, source_proposed_example_id })
  .meta({ id: 'QueueItem', description: 'A run or a thread in a queue.' })
export type Item = z.output<typeof Item>
export const Items = z.object({ items: z.array(Item) }).meta({ id: 'QueueItems' })
const ListedItem = z.object({ ...itemShape, ...reviewShape }).meta({ id: 'ListedQueueItem' })
export const ItemPage = z
  .object({ items: z.array(ListedItem), next_cursor: z.string().nullable() })
  .meta({ id: 'QueueItemPage' })

/** The time and place of the item that the next page begins with. Opaque to clients. */
export type ItemCursor = { time: string; place: string }
export const writeCursor = ({ time, place }: ItemCursor): string =>
  Buffer.from(`${time}~${place}`).toString('base64url')
const Cursor = boundedText(120).transform((text, check): ItemCursor => {
  const [time = '', place = ''] = Buffer.from(text, 'base64url').toString().split('~')
  if (TraceTime.safeParse(time).success && /^\d{1,18}$/.test(place)) return { time, place }
  check.addIssue({ code: 'custom', message: 'is not a cursor of a list of items' })
  return z.NEVER
})

const startBounds = {
  min_start_time: timeFilter('Only of traces that began then or later.'),
  max_start_time: timeFilter('Only of traces that began then or before.'),
}
export const ItemQuery = z
  .object({
    status: z.enum(SECTIONS),
    item_type: optionalFilter(z.enum(ITEM_TYPES)),
    ...startBounds,
    cursor: optionalFilter(Cursor).meta({ type: 'string', description: 'The `next_cursor` of the previous answer.' }),
    direction: optionalFilter(z.enum(['forward', 'backward'])).meta({
      description: '`backward`: the items before the cursor.',
    }),
    page_size: offsetPage().limit,
  })
  .meta({ example: { status: 'needs_my_review' } })
export type ItemQuery = z.output<typeof ItemQuery>

export const CountQuery = z
  .object({ status: z.enum(['all', ...SECTIONS]), ...startBounds, ...ArchivedQuery.shape })
  .meta({ example: { status: 'all' } })
export type CountQuery = z.output<typeof CountQuery>
export const Count = z.object({ count: z.int() }).meta({ id: 'QueueItemCount' })

export const ItemRef = z.object({ queue_id: Uuid, item_id: Uuid })
export const ItemPlace = z
  .object({
    item_type: z.enum(ITEM_TYPES),
    section: z.enum(SECTIONS),
    position: z.int().meta({ description: 'Within its section, from 0.' }),
    cursor: z.string(),
  })
  .meta({ id: 'QueueItemPlace' })
export const ItemIds = z
  .object({ item_ids: arrayOf(Uuid, MAX_ADDED, 1) })
  .meta({ id: 'QueueItemIds', example: { item_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'] } })
export const DeletedItem = z.object({ id: Uuid }).meta({ id: 'DeletedQueueItem' })
export const DeletedItems = z.object({ ids: z.array(Uuid) }).meta({ id: 'DeletedQueueItems' })

// ---- reviews

const STATUSES = ['viewed', 'completed'] as const
export const ReviewedRunRef = z.object({ queue_run_id: Uuid })
export const ReviewedItemRef = z.object({ item_id: Uuid })
export const Review = z
  .object({
    status: z
      .enum(STATUSES)
      .nullish()
      .meta({ description: '`viewed` reserves the item. Null takes the review of the caller back.' }),
    override_added_at: TraceTime.nullish().meta({
      type: 'string',
      format: 'date-time',
      description: 'Where the item stands for the caller from now on: with the current time, last.',
    }),
  })
  .meta({ id: 'QueueReview', example: { status: 'completed' } })
export type Review = z.output<typeof Review>
export const StoredReview = z
  .object({
    queue_item_id: Uuid,
    status: z.enum(STATUSES).nullable(),
    override_added_at: Time.nullable(),
    is_archived: z.boolean(),
  })
  .meta({ id: 'StoredQueueReview' })
