// Tables of build and deploy logs.
import { sql } from 'drizzle-orm'
import { bigint, index, integer, jsonb, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { instantColumn, parentTenantColumns } from '../../kernel/db/columns.ts'
import { type LogAttributes, logKinds } from '../../protocol/logs.schema.ts'
import { revisions } from '../deployments/tables.ts'

/** Totals of everything ever written to a log. Lines beyond its limit are deleted from log_lines. */
export const logs = pgTable(
  'logs',
  {
    ...parentTenantColumns(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    kind: text({ enum: logKinds }).notNull(),
    lines: integer().notNull(),
    bytes: bigint({ mode: 'number' }).notNull(),
    /** The next line expected from the agent. A new stream numbers its lines from zero. */
    stream: uuid(),
    next_line: integer(),
    /** When the sweep next looks at whether it is too old. */
    check_at: instantColumn().notNull().default(sql`clock() + interval '1 day'`),
  },
  t => [primaryKey({ columns: [t.revision_id, t.kind] }), index('logs_check').on(t.check_at)],
)

/** Line 0 says how many older lines were dropped. `bytes_before` is the size of the log before the line. */
export const logLines = pgTable(
  'log_lines',
  {
    ...parentTenantColumns(),
    deployment_id: uuid().notNull(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    kind: text({ enum: logKinds }).notNull(),
    number: integer().notNull(),
    timestamp: instantColumn().notNull(),
    severity: integer().notNull(),
    message: text().notNull(),
    /** The process type of the copy. Null: of the agent itself, or of one of an earlier release. */
    process: text(),
    bytes_before: bigint({ mode: 'number' }).notNull(),
    /** On line 0, that of the newest dropped line. Null on lines that are older than the column. */
    arrival: bigint({ mode: 'number' }),
    /** The members of a JSON line, or of a request. Null: the line has none, or is older than the column. */
    attributes: jsonb().$type<LogAttributes>(),
    request_id: text(),
    /** 32 hexadecimal digits, as W3C trace context has it. */
    trace_id: text(),
  },
  t => [
    primaryKey({ columns: [t.revision_id, t.kind, t.number] }),
    index('log_lines_of_revision').on(t.revision_id, t.kind, t.timestamp, t.number),
    index('log_lines_of_deployment').on(t.deployment_id, t.kind, t.timestamp, t.revision_id, t.number),
    index('log_lines_of_workspace').on(t.tenant_id, t.timestamp, t.revision_id, t.kind, t.number),
    index('log_lines_of_request').on(t.tenant_id, t.request_id, t.timestamp).where(sql`${t.request_id} is not null`),
    index('log_lines_of_trace').on(t.tenant_id, t.trace_id, t.timestamp).where(sql`${t.trace_id} is not null`),
    index('log_lines_arrival').on(t.deployment_id, t.kind, t.arrival),
  ],
)

/** The number of the last line that arrived, of all revisions and kinds. It is deleted with the revisions. */
export const logCounters = pgTable('log_counters', {
  ...parentTenantColumns(),
  deployment_id: uuid().primaryKey(),
  revision_id: uuid()
    .notNull()
    .references(() => revisions.id, { onDelete: 'cascade' }),
  arrival: bigint({ mode: 'number' }).notNull(),
})
