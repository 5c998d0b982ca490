// Tables of jobs, their log lines, and schedules.
import { type SQL, sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  index,
  integer,
  json,
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
import type { Command, JobStatus, Overlap } from '../../protocol/jobs.schema.ts'
import type { JobAction } from '../../protocol/snapshots.schema.ts'
import { deployments } from '../deployments/tables.ts'

/** Functions of the database and indexes use the same condition. */
const isOpen = (status: SQL): SQL => sql`${status} in ('QUEUED', 'RUNNING')`

/** A command that runs once. Functions of drizzle/functions/jobs.sql write it. */
export const jobs = pgTable(
  'jobs',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    /** No foreign key: the history of a deleted schedule is kept. */
    schedule_id: uuid(),
    due_at: instantColumn(),
    attempt: integer().notNull().default(1),
    retries: integer().notNull().default(0),
    status: text().$type<JobStatus>().notNull(),
    command: json().$type<Command>().notNull(),
    /** Done by the agent instead of the command, which then only describes it. */
    action: jsonb().$type<JobAction>(),
    timeout_seconds: integer().notNull(),
    /** The type of process whose environment and resources it has. */
    process: text(),
    /** The seconds after `not_before` within which it has to start. */
    deadline_seconds: integer().notNull(),
    /** True if it waits for other jobs of its schedule. */
    is_serial: boolean().notNull().default(false),
    not_before: createdAtColumn(),
    /** While it is queued, the latest start. While it runs, the time at which it is given up without a report. */
    overdue_at: instantColumn().notNull(),
    /** For a missed one that stands for several due times: the last one, and how many they are. */
    missed_until: instantColumn(),
    missed_count: integer(),
    /** The revision that served when it was made, and then the one that it ran in. */
    revision_id: uuid(),
    actor_kind: text().notNull(),
    actor_id: uuid(),
    actor_name: actorNameColumn(),
    exit_code: integer(),
    reason: text(),
    cancel_requested_at: instantColumn(),
    /** Set once it counts among the jobs that run in the workspace: the agent gets it with a poll. */
    dispatched_at: instantColumn(),
    listener_id: uuid(),
    /** The number of its last change among those of the listener. Null when it has ended. */
    seq: bigint({ mode: 'number' }),
    started_at: instantColumn(),
    finished_at: instantColumn(),
    /** All lines that were received, and their bytes. The oldest are deleted from job_lines. */
    lines: integer().notNull().default(0),
    bytes: bigint({ mode: 'number' }).notNull().default(0),
    stream: uuid(),
    next_line: integer(),
    created_at: createdAtColumn(),
  },
  t => [
    index('jobs_page').on(t.deployment_id, ...newestFirstColumns(t)),
    uniqueIndex('jobs_due').on(t.schedule_id, t.due_at, t.attempt).where(sql`due_at is not null`),
    index('jobs_of_schedule')
      .on(t.schedule_id, ...newestFirstColumns(t))
      .where(sql`schedule_id is not null`),
    index('jobs_open').on(t.tenant_id, t.schedule_id).where(isOpen(sql`status`)),
    index('jobs_waiting').on(t.tenant_id, t.not_before).where(sql`status = 'QUEUED' and dispatched_at is null`),
    index('jobs_running')
      .on(t.tenant_id)
      .where(sql`${isOpen(sql`status`)} and dispatched_at is not null`),
    index('jobs_overdue').on(t.overdue_at).where(isOpen(sql`status`)),
    index('jobs_changed').on(t.listener_id, t.seq).where(sql`seq is not null`),
    index('jobs_finished').on(t.finished_at).where(sql`finished_at is not null`),
  ],
)

export const jobLines = pgTable(
  'job_lines',
  {
    ...parentTenantColumns(),
    job_id: uuid()
      .notNull()
      .references(() => jobs.id, { onDelete: 'cascade' }),
    number: integer().notNull(),
    timestamp: instantColumn().notNull(),
    severity: integer().notNull(),
    message: text().notNull(),
    bytes_before: bigint({ mode: 'number' }).notNull(),
  },
  t => [primaryKey({ columns: [t.job_id, t.number] })],
)

/** A timer may fire a moment too early: the sweep makes jobs that are due so soon. The job waits for its time. */
export const EARLINESS = sql`interval '1 second'`

export const schedules = pgTable(
  'schedules',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    cron: text().notNull(),
    time_zone: text().notNull(),
    command: json().$type<Command>().notNull(),
    action: jsonb().$type<JobAction>(),
    timeout_seconds: integer().notNull(),
    overlap: text().$type<Overlap>().notNull(),
    jitter_seconds: integer().notNull(),
    retries: integer().notNull(),
    deadline_seconds: integer().notNull(),
    process: text(),
    enabled: boolean().notNull(),
    /** The source has it: declare_schedules() writes it with the revision that serves. */
    is_declared: boolean().notNull().default(false),
    owner: text(),
    /** The first due time at or after it is the next one. The sweep moves it. Null: disabled. */
    next_due_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('schedule_name_taken').on(t.deployment_id, t.name),
    index('schedules_page').on(t.deployment_id, ...newestFirstColumns(t)),
    index('schedules_of_workspace').on(t.tenant_id, ...newestFirstColumns(t)),
    index('schedules_due').on(t.next_due_at).where(sql`next_due_at is not null`),
  ],
)
