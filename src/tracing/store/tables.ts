// Tables of tracing: projects, their runs, and the counts of runs that outlive them.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  index,
  integer,
  json,
  jsonb,
  numeric,
  pgTable,
  primaryKey,
  text,
  unique,
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
import { organizations, tenantColumns, workspaces } from '../../people/access/tables.ts'

export const TRACE_TIERS = ['shortlived', 'longlived'] as const
const tierColumn = () => text({ enum: TRACE_TIERS })

/** A tracing project. That of a deployment also claims the deployment's name. */
export const projects = pgTable(
  'projects',
  {
    id: idColumn(),
    ...tenantColumns(),
    deployment_id: uuid(),
    name: text().notNull(),
    description: text(),
    start_time: createdAtColumn(),
    end_time: instantColumn(),
    /** An object, as the client sent it. */
    extra: json(),
    default_dataset_id: uuid(),
    reference_dataset_id: uuid(),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    /** The tier of traces that begin from now on. */
    trace_tier: tierColumn().notNull().default(sql`default_trace_tier()`),
    /** Earlier tiers, the oldest first: `[{"tier": "shortlived", "until": "..."}]`. `tier_at()` reads them. */
    earlier_tiers: jsonb().notNull().default([]),
    longlived_ttl_days: integer(),
    /** Experiments only: the number of runs to expect, and the keys of its evaluators. */
    num_examples: integer(),
    num_repetitions: integer(),
    evaluator_keys: text().array(),
    ...versionedColumns(),
  },
  t => [
    unique('project_name_taken').on(t.tenant_id, t.name),
    index('projects_deployment').on(t.deployment_id),
    index('projects_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('projects_start').on(t.tenant_id, t.start_time.desc().nullsFirst(), t.id.desc().nullsFirst()),
    index('projects_reference_dataset').on(t.reference_dataset_id),
  ],
)

const tokens = () => bigint({ mode: 'number' })

/**
 * Partitioned by tier and by `order_time`: a day each for short-lived runs and a month each for long-lived ones. Texts
 * hold JSON as the client sent it, so numbers keep all their digits.
 */
export const runs = pgTable(
  'runs',
  {
    ...parentTenantColumns(),
    session_id: uuid().notNull(),
    id: uuid().notNull(),
    trace_id: uuid().notNull(),
    /** The start of the trace's root, by its `dotted_order`. The tier of a trace depends on it. */
    trace_time: instantColumn().notNull(),
    /** The start of the run, by the last segment of its `dotted_order`. All writes of a run have the same. */
    order_time: instantColumn().notNull(),
    trace_tier: tierColumn().notNull(),
    dotted_order: text().notNull(),
    parent_run_id: uuid(),
    /** Null until the post arrives. A run without a name or a type is not shown. */
    name: text(),
    run_type: text(),
    start_time: instantColumn(),
    end_time: instantColumn(),
    first_token_time: instantColumn(),
    status: text().generatedAlwaysAs(
      sql`case when error is not null then 'error' when end_time is not null then 'success' else 'pending' end`,
    ),
    error: text(),
    tags: text().array(),
    /** `extra.metadata` for filters, without NUL characters. */
    metadata: jsonb(),
    thread_id: text(),
    reference_example_id: uuid(),
    extra: text(),
    serialized: text(),
    inputs: text(),
    outputs: text(),
    events: text(),
    inputs_preview: text(),
    outputs_preview: text(),
    /** Members that are too long for a row, and attachments: a `StoredObjects`. */
    objects: json(),
    prompt_tokens: tokens(),
    completion_tokens: tokens(),
    total_tokens: tokens(),
    prompt_cost: numeric(),
    completion_cost: numeric(),
    total_cost: numeric(),
    /** A `UsageDetails`. */
    usage_details: json(),
    /** One bit for each member that a patch set, by the position in `MERGED_MEMBERS`. A post does not replace it. */
    patched: integer().notNull().default(0),
    received_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.id, t.order_time, t.trace_tier] }),
    index('runs_page').on(t.tenant_id, t.session_id, t.order_time.desc().nullsFirst(), t.id.desc().nullsFirst()),
    index('runs_roots')
      .on(t.tenant_id, t.session_id, t.order_time.desc().nullsFirst(), t.id.desc().nullsFirst())
      .where(sql`id = trace_id`),
    index('runs_trace').on(t.tenant_id, t.trace_id),
    index('runs_threads')
      .on(t.tenant_id, t.session_id, t.thread_id, t.order_time.desc().nullsFirst(), t.id.desc().nullsFirst())
      .where(sql`id = trace_id and thread_id is not null`),
    index('runs_reference_examples')
      .on(t.tenant_id, t.reference_example_id)
      .where(sql`reference_example_id is not null`),
  ],
)

