// Tables of build and deploy logs.
import { sql } from 'drizzle-orm'
import { bigint, boolean, index, integer, jsonb, pgTable, primaryKey, text, unique, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import { type LogAttributes, logKinds } from '../../protocol/logs.schema.ts'
import { deployments, revisions } from '../deployments/tables.ts'

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
    index('log_lines_of_workspace').on(t.tenant_id, t.kind, t.timestamp, t.revision_id, t.number),
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

/** Batches of lines on their way to the log store and to the archive, as the agent sent them. */
export const logBatches = pgTable(
  'log_batches',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    deployment_id: uuid().notNull(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    kind: text({ enum: logKinds }).notNull(),
    /** The number of the first line after those that are skipped. */
    number: integer().notNull(),
    /** The lines at the beginning that were received before. */
    skipped: integer().notNull(),
    lines: integer().notNull(),
    bytes: integer().notNull(),
    /** A JSON array of lines. */
    content: text().notNull(),
    for_store: boolean().notNull(),
    for_archive: boolean().notNull(),
    received_at: createdAtColumn(),
    /** A worker that has not finished after this time is taken for dead. */
    claimed_until: instantColumn(),
    attempts: integer().notNull().default(0),
  },
  t => [
    index('log_batches_of_deployment').on(t.deployment_id, t.received_at),
    index('log_batches_for_store').on(t.received_at).where(sql`${t.for_store}`),
    index('log_batches_for_archive').on(t.deployment_id, t.received_at).where(sql`${t.for_archive}`),
    index('log_batches_revision').on(t.revision_id),
  ],
)

/** Lines that were left out of the store and the archive, because too many waited. By the hour of their arrival. */
export const logLosses = pgTable(
  'log_losses',
  {
    ...parentTenantColumns(),
    deployment_id: uuid().notNull(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    hour: instantColumn().notNull(),
    lines: bigint({ mode: 'number' }).notNull(),
  },
  t => [primaryKey({ columns: [t.revision_id, t.hour] }), index('log_losses_hour').on(t.deployment_id, t.hour)],
)

/** Objects in the storage, with lines that arrived within an hour. Of a deleted deployment, the sweep deletes them. */
export const logArchives = pgTable(
  'log_archives',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    deployment_id: uuid().references(() => deployments.id, { onDelete: 'set null' }),
    hour: instantColumn().notNull(),
    object_path: text().notNull().unique('log_archives_path'),
    lines: integer().notNull(),
    bytes: bigint({ mode: 'number' }).notNull(),
    created_at: createdAtColumn(),
    expires_at: instantColumn().notNull(),
  },
  t => [
    index('log_archives_newest').on(t.deployment_id, ...newestFirstColumns(t)),
    index('log_archives_expiry').on(t.expires_at),
    index('log_archives_workspace').on(t.tenant_id),
  ],
)

/** Without a deployment, what deployments of the workspace inherit. */
export const logArchiveSettings = pgTable(
  'log_archive_settings',
  {
    id: idColumn(),
    ...tenantColumns(),
    deployment_id: uuid().references(() => deployments.id, { onDelete: 'cascade' }),
    /** Null: inherited. */
    enabled: boolean(),
    retention_days: integer(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('log_archive_settings_one').on(t.tenant_id, t.deployment_id).nullsNotDistinct(),
    index('log_archive_settings_deployment').on(t.deployment_id),
  ],
)
