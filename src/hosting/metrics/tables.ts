// The tables of metrics, by minute and by hour: what the copies of a revision used and answered, and amounts of stores.
import { bigint, index, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { instantColumn, parentTenantColumns } from '../../kernel/db/columns.ts'
import { deployments } from '../deployments/tables.ts'

const count = () => bigint({ mode: 'number' })

/** The counters of a point, which add up over copies, revisions and time. A null was not measured. */
export const COUNTERS = {
  restarts: count(),
  cpu_ms: count(),
  /** The sum of all copies over the minutes. */
  memory_bytes: count(),
  unreached: count(),
  status_1xx: count(),
  status_2xx: count(),
  status_3xx: count(),
  status_4xx: count(),
  status_5xx: count(),
  /** Answers by the time until they began, one column for each bucket of `LATENCY_BOUNDS_MS`. */
  latency_1: count(),
  latency_2: count(),
  latency_5: count(),
  latency_10: count(),
  latency_20: count(),
  latency_50: count(),
  latency_100: count(),
  latency_200: count(),
  latency_500: count(),
  latency_1000: count(),
  latency_2000: count(),
  latency_5000: count(),
  latency_10000: count(),
  latency_20000: count(),
  latency_60000: count(),
  latency_more: count(),
}

/** Points of each process type of a revision that has others than `web`. `metric_points` has all of them together. */
export const processPoints = pgTable(
  'process_points',
  {
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    revision_id: uuid().notNull(),
    process: text().notNull(),
    seconds: integer().notNull(),
    at: instantColumn().notNull(),
    cpu_minutes: count().notNull(),
    memory_minutes: count().notNull(),
    copies: integer().notNull(),
    memory_peak_bytes: count(),
    restarts: count(),
    cpu_ms: count(),
    memory_bytes: count(),
  },
  t => [
    primaryKey({ columns: [t.deployment_id, t.seconds, t.at, t.revision_id, t.process] }),
    index('process_points_age').on(t.seconds, t.at),
  ],
)

export const metricPoints = pgTable(
  'metric_points',
  {
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    revision_id: uuid().notNull(),
    /** 60 or 3600. */
    seconds: integer().notNull(),
    at: instantColumn().notNull(),
    /** One bit for each minute of the hour in which that was measured. */
    cpu_minutes: count().notNull(),
    memory_minutes: count().notNull(),
    /** The most that ran at once. */
    copies: integer().notNull(),
    /** The most memory of one copy. */
    memory_peak_bytes: count(),
    /** The most tasks that waited. */
    queue: count(),
    ...COUNTERS,
  },
  t => [
    primaryKey({ columns: [t.deployment_id, t.seconds, t.at, t.revision_id] }),
    index('metric_points_age').on(t.seconds, t.at),
  ],
)

/** The most in a minute, or in an hour, of a store of a deployment. */
export const storePoints = pgTable(
  'store_points',
  {
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    store: text().notNull(),
    seconds: integer().notNull(),
    at: instantColumn().notNull(),
    bytes: count(),
    connections: count(),
  },
  t => [
    primaryKey({ columns: [t.deployment_id, t.seconds, t.at, t.store] }),
    index('store_points_age').on(t.seconds, t.at),
  ],
)
