// Tables of build and deploy logs.
import { bigint, index, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { instantColumn } from './columns.ts'
import { revisions } from './deployments.ts'

/** How much was ever written to a log: what is beyond its bounds is gone from log_lines. */
export const logs = pgTable(
  'logs',
  {
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    revision_id: uuid()
      .notNull()
      .references(() => revisions.id, { onDelete: 'cascade' }),
    kind: text({ enum: ['build', 'deploy'] }).notNull(),
    lines: integer().notNull(),
    bytes: bigint({ mode: 'number' }).notNull(),
    /** Which line the agent sends next, in a stream of its own numbering. */
    stream: uuid(),
    next_line: integer(),
  },
  t => [primaryKey({ columns: [t.revision_id, t.kind] })],
)

/** Line 0 says how many older ones were dropped. `bytes_before` is how much the log had got before the line. */
export const logLines = pgTable(
  'log_lines',
  {
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
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
