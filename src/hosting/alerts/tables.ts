// Tables of alerts: rules, what they have seen, incidents with their history, and mutes.
import { sql } from 'drizzle-orm'
import {
  boolean,
  doublePrecision,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  unique,
  uniqueIndex,
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
import {
  builtIns,
  changeKinds,
  incidentStates,
  phases,
  ruleKinds,
  type StoredCondition,
  subjectTypes,
  type WeeklyHours,
} from '../../protocol/alerts.schema.ts'
import { severities } from '../../protocol/notice.schema.ts'
import { runRules } from '../../tracing/rules/tables.ts'
import { projects } from '../../tracing/store/tables.ts'
import { deployments } from '../deployments/tables.ts'

export const alertRules = pgTable(
  'alert_rules',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    built_in: text({ enum: builtIns }),
    enabled: boolean().notNull().default(true),
    kind: text({ enum: ruleKinds }).notNull(),
    condition: jsonb().$type<StoredCondition>().notNull(),
    /** None of both: every deployment. */
    deployment_ids: uuid().array().notNull().default(sql`'{}'`),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    /** The project of a rule about traces. */
    project_id: uuid().references(() => projects.id, { onDelete: 'cascade' }),
    for_seconds: integer().notNull(),
    resolve_after_seconds: integer().notNull(),
    severity: text({ enum: severities }).notNull(),
    /** None: the default channels of the workspace. */
    channel_ids: uuid().array().notNull().default(sql`'{}'`),
    /** When the traces of its project are looked at next. Null: a rule of another kind. */
    next_look_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('alert_rule_name_taken').on(t.tenant_id, t.name),
    index('alert_rules_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('alert_rules_kind').on(t.tenant_id, t.kind).where(sql`enabled`),
    index('alert_rules_project').on(t.project_id).where(sql`project_id is not null`),
    index('alert_rules_look').on(t.next_look_at).where(sql`enabled and next_look_at is not null`),
  ],
)

/** One row for a workspace that has changed them. */
export const alertSettings = pgTable(
  'alert_settings',
  {
    id: idColumn(),
    ...tenantColumns(),
    /** False: the built-in rules do not act. */
    defaults_enabled: boolean().notNull().default(true),
    ...versionedColumns(),
  },
  t => [unique('alert_settings_one').on(t.tenant_id)],
)

/** A rule has a row for each subject for which its condition holds, or is not over yet. */
export const alertStates = pgTable(
  'alert_states',
  {
    ...parentTenantColumns(),
    rule_id: uuid()
      .notNull()
      .references(() => alertRules.id, { onDelete: 'cascade' }),
    subject_id: uuid().notNull(),
    subject_type: text({ enum: subjectTypes }).notNull(),
    phase: text({ enum: phases }).notNull().default('ok'),
    since: instantColumn(),
    relapses: integer().notNull().default(0),
    sampled_at: instantColumn(),
    /** When it is looked at next, without a new sample. */
    due_at: instantColumn(),
    /** A look writes what it decided only if this has not changed since. */
    version: integer().notNull().default(1),
  },
  t => [
    primaryKey({ columns: [t.rule_id, t.subject_id] }),
    index('alert_states_due').on(t.due_at).where(sql`due_at is not null`),
    index('alert_states_subject').on(t.subject_id),
  ],
)

/** Events and log lines that rules have matched. Triggers write them: lines are counted by ten seconds. */
export const alertSignals = pgTable(
  'alert_signals',
  {
    ...parentTenantColumns(),
    rule_id: uuid()
      .notNull()
      .references(() => alertRules.id, { onDelete: 'cascade' }),
    subject_id: uuid().notNull(),
    at: instantColumn().notNull(),
    /** The number of events or lines. 0: an event that ends the condition. */
    count: integer().notNull(),
    cause: text(),
    lines: text().array().notNull().default(sql`'{}'`),
  },
  t => [primaryKey({ columns: [t.rule_id, t.subject_id, t.at] }), index('alert_signals_age').using('brin', t.at)],
)

export type Evidence = {
  facts: { name: string; value: string }[]
  lines: string[]
  chart?: { title: string; unit: string; points: [time: number, value: number][]; threshold?: number } | undefined
}

export const incidents = pgTable(
  'incidents',
  {
    id: idColumn(),
    ...tenantColumns(),
    rule_id: uuid().references(() => alertRules.id, { onDelete: 'set null' }),
    /** The automation rule whose alert it is. */
    run_rule_id: uuid().references(() => runRules.id, { onDelete: 'set null' }),
    rule_name: text().notNull(),
    subject_type: text({ enum: subjectTypes }).notNull(),
    subject_id: uuid().notNull(),
    subject_name: text().notNull(),
    deployment_id: uuid().references(() => deployments.id, { onDelete: 'cascade' }),
    project_id: uuid().references(() => projects.id, { onDelete: 'cascade' }),
    severity: text({ enum: severities }).notNull(),
    title: text().notNull(),
    /** The reason, as far as it is known. */
    cause: text().notNull(),
    state: text({ enum: incidentStates }).notNull().default('open'),
    value: doublePrecision(),
    evidence: jsonb().$type<Evidence>().notNull(),
    channel_ids: uuid().array().notNull(),
    /** The number of times that it came back after it was resolved. */
    reopened: integer().notNull().default(0),
    /** Null: no mute covers it. `infinity`: until its mute is deleted. */
    muted_until: instantColumn(),
    /** When its channels are told, if it is open then. Null: they are told already, or never. */
    tell_at: instantColumn(),
    /** True: the channels know that it is open. */
    is_told: boolean().notNull().default(false),
    /** The number of the last notice. */
    sequence: integer().notNull().default(0),
    opened_at: createdAtColumn(),
    last_at: createdAtColumn(),
    resolved_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    uniqueIndex('incidents_open').on(t.rule_id, t.subject_id).where(sql`state <> 'resolved'`),
    uniqueIndex('incidents_open_run_rule').on(t.run_rule_id).where(sql`state <> 'resolved'`),
    index('incidents_rule').on(t.rule_id, t.subject_id, t.resolved_at),
    index('incidents_run_rule').on(t.run_rule_id),
    index('incidents_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('incidents_deployment').on(t.deployment_id),
    index('incidents_project').on(t.project_id),
    index('incidents_tell').on(t.tell_at).where(sql`tell_at is not null`),
    index('incidents_age').on(t.resolved_at).where(sql`state = 'resolved'`),
  ],
)

/** The history of an incident. */
export const incidentChanges = pgTable(
  'incident_changes',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    incident_id: uuid()
      .notNull()
      .references(() => incidents.id, { onDelete: 'cascade' }),
    kind: text({ enum: changeKinds }).notNull(),
    value: doublePrecision(),
    message: text(),
    /** Null: the rule itself. */
    actor_id: uuid().default(sql`current_actor()`),
    actor_name: actorNameColumn(),
    created_at: createdAtColumn(),
  },
  t => [index('incident_changes_incident').on(t.incident_id, t.created_at)],
)

export const alertMutes = pgTable(
  'alert_mutes',
  {
    id: idColumn(),
    ...tenantColumns(),
    reason: text().notNull(),
    rule_ids: uuid().array().notNull().default(sql`'{}'`),
    deployment_ids: uuid().array().notNull().default(sql`'{}'`),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    starts_at: instantColumn(),
    ends_at: instantColumn(),
    weekly: jsonb().$type<WeeklyHours>(),
    created_by_name: actorNameColumn(),
    ...versionedColumns(),
  },
  t => [
    index('alert_mutes_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('alert_mutes_ended').on(t.ends_at).where(sql`ends_at is not null`),
  ],
)
