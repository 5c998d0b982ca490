// Tables of insights: jobs that sort the runs of a project into clusters, their saved configs, and the calls they made.
import { sql } from 'drizzle-orm'
import { type AnyPgColumn, boolean, index, integer, json, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import { projects } from '../store/tables.ts'

export const INSIGHT_STATES = ['queued', 'running', 'success', 'error'] as const
/** `lexical` calls no model: it counts the words of the runs. */
export const INSIGHT_METHODS = ['model', 'lexical'] as const

/** The request of a job. Its texts are as the client sent them. */
export type InsightRequest = {
  start_time?: string | null | undefined
  end_time?: string | null | undefined
  last_n_hours?: number | null | undefined
  /** The number of clusters of each level, from the finest to the broadest. */
  hierarchy?: number[] | null | undefined
  /** The broadest categories, if they are given: descriptions by name. */
  partitions?: Record<string, string> | null | undefined
  /** A part of the runs up to 1, above it their number. */
  sample?: number | null | undefined
  summary_prompt?: string | null | undefined
  filter?: string | null | undefined
  attribute_schemas?: Record<string, Record<string, unknown>> | null | undefined
  user_context?: Record<string, string> | null | undefined
  model: string
  cluster_model?: string | null | undefined
  summary_model?: string | null | undefined
}

export type InsightReport = {
  title: string
  key_points: string[]
  highlighted_traces: {
    run_id: string
    cluster_id: string | null
    cluster_name: string | null
    rank: number
    highlight_reason: string
    summary: string | null
  }[]
  created_at: string
}

export const insightConfigs = pgTable(
  'insight_configs',
  {
    id: idColumn(),
    ...tenantColumns(),
    session_id: uuid()
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    description: text(),
    config: json().$type<InsightRequest & { name?: string | null }>().notNull(),
    /** Five fields, in UTC. */
    schedule_cron: text(),
    /** Firings: the next one that starts a job, and that of the last job. The starts come a little later. */
    next_start_at: instantColumn(),
    last_started_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    index('insight_configs_page').on(t.session_id, ...newestFirstColumns(t)),
    index('insight_configs_due').on(t.next_start_at).where(sql`next_start_at is not null`),
  ],
)

export const insightJobs = pgTable(
  'insight_jobs',
  {
    id: idColumn(),
    ...tenantColumns(),
    session_id: uuid()
      .notNull()
      .references(() => projects.id, { onDelete: 'cascade' }),
    config_id: uuid().references(() => insightConfigs.id, { onDelete: 'set null' }),
    name: text().notNull(),
    status: text({ enum: INSIGHT_STATES }).notNull().default('queued'),
    method: text({ enum: INSIGHT_METHODS }).notNull(),
    request: json().$type<InsightRequest>().notNull(),
    is_scheduled: boolean().notNull().default(false),
    /** The model configurations of the summaries, and of clusters and report. */
    summary_configuration_id: uuid(),
    cluster_configuration_id: uuid(),
    /** Bounds of the runs that it is about. */
    start_time: instantColumn(),
    end_time: instantColumn(),
    /** The number of selected runs. Null until they are selected. */
    num_runs: integer(),
    /** Members that the job shows while it runs and afterwards, such as its method and progress. */
    metadata: json().$type<Record<string, unknown>>().notNull().default({}),
    report: json().$type<InsightReport>(),
    error: text(),
    /** Counts the claims. Writes of a worker count only while the lease is the worker's. */
    lease: integer().notNull().default(0),
    /** The end of the current worker's lease, or the time of the next attempt. */
    leased_until: createdAtColumn(),
    /** Claims since something was last stored. */
    attempts: integer().notNull().default(0),
    started_at: instantColumn(),
    finished_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    index('insight_jobs_page').on(t.session_id, ...newestFirstColumns(t)),
    index('insight_jobs_config').on(t.config_id),
    index('insight_jobs_due').on(t.leased_until).where(sql`status in ('queued', 'running')`),
    index('insight_jobs_organization').on(t.organization_id).where(sql`status in ('queued', 'running')`),
  ],
)

export const insightClusters = pgTable(
  'insight_clusters',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    job_id: uuid()
      .notNull()
      .references(() => insightJobs.id, { onDelete: 'cascade' }),
    parent_id: uuid().references((): AnyPgColumn => insightClusters.id, { onDelete: 'cascade' }),
    /** The finest is 0. */
    level: integer().notNull(),
    /** Within its level: the largest is first. */
    place: integer().notNull(),
    name: text().notNull(),
    description: text().notNull(),
    /** The number of runs in it and below it. */
    num_runs: integer().notNull(),
    stats: json().$type<Record<string, unknown>>(),
  },
  t => [
    index('insight_clusters_job').on(t.job_id, t.level.desc(), t.place),
    index('insight_clusters_parent').on(t.parent_id),
  ],
)

/** The runs of a job, by their place in it. Each is the root of its trace. */
export const insightRuns = pgTable(
  'insight_runs',
  {
    ...parentTenantColumns(),
    job_id: uuid()
      .notNull()
      .references(() => insightJobs.id, { onDelete: 'cascade' }),
    run_id: uuid().notNull(),
    place: integer().notNull(),
    summary: text(),
    attributes: json().$type<Record<string, unknown>>(),
    /** An attribute with `filter_by` is false. It belongs to no cluster. */
    is_excluded: boolean().notNull().default(false),
    /** A cluster of the finest level. */
    cluster_id: uuid().references(() => insightClusters.id, { onDelete: 'set null' }),
  },
  t => [
    primaryKey({ columns: [t.job_id, t.run_id] }),
    index('insight_runs_place').on(t.job_id, t.place),
    index('insight_runs_cluster').on(t.cluster_id),
    index('insight_runs_run').on(t.tenant_id, t.run_id),
  ],
)

/** One call of a model, by its subject, such as `summary:<run id>`. Answered calls are not repeated. */
export const insightSteps = pgTable(
  'insight_steps',
  {
    ...parentTenantColumns(),
    job_id: uuid()
      .notNull()
      .references(() => insightJobs.id, { onDelete: 'cascade' }),
    key: text().notNull(),
    state: text({ enum: ['waiting', 'answered', 'failed'] })
      .notNull()
      .default('waiting'),
    attempts: integer().notNull().default(0),
    /** Null where the answer is stored elsewhere, as summaries are with their runs. */
    answer: json(),
    error: text(),
    /** The run of the call, in the project `insights`. */
    run_id: uuid(),
    updated_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.job_id, t.key] })],
)
