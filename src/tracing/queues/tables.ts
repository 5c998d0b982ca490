// Tables of annotation queues: runs and threads that people review.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  index,
  integer,
  json,
  jsonb,
  pgTable,
  primaryKey,
  text,
  unique,
  uuid,
} from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import { datasets } from '../datasets/tables.ts'
import { projects } from '../store/tables.ts'

export type RubricItem = { feedback_key: string; [member: string]: unknown }

export const annotationQueues = pgTable(
  'annotation_queues',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    description: text(),
    default_dataset_id: uuid().references(() => datasets.id, { onDelete: 'set null' }),
    /** Null: all of `reviewer_ids`, or anyone if there are none. */
    num_reviewers_per_item: integer().default(1),
    enable_reservations: boolean().notNull().default(true),
    reservation_minutes: integer().notNull().default(1),
    reviewer_access_mode: text({ enum: ['any', 'assigned'] })
      .notNull()
      .default('any'),
    /** Members and API keys. */
    reviewer_ids: uuid().array().notNull().default(sql`'{}'`),
    rubric_instructions: text(),
    rubric_items: json().$type<RubricItem[]>(),
    metadata: jsonb().$type<Record<string, unknown>>(),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    ...versionedColumns(),
  },
  t => [
    index('annotation_queues_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('annotation_queues_dataset').on(t.default_dataset_id),
  ],
)

/** A run or a thread. */
export const annotationQueueItems = pgTable(
  'annotation_queue_items',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    queue_id: uuid()
      .notNull()
      .references(() => annotationQueues.id, { onDelete: 'cascade' }),
    /** The order of items that were added at once. */
    place: bigint({ mode: 'number' }).notNull().generatedByDefaultAsIdentity(),
    session_id: uuid()
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    run_id: uuid(),
    /** The trace of the run. */
    trace_id: uuid(),
    thread_id: text(),
    start_time: instantColumn(),
    source_proposed_example_id: uuid(),
    added_at: createdAtColumn(),
    last_reviewed_time: instantColumn(),
    /** The sweep makes the trace of the run long-lived. */
    extends_retention: boolean().notNull().default(false),
    is_upgraded: boolean().notNull().default(false),
    /** The sweep then checks that the run still exists. */
    check_at: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('annotation_queue_items_run').on(t.queue_id, t.run_id),
    unique('annotation_queue_items_thread').on(t.queue_id, t.session_id, t.thread_id),
    index('annotation_queue_items_of_run').on(t.tenant_id, t.run_id),
    index('annotation_queue_items_session').on(t.session_id),
    index('annotation_queue_items_to_upgrade').on(t.created_at).where(sql`extends_retention and not is_upgraded`),
    index('annotation_queue_items_check').on(t.check_at),
  ],
)

/** The review of an item by one person. */
export const annotationQueueReviews = pgTable(
  'annotation_queue_reviews',
  {
    ...parentTenantColumns(),
    item_id: uuid()
      .notNull()
      .references(() => annotationQueueItems.id, { onDelete: 'cascade' }),
    reviewer_id: uuid().notNull().default(sql`current_actor()`),
    /** `viewed` reserves it for a while. */
    status: text({ enum: ['viewed', 'completed'] }),
    /** The place of the item for this reviewer. */
    override_added_at: instantColumn(),
    updated_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.item_id, t.reviewer_id] })],
)
