// Tables of build and deploy logs.
import { bigint, index, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { instantColumn, parentTenantColumns } from './columns.ts'
import { revisions } from './deployments.ts'

/** Totals of everything ever written to a log. Lines beyond its limit are deleted from log_lines. */
export const logs = pgTable(
  'logs',
  {
    ...parentTenantColumns(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    kind: text({ enum: ['build', 'deploy'] }).notNull(),
    lines: integer().notNull(),
    bytes: bigint({ mode: 'number' }).notNull(),
    /** The next line expected from the agent. A new stream numbers its lines from zero. */
    stream: uuid(),
    next_line: integer(),
  },
  t => [primaryKey({ columns: [t.revision_id, t.kind] })],
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
    kind: text({ enum: ['build', 'deploy'] }).notNull(),
    number: integer().notNull(),
    timestamp: instantColumn().notNull(),
    severity: integer().notNull(),
    message: text().notNull(),
    bytes_before: bigint({ mode: 'number' }).notNull(),
  },
  t => [
    primaryKey({ columns: [t.revision_id, t.kind, t.number] }),
    index('log_lines_of_revision').on(t.revision_id, t.kind, t.timestamp, t.number),
    index('log_lines_of_deployment').on(t.deployment_id, t.kind, t.timestamp, t.revision_id, t.number),
  ],
)
