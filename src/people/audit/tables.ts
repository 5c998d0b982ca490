// Tables of the audit log, apart from the journal.
import { bigint, index, integer, json, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, instantColumn } from '../../kernel/db/columns.ts'

/** Requests that left no event: refused ones of a known key or session, and reads of the audit log. */
export const auditAttempts = pgTable(
  'audit_attempts',
  {
    id: bigint({ mode: 'number' }).primaryKey().generatedByDefaultAsIdentity(),
    organization_id: uuid().notNull(),
    tenant_id: uuid(),
    operation: text().notNull(),
    status: integer().notNull(),
    code: text(),
    actor_kind: text().notNull().default('key'),
    actor_id: uuid().notNull(),
    actor_name: text().notNull(),
    request_id: text().notNull(),
    /** A `RequestRecord`. */
    request: json().notNull(),
    /** The number of further attempts of the actor that were not kept. */
    left_out: integer().notNull().default(0),
    created_at: createdAtColumn(),
  },
  t => [
    index('audit_attempts_page').on(t.organization_id, t.created_at.desc().nullsFirst(), t.id.desc().nullsFirst()),
    index('audit_attempts_actor').on(t.actor_id, t.created_at.desc().nullsFirst(), t.id.desc().nullsFirst()),
    index('audit_attempts_age').using('brin', t.created_at),
  ],
)

/** Counts the attempts of a key, or of a member with all its sessions, in the current minute. */
export const attemptWindows = pgTable('attempt_windows', {
  key_id: uuid().primaryKey(),
  started_at: instantColumn().notNull(),
  attempts: integer().notNull(),
})
