// Tables of the journal and of idempotency keys.
import { sql } from 'drizzle-orm'
import { bigint, date, index, json, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn } from './columns.ts'

/** One counter for each scope (a workspace, or the whole organization). It orders the scope's events. */
export const journals = pgTable('journals', {
  scope_id: uuid().primaryKey(),
  organization_id: uuid().notNull(),
  seq: bigint({ mode: 'number' }).notNull(),
  /** What counts towards the daily limit: each event, and each 4 KiB stored. */
  day: date(),
  today: bigint({ mode: 'number' }).notNull().default(0),
})

/** Append-only: slipway_app may insert and select, nothing else. */
export const events = pgTable(
  'events',
  {
    scope_id: uuid().notNull(),
    seq: bigint({ mode: 'number' }).notNull(),
    organization_id: uuid().notNull(),
    tenant_id: uuid(),
    type: text().notNull(),
    subject_id: uuid().notNull(),
    actor_kind: text().notNull(),
    actor_id: uuid(),
    /** The description of a key, the name of a listener, or the name that a git host gives. */
    actor_name: text().default(sql`event_actor_name()`),
    request_id: text().notNull(),
    /** A `RequestRecord`. Null for events that no request to the API caused. */
    request: json().default(sql`setting('request')::json`),
    data: json().notNull(),
    /** A list of path, before and after. */
    changes: json(),
    /** The first event of the same write. Null on that event itself. */
    part_of: bigint({ mode: 'number' }),
    created_at: createdAtColumn(),
  },
  t => [
    primaryKey({ columns: [t.scope_id, t.seq] }),
    index('events_of_subject').on(t.scope_id, t.subject_id, t.seq),
    index('events_age').using('brin', t.created_at),
  ],
)

export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    actor_id: uuid().notNull(),
    key: text().notNull(),
    fingerprint: text().notNull(),
    result: json().notNull(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.actor_id, t.key] }), index('idempotency_keys_age').on(t.created_at)],
)
