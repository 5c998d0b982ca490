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
import { tenantColumns } from './access.ts'
import { createdAtColumn, idColumn, instantColumn, newestFirstColumns, parentTenantColumns } from './columns.ts'

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
    /** Of traces that begin from now on. */
    trace_tier: tierColumn().notNull().default('shortlived'),
    /** Earlier tiers, the oldest first: `[{"tier": "shortlived", "until": "..."}]`. `tier_at()` reads them. */
    earlier_tiers: jsonb().notNull().default([]),
    longlived_ttl_days: integer(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('project_name_taken').on(t.tenant_id, t.name),
    index('projects_deployment').on(t.deployment_id),
    index('projects_page').on(t.tenant_id, ...newestFirstColumns(t)),
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
    /** When the trace's root began, by its `dotted_order`. The tier of a trace depends on it. */
    trace_time: instantColumn().notNull(),
    /** When the run began, by the last segment of its `dotted_order`. All writes of a run have the same. */
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
    /** Paths in the object store of members that are too long for a row, and of attachments: a `StoredObjects`. */
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

/** What lies in the object store for a trace. It is deleted with the trace. */
export const traceObjects = pgTable(
  'trace_objects',
  {
    ...parentTenantColumns(),
    path: text().notNull(),
    trace_id: uuid().notNull(),
    session_id: uuid().notNull(),
    run_id: uuid().notNull(),
    trace_time: instantColumn().notNull(),
    bytes: bigint({ mode: 'number' }).notNull(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.path] }),
    index('trace_objects_trace').on(t.tenant_id, t.trace_id),
    index('trace_objects_age').on(t.trace_time),
  ],
)

/**
 * Where spans of OpenTelemetry stand, for a day: a span names its parent alone, which may come later. Ids are those of
 * OpenTelemetry, except for `run_id`.
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
    /** As the run has it. */
    dotted_order: text().notNull(),
    /** Spans without a known parent hang under it. */
    is_root: boolean().notNull(),
    /** The client has placed the run itself. */
    is_fixed: boolean().notNull(),
    created_at: createdAtColumn(),
  },
  t => [
    primaryKey({ columns: [t.tenant_id, t.trace, t.span] }),
    // Not by the trace first, as the primary key is: a planner that knows little of the table could take either.
    index('otlp_spans_children').on(t.tenant_id, t.parent, t.trace),
    index('otlp_spans_roots').on(t.tenant_id, t.trace).where(sql`is_root`),
    index('otlp_spans_age').on(t.created_at),
  ],
)

/**
 * What the runs of a project add up to, by the minute of their `order_time`. Triggers of `runs` keep it, and it stays
 * when runs expire. Connections write different slots, so that they do not wait for each other.
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
    /** Ended roots by latency, one element for each bucket of `latency_bucket()`. */
    latencies: integer().array().notNull().default(sql`'{}'`),
    first_token_latencies: integer().array().notNull().default(sql`'{}'`),
    last_start_time: instantColumn(),
  },
  t => [primaryKey({ columns: [t.tenant_id, t.session_id, t.minute, t.slot] })],
)

/** Projects that were deleted. A sweep deletes their runs. */
export const deletedProjects = pgTable('deleted_projects', {
  id: uuid().primaryKey(),
  ...parentTenantColumns(),
  deleted_at: createdAtColumn(),
  is_swept: boolean().notNull().default(false),
})
