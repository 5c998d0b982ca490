// Rows of items as they cross the wire.
import { type SQL, sql } from 'drizzle-orm'
import { toIsoTime } from '../../kernel/db/rows.ts'
import type * as schema from './items.schema.ts'
import type { annotationQueueItems } from './tables.ts'

/** The row that `to_json()` writes. */
export type ItemRow = typeof annotationQueueItems.$inferSelect
/** A row of `sectionedItems()`. */
export type SectionedRow = ItemRow & {
  effective_added_at: string
  completed_by: string[]
  reserved_by: string[]
  section: schema.Section
}

export const ITEM_JSON: SQL = sql`to_json(i)::text`

export const itemToWire = (row: ItemRow): schema.Item => ({
  id: row.id,
  queue_id: row.queue_id,
  item_type: row.run_id === null ? 'THREAD' : 'RUN',
  project_id: row.session_id,
  run_id: row.run_id,
  thread_id: row.thread_id,
  start_time: toIsoTime(row.start_time),
  added_at: toIsoTime(row.added_at),
  last_reviewed_time: toIsoTime(row.last_reviewed_time),
  source_proposed_example_id: row.source_proposed_example_id,
})

export const reviewToWire = (row: SectionedRow) => ({
  added_at: toIsoTime(row.added_at),
  effective_added_at: toIsoTime(row.effective_added_at),
  last_reviewed_time: toIsoTime(row.last_reviewed_time),
  reserved_by: row.reserved_by,
  completed_by: row.completed_by,
  source_proposed_example_id: row.source_proposed_example_id,
})

export const cursorAt = ({ effective_added_at, place }: SectionedRow): schema.ItemCursor => ({
  time: effective_added_at,
  place: String(place),
})