/** Links that show a run, and those below it, to anyone. */
export const runShares = pgTable(
  'run_shares',
  {
    share_token: uuid().primaryKey(),
    ...parentTenantColumns(),
    session_id: uuid().notNull(),
    run_id: uuid().notNull(),
    trace_id: uuid().notNull(),
    created_at: createdAtColumn(),
  },
  t => [unique('run_shares_run').on(t.tenant_id, t.run_id), index('run_shares_trace').on(t.tenant_id, t.trace_id)],
)

/** Links that show the traces of a thread to anyone. */
export const threadShares = pgTable(
  'thread_shares',
  {
    share_token: uuid().primaryKey().defaultRandom(),
    ...parentTenantColumns(),
    session_id: uuid()
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    thread_id: text().notNull(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('thread_shares_thread').on(t.tenant_id, t.session_id, t.thread_id),
    index('thread_shares_session').on(t.session_id),
  ],
)

/** Traces that were upgraded to long-lived. Later writes to them follow. */
export const upgradedTraces = pgTable(
  'upgraded_traces',
  {
    ...parentTenantColumns(),
    trace_id: uuid().notNull(),
    trace_time: instantColumn().notNull(),
    upgraded_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.tenant_id, t.trace_id] }), index('upgraded_traces_age').on(t.trace_time)],
)

/**
 * The objects of runs in the object store. An object expires with its trace, an hour after another text has taken its
 * place, or at once when the trace is deleted.
 */
export const traceObjects = pgTable(
  'trace_objects',
  {
    ...parentTenantColumns(),
    path: text().notNull(),
    trace_id: uuid().notNull(),
    /** Null for a patch that waits for its project. */
    session_id: uuid(),
    run_id: uuid().notNull(),
    expires_at: instantColumn().notNull(),
    bytes: bigint({ mode: 'number' }).notNull(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.path] }),
    index('trace_objects_trace').on(t.tenant_id, t.trace_id),
    index('trace_objects_expired').on(t.expires_at),
  ],
)

/**
 * The places of spans of OpenTelemetry, for a day: a span names its parent alone, which may come later. Ids are those
 * of OpenTelemetry, except for `run_id`.
 */
export const otlpSpans = pgTable(
  'otlp_spans',
  {
    ...parentTenantColumns(),
    trace: uuid().notNull(),
    span: uuid().notNull(),
    parent: uuid(),
    run_id: uuid().notNull(),
    order_time: instantColumn().notNull(),
    /** The order of the run. */
    dotted_order: text().notNull(),
    /** Spans without a known parent hang under it. */
    is_root: boolean().notNull(),
    /** The client has placed the run itself. */
    is_fixed: boolean().notNull(),
    /** Set if runs are stored outside of Postgres. */
    session_id: uuid(),
    created_at: createdAtColumn(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.trace, t.span] }),
    // The trace is not first, as in the primary key: a planner that knows little of the table could take either.
    index('otlp_spans_children').on(t.tenant_id, t.parent, t.trace),
    index('otlp_spans_roots').on(t.tenant_id, t.trace).where(sql`is_root`),
    index('otlp_spans_age').on(t.created_at),
  ],
)

/**
 * Counts of the runs of a project, by the minute of their `order_time`. Triggers of `runs` keep them, and they stay
 * when runs expire. Connections write different slots, so that they do not wait for each other. After eight days the
 * minutes of an hour become one row, in slot -1.
 */
