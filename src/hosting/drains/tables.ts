// Tables of drains: where signals of a workspace are sent to, and how far each sender has come.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  doublePrecision,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
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
import { listeners } from '../listeners/tables.ts'

const count = () => bigint({ mode: 'number' }).notNull().default(0)

/** The progress that both the control plane and agents keep of their sending. */
const progressColumns = () => ({
  sent: count(),
  dropped: count(),
  last_sent_at: instantColumn(),
  /** The first failure since the last success. */
  failing_since: instantColumn(),
  error: text(),
})

export const drains = pgTable(
  'drains',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    kind: text({ enum: ['otlp', 'ndjson', 'loki', 'syslog'] }).notNull(),
    url: text().notNull(),
    compression: text({ enum: ['gzip', 'none'] }).notNull(),
    /** Their values are sealed under the id, as JSON. */
    header_names: text().array().notNull(),
    headers: text(),
    signals: text().array().notNull(),
    deployment_ids: uuid().array().notNull(),
    tag_value_ids: uuid().array().notNull(),
    min_level: text({ enum: ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'] }),
    processes: text().array().notNull(),
    contains: text(),
    sampling_rate: doublePrecision().notNull(),
    enabled: boolean().notNull().default(true),
    /** The number of the last event of the workspace that was sent, or passed over. */
    position: count(),
    /** The last row of `finished_runs` that was sent, or passed over. */
    trace_position: count(),
    /** The end of the current worker's lease, or of the pause after failures. */
    next_send_at: createdAtColumn(),
    /** Failures in a row of the control plane. */
    failures: integer().notNull().default(0),
    ...progressColumns(),
    owner: text(),
    ...versionedColumns(),
  },
  t => [
    uniqueIndex('drain_name_taken').on(t.tenant_id, sql`lower(name)`),
    index('drains_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('drains_due').on(t.next_send_at).where(sql`enabled and signals && '{events,traces}'`),
    check('drains_kind', sql`${t.kind} in ('otlp', 'ndjson', 'loki', 'syslog')`),
  ],
)

/** The part of an agent. Its counts begin at 0 with each epoch, and are added to those of earlier epochs. */
export const drainStates = pgTable(
  'drain_states',
  {
    drain_id: uuid()
      .notNull()
      .references(() => drains.id, { onDelete: 'cascade' }),
    listener_id: uuid()
      .notNull()
      .references(() => listeners.id, { onDelete: 'cascade' }),
    ...parentTenantColumns(),
    epoch: uuid().notNull(),
    epoch_sent: count(),
    epoch_dropped: count(),
    waiting: count(),
    waiting_bytes: count(),
    ...progressColumns(),
    reported_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.drain_id, t.listener_id] }), index('drain_states_listener').on(t.listener_id)],
)
