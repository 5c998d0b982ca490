// Tables of automation rules: the rules, the runs that wait for them, and what they did.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  doublePrecision,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  uuid,
} from 'drizzle-orm/pg-core'
import { tenantColumns } from './access.ts'
import { annotationQueues } from './annotation-queues.ts'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from './columns.ts'
import { datasets } from './datasets.ts'
import { projects } from './traces.ts'

/** Header values are sealed under the rule's id. */
export type RuleWebhook = { id: string; url: string; headers: Record<string, string> }
export const BACKFILL_STATES = ['waiting', 'running', 'completed'] as const

export const runRules = pgTable(
  'run_rules',
  {
    id: idColumn(),
    ...tenantColumns(),
    display_name: text().notNull(),
    is_enabled: boolean().notNull().default(true),
    /** The runs of a project, or those of the experiments on a dataset. */
    session_id: uuid().references(() => projects.id, { onDelete: 'cascade' }),
    dataset_id: uuid().references(() => datasets.id, { onDelete: 'cascade' }),
    sampling_rate: doublePrecision().notNull(),
    filter: text(),
    trace_filter: text(),
    tree_filter: text(),
    add_to_annotation_queue_id: uuid().references(() => annotationQueues.id, { onDelete: 'set null' }),
    add_to_dataset_id: uuid().references(() => datasets.id, { onDelete: 'set null' }),
    add_to_dataset_prefer_correction: boolean().notNull().default(false),
    extend_only: boolean().notNull().default(false),
    webhooks: json().$type<RuleWebhook[]>().notNull().default([]),
    /** Sealed. Signs the webhooks. */
    webhook_secret: text().notNull(),
    /** The last row of `finished_runs` that the rule has seen. */
    position: bigint({ mode: 'number' }).notNull(),
    backfill_id: uuid(),
    backfill_from: instantColumn(),
    backfill_until: instantColumn(),
    backfill_status: text({ enum: BACKFILL_STATES }),
    /** The last run that the backfill has seen: a `RunCursor`. */
    backfill_cursor: json(),
    backfill_completed_at: instantColumn(),
    /** The end of the current worker's lease. */
    next_evaluation_at: createdAtColumn(),
    /** When its webhooks were last sent: the rule that has waited longest is next. */
    last_sent_at: createdAtColumn(),
    ...versionedColumns(),
  },
  t => [
    index('run_rules_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('run_rules_session').on(t.session_id),
    index('run_rules_dataset').on(t.dataset_id),
    index('run_rules_target_dataset').on(t.add_to_dataset_id),
    index('run_rules_target_queue').on(t.add_to_annotation_queue_id),
  ],
)

/**
 * Runs that ended, or changed after their end, where a rule waits for them. Triggers write it. `id` rises in the order
 * of the commits of a workspace: see `lockFinishedRuns()`.
 */
export const finishedRuns = pgTable(
  'finished_runs',
  {
    ...parentTenantColumns(),
    session_id: uuid().notNull(),
    id: bigint({ mode: 'number' }).notNull().generatedByDefaultAsIdentity(),
    run_id: uuid().notNull(),
    trace_id: uuid().notNull(),
    order_time: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.tenant_id, t.session_id, t.id] })],
)

export type RuleOutcome = { outcome: 'success' | 'skipped' | 'error'; payload?: Record<string, unknown> | null }
/** By the members of the log. Outcomes of webhooks are in their deliveries. */
export type RuleOutcomes = Partial<Record<'add_to_annotation_queue' | 'add_to_dataset' | 'extend_only', RuleOutcome>>

/** A rule acts on a run once: the row is written with what it does. */
export const ruleApplications = pgTable(
  'rule_applications',
  {
    ...parentTenantColumns(),
    rule_id: uuid()
      .notNull()
      .references(() => runRules.id, { onDelete: 'cascade' }),
    run_id: uuid().notNull(),
    run_session_id: uuid().notNull(),
    run_name: text(),
    run_type: text(),
    start_time: instantColumn(),
    end_time: instantColumn(),
    thread_id: text(),
    is_backfill: boolean().notNull(),
    outcomes: json().$type<RuleOutcomes>().notNull(),
    delivery_ids: uuid().array().notNull().default(sql`'{}'`),
    created_at: createdAtColumn(),
  },
  t => [
    primaryKey({ columns: [t.rule_id, t.run_id] }),
    index('rule_applications_page').on(t.rule_id, t.created_at.desc().nullsFirst(), t.run_id.desc().nullsFirst()),
    index('rule_applications_age').using('brin', t.created_at),
  ],
)

export const ruleDeliveries = pgTable(
  'rule_deliveries',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    rule_id: uuid()
      .notNull()
      .references(() => runRules.id, { onDelete: 'cascade' }),
    /** The webhook, within those of the rule. */
    target_id: uuid().notNull(),
    run_ids: uuid().array().notNull(),
    /** The first start and the last end of these runs. */
    start_time: instantColumn(),
    end_time: instantColumn(),
    state: text({ enum: ['waiting', 'delivered', 'failed'] })
      .notNull()
      .default('waiting'),
    attempts: integer().notNull().default(0),
    /** The end of the current worker's lease, or the time of the next attempt. */
    next_attempt_at: instantColumn().default(sql`clock()`),
    attempted_at: instantColumn(),
    answer_status: integer(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [
    index('rule_deliveries_rule').on(t.rule_id),
    index('rule_deliveries_due').on(t.rule_id, t.next_attempt_at).where(sql`state = 'waiting'`),
    index('rule_deliveries_age').using('brin', t.created_at),
  ],
)