export const sessionMinutes = pgTable(
  'session_minutes',
  {
    ...parentTenantColumns(),
    session_id: uuid().notNull(),
    minute: instantColumn().notNull(),
    slot: integer().notNull(),
    runs: tokens().notNull().default(0),
    roots: tokens().notNull().default(0),
    /** Roots that have ended; with an error; with a first token. */
    ended: tokens().notNull().default(0),
    errors: tokens().notNull().default(0),
    streamed: tokens().notNull().default(0),
    prompt_tokens: tokens().notNull().default(0),
    completion_tokens: tokens().notNull().default(0),
    total_tokens: tokens().notNull().default(0),
    prompt_cost: numeric().notNull().default('0'),
    completion_cost: numeric().notNull().default('0'),
    total_cost: numeric().notNull().default('0'),
    /** The size of payloads, attachments and errors. Null in rows from before it was counted. */
    bytes: tokens(),
    /** Roots by latency, one element for each bucket of `latency_bucket()` up to the last that is not empty. */
    latencies: integer().array().notNull().default(sql`'{}'`),
    first_token_latencies: integer().array().notNull().default(sql`'{}'`),
    last_start_time: instantColumn(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.session_id, t.minute, t.slot] }),
    index('session_minutes_age').on(t.minute),
    index('session_minutes_to_add_up').on(t.minute).where(sql`slot >= 0`),
  ],
)

/** Patches that name no project and came before their post, in the order of their ids. */
export const waitingPatches = pgTable(
  'waiting_patches',
  {
    ...parentTenantColumns(),
    id: bigint({ mode: 'number' }).generatedByDefaultAsIdentity(),
    run_id: uuid().notNull(),
    /** The row that `append.ts` sends. */
    patch: json().notNull(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.tenant_id, t.run_id, t.id] }), index('waiting_patches_age').on(t.created_at)],
)

/**
 * Runs that were posted and have not ended, where runs are stored outside of Postgres: a patch that names no project
 * finds its own by them.
 */
export const openRuns = pgTable(
  'open_runs',
  {
    ...parentTenantColumns(),
    id: uuid().notNull(),
    session_id: uuid().notNull(),
    trace_tier: tierColumn().notNull(),
    trace_id: uuid().notNull(),
    trace_time: instantColumn().notNull(),
    order_time: instantColumn().notNull(),
    dotted_order: text().notNull(),
    parent_run_id: uuid(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.tenant_id, t.id] }), index('open_runs_age').on(t.created_at)],
)

export const VIEW_TYPES = ['runs', 'threads', 'single_run'] as const

/** A saved filter over the runs of a project. */
export const filterViews = pgTable(
  'filter_views',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    session_id: uuid()
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    display_name: text().notNull(),
    description: text(),
    type: text({ enum: VIEW_TYPES }).notNull().default('runs'),
    filter_string: text(),
    trace_filter_string: text(),
    tree_filter_string: text(),
    start_time: instantColumn(),
    end_time: instantColumn(),
    duration: text(),
    ...versionedColumns(),
  },
  t => [index('filter_views_page').on(t.session_id, ...newestFirstColumns(t))],
)

/** Retention that new projects start with. Of the organization where `tenant_id` is null; a workspace inherits it. */
export const ttlSettings = pgTable(
  'ttl_settings',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    tenant_id: uuid().references(() => workspaces.id, { onDelete: 'cascade' }),
    default_trace_tier: tierColumn(),
    longlived_ttl_days: integer(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('ttl_settings_one').on(t.organization_id, t.tenant_id).nullsNotDistinct(),
    index('ttl_settings_tenant').on(t.tenant_id),
  ],
)

/** Projects that were deleted. A trigger of `projects` writes it, and a sweep deletes their runs. */
export const deletedProjects = pgTable('deleted_projects', {
  id: uuid().primaryKey(),
  ...parentTenantColumns(),
  deleted_at: createdAtColumn(),
  is_swept: boolean().notNull().default(false),
})
