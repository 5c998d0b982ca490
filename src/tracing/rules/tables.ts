// Tables of automation rules: the rules, the runs that wait for them, and their actions.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  date,
  doublePrecision,
  foreignKey,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  unique,
  uuid,
} from 'drizzle-orm/pg-core'
import {
  actorNameColumn,
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import { datasets } from '../datasets/tables.ts'
import { annotationQueues } from '../queues/tables.ts'
import { projects } from '../store/tables.ts'

/** The places for which the secret and the headers of a webhook are sealed. */
export const SECRET_PLACE = 'rule webhook secret'
export const HEADER_PLACE = 'rule webhook header'
/** Header values are sealed under the rule's id. */
export type RuleWebhook = { id: string; url: string; headers: Record<string, string> }
/** The routing key is sealed under the rule's id. The channel of this id, made at the first match, has it, too. */
export type RuleAlert = {
  id: string
  routing_key: string
  summary: string | null
  severity: 'critical' | 'warning' | 'error' | 'info'
}
/** The question to a model about a run, and the way its answer becomes feedback. */
export type JudgePrompt = {
  playground_settings_id: string
  prompt: [role: 'system' | 'user' | 'assistant', template: string][]
  schema: Record<string, unknown>
  template_format: 'mustache' | 'f-string'
  variable_mapping: Record<string, string>
}
/** The id follows from the contents, so an evaluator that stays as it is keeps it. */
export type RuleEvaluator = { id: string; structured: JudgePrompt }
export const BACKFILL_STATES = ['waiting', 'running', 'completed'] as const

/** Evaluators that several rules use. */
export const evaluators = pgTable(
  'evaluators',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    structured: json().$type<JudgePrompt>().notNull(),
    feedback_keys: text().array().notNull(),
    metadata: json().$type<Record<string, unknown>>(),
    created_by_name: actorNameColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('evaluator_exists').on(t.tenant_id, t.name),
    index('evaluators_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

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
    alerts: json().$type<RuleAlert[]>().notNull().default([]),
    evaluators: json().$type<RuleEvaluator[]>().notNull().default([]),
    evaluator_id: uuid(),
    /** The limit of its evaluators in a week, from Monday in UTC. */
    spend_limit_usd: doublePrecision(),
    spent_usd: doublePrecision().notNull().default(0),
    /** The Monday of the week in which that was spent. */
    spent_week: date(),
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
    /** The last time its webhooks were sent: the rule that has waited longest is next. */
    last_sent_at: createdAtColumn(),
    /** The last time its evaluators were asked. */
    last_judged_at: createdAtColumn(),
    ...versionedColumns(),
  },
  t => [
    index('run_rules_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('run_rules_session').on(t.session_id),
    index('run_rules_dataset').on(t.dataset_id),
    index('run_rules_target_dataset').on(t.add_to_dataset_id),
    index('run_rules_target_queue').on(t.add_to_annotation_queue_id),
    index('run_rules_evaluator').on(t.evaluator_id),
    foreignKey({ name: 'evaluator_in_use', columns: [t.evaluator_id], foreignColumns: [evaluators.id] }),
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
/** By the members of the log. Outcomes of webhooks are in their deliveries, those of alerts in their notices. */
export type RuleOutcomes = Partial<
  Record<'add_to_annotation_queue' | 'add_to_dataset' | 'extend_only', RuleOutcome>
> & {
  /** `sequence`: of the notice that told of it. Null: a mute covers it, or it is to last first. */
  alert?: { incident_id: string; sequence: number | null }
}

/** A rule acts on a run once: the row is written with its actions. */
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
    /** Always `webhook`: alerts were deliveries once. */
    kind: text({ enum: ['webhook', 'alert'] })
      .notNull()
      .default('webhook'),
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

export type StoredVerdict = { key: string; score?: number | boolean; value?: string; comment?: string }

/** An evaluator judges a run once: its answer is stored before it becomes feedback. */
export const ruleEvaluations = pgTable(
  'rule_evaluations',
  {
    /** Ends in `00`: see `callRunId()`. */
    id: uuid().primaryKey(),
    ...parentTenantColumns(),
    rule_id: uuid()
      .notNull()
      .references(() => runRules.id, { onDelete: 'cascade' }),
    run_id: uuid().notNull(),
    /** Within those of the rule, or one that several rules use. */
    evaluator_id: uuid().notNull(),
    /** The run is itself a call of an evaluator. */
    is_of_evaluator: boolean().notNull(),
    state: text({ enum: ['waiting', 'done', 'skipped', 'failed'] })
      .notNull()
      .default('waiting'),
    attempts: integer().notNull().default(0),
    /** The end of the current worker's lease, or the time of the next attempt. */
    next_attempt_at: instantColumn().default(sql`clock()`),
    attempted_at: instantColumn(),
    verdicts: json().$type<StoredVerdict[]>(),
    /** The run of the call that answered. Null where the configuration traces none. */
    call_run_id: uuid(),
    cost_usd: doublePrecision(),
    error: text(),
    message: text(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('rule_evaluations_once').on(t.rule_id, t.run_id, t.evaluator_id),
    index('rule_evaluations_due').on(t.rule_id, t.next_attempt_at).where(sql`state = 'waiting'`),
    index('rule_evaluations_days').on(t.rule_id, t.created_at),
    index('rule_evaluations_age').using('brin', t.created_at),
  ],
)
