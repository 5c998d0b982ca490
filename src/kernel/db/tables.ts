// Tables of the journal and of idempotency keys.
import { sql } from 'drizzle-orm'
import { bigint, date, index, json, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, instantColumn } from './columns.ts'

/** One counter for each scope (a workspace, or the whole organization). It orders the scope's events. */
export const journals = pgTable('journals', {
  scope_id: uuid().primaryKey(),
  organization_id: uuid().notNull(),
  seq: bigint({ mode: 'number' }).notNull(),
  /** Each event and each 4 KiB stored count towards the daily limit. */
  day: date(),
  today: bigint({ mode: 'number' }).notNull().default(0),
  /** The newest of its `journalHeads`. */
  signed_seq: bigint({ mode: 'number' }).notNull().default(0),
  signed_at: instantColumn(),
})

/** The hash of a journal's newest event at a time, signed with a key that the database does not have. */
export const journalHeads = pgTable(
  'journal_heads',
  {
    scope_id: uuid().notNull(),
    seq: bigint({ mode: 'number' }).notNull(),
    hash: text().notNull(),
    signed_at: instantColumn().notNull(),
    signature: text().notNull(),
  },
  t => [primaryKey({ columns: [t.scope_id, t.seq] })],
)

/** The newest event of each journal that was deleted because of its age. The hash chain goes on after it. */
export const journalCheckpoints = pgTable('journal_checkpoints', {
  scope_id: uuid().primaryKey(),
  seq: bigint({ mode: 'number' }).notNull(),
  hash: text(),
  /** Everything up to this event was written before that time. */
  expired_before: instantColumn().notNull(),
  signature: text().notNull(),
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
    /** Covers this row and the hash of the previous one. The trigger `chain_event` sets it; older rows have null. */
    hash: text(),
  },
  t => [
    primaryKey({ columns: [t.scope_id, t.seq] }),
    index('events_of_subject').on(t.subject_id, t.scope_id, t.seq),
    index('events_age').using('brin', t.created_at),
    index('events_audit')
      .on(
        t.organization_id,
        t.created_at.desc().nullsFirst(),
        t.scope_id.desc().nullsFirst(),
        t.seq.desc().nullsFirst(),
        t.type,
        t.actor_id,
        t.tenant_id,
      )
      .where(sql`part_of is null`),
    index('events_parts').on(t.scope_id, t.part_of).where(sql`part_of is not null`),
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
