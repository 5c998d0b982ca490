// Schemas of jobs and schedules.
import * as z from 'zod'
import { TIMING_DEFAULTS } from '../../protocol/defaults.ts'
import { Command, jobStatuses, overlaps } from '../../protocol/jobs.schema.ts'
import { levels } from '../../protocol/logs.schema.ts'
import { DeadlineSeconds, ProcessName, ScheduleName, TimeoutSeconds } from '../../protocol/schedule-members.schema.ts'
import { Cron, timingMembers } from '../../protocol/schedules.schema.ts'
import { JobAction, TakeAction } from '../../protocol/snapshots.schema.ts'
import {
  commaSeparated,
  exactName,
  listOf,
  Owner,
  OwnerPatch,
  optionalFilter,
  ownedBy,
  Page,
  parseWholeNumber,
  Uuid,
} from '../../protocol/wire.ts'
import { DeploymentRef } from '../deployments/schema.ts'

const Time = z.string().meta({ format: 'date-time' })

// ---- jobs

const JobProcess = ProcessName.meta({
  description:
    'The process whose environment and resources it has, such as `worker`. By default, it has the resources of the ' +
    'application.',
  example: 'worker',
})
export const JobRef = DeploymentRef.extend({ job_id: Uuid })

export const NewJob = z
  .object({
    command: Command,
    timeout_seconds: TimeoutSeconds.default(TIMING_DEFAULTS.timeout_seconds),
    deadline_seconds: DeadlineSeconds.default(TIMING_DEFAULTS.deadline_seconds).meta({
      description: 'It becomes `MISSED` if it has not started after this time.',
    }),
    process: JobProcess.nullish(),
  })
  .meta({
    id: 'NewJob',
    description: 'A command to run once.',
    example: { command: 'python manage.py createcachetable', timeout_seconds: 600 },
  })
export type NewJob = z.output<typeof NewJob>

export const JobPlan = z
  .object({
    command: z.union([z.string(), z.array(z.string())]),
    process: z.string().nullable(),
    timeout_seconds: z.int(),
    deadline_seconds: z.int(),
    revision_id: Uuid.meta({ description: 'The revision in which it would run.' }),
    revision_number: z.int(),
    open_jobs: z.int().meta({ description: 'The jobs of the workspace that wait or run.' }),
    waits: z.boolean().meta({ description: 'The workspace runs as many as it may, so this one would wait.' }),
    warnings: z.array(z.string()),
    plan_digest: z.string().meta({
      description: 'Send it as `Plan-Digest` with the same request, to run it in this revision and no other.',
    }),
  })
  .meta({ id: 'JobPlan', description: 'The job that a request would create.' })
export type JobPlan = z.output<typeof JobPlan>

const JobStatus = z.enum(jobStatuses).meta({
  description:
    '`QUEUED`, `RUNNING`, and then one of these. `SUCCEEDED`: it ended with 0. `FAILED`: it ended otherwise, or ' +
    'could not be started. `TIMED_OUT`, `CANCELLED`. `LOST`: it started, and its end is not known. `MISSED`: it did ' +
    'not start in time. `SKIPPED`: the run of its schedule before it had not ended.',
})

export const Job = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    schedule_id: Uuid.nullable(),
    due_at: Time.nullable().meta({ description: 'The time of the schedule at which it was due.' }),
    missed_until: Time.nullable().meta({
      description: 'For a `MISSED` or `SKIPPED` job that stands for several due times in a row: the last one.',
    }),
    missed_count: z.int().nullable().meta({ description: 'How many due times it stands for.' }),
    attempt: z.int().meta({ description: 'From 1. Each retry is a job of its own.' }),
    status: JobStatus,
    command: z.union([z.string(), z.array(z.string())]),
    action: JobAction.nullable(),
    timeout_seconds: z.int(),
    deadline_seconds: z.int(),
    process: z.string().nullable(),
    not_before: Time.meta({ description: 'It starts no sooner, because of jitter or as a retry.' }),
    revision_id: Uuid.nullable().meta({ description: 'The revision that it ran in, or that served when it was made.' }),
    actor: z
      .object({ kind: z.string(), id: Uuid.nullable(), name: z.string().nullable() })
      .meta({ description: 'Who made it. `cron`: its schedule.' }),
    exit_code: z.int().nullable(),
    reason: z.string().nullable().meta({ description: 'Why it did not succeed.' }),
    cancel_requested_at: Time.nullable(),
    created_at: Time,
    started_at: Time.nullable(),
    finished_at: Time.nullable(),
  })
  .meta({ id: 'Job', description: 'A command that runs once in the environment of a revision.' })
export type Job = z.output<typeof Job>
export const JobList = listOf(Job).meta({ id: 'JobList' })

export const JobQuery = Page.extend({
  status: optionalFilter(commaSeparated(z.enum(jobStatuses), jobStatuses.length)).meta({
    type: 'string',
    description: 'Jobs in one of these statuses.',
  }),
  schedule_id: optionalFilter(Uuid).meta({ description: 'Jobs of this schedule: its history.' }),
})
export type JobQuery = z.output<typeof JobQuery>

const wholeNumber = (min: number, max = 2 ** 31 - 1) => z.preprocess(parseWholeNumber, z.int().min(min).max(max))
const MAX_WAIT_SECONDS = 30

export const JobLogQuery = z.object({
  after: wholeNumber(0).default(0).meta({ description: 'The `next_after` of the previous answer.' }),
  limit: wholeNumber(1, 1000).default(100).meta({ description: 'The maximum number of lines to return.' }),
  wait: wholeNumber(0, MAX_WAIT_SECONDS).default(0).meta({
    description:
      'If there is no line and the job has not ended, answer when there is or it has, or after these seconds.',
  }),
})
export type JobLogQuery = z.output<typeof JobLogQuery>

const after = wholeNumber(0).default(0)
export const JobStreamQuery = z.object({ after: after.meta({ description: 'The `number` of the last known line.' }) })
export type JobStreamQuery = z.output<typeof JobStreamQuery>

export const JobLogPage = z
  .object({
    logs: z.array(
      z.object({
        number: z.int(),
        timestamp: Time,
        level: z.enum(levels),
        message: z.string(),
      }),
    ),
    next_after: z.int(),
    dropped: z.int().meta({ description: 'Lines before these that are no longer kept.' }),
    has_more: z.boolean().meta({ description: 'There are further lines now.' }),
    job: Job,
  })
  .meta({ id: 'JobLogPage', description: 'Lines of a job in their order, and the job as it is now.' })
export type JobLogPage = z.output<typeof JobLogPage>

// ---- schedules

export const ScheduleRef = DeploymentRef.extend({ schedule_id: Uuid })

const members = {
  cron: Cron,
  command: Command,
  ...timingMembers,
  process: JobProcess,
  enabled: z.boolean(),
}

export const NewSchedule = z
  .object({
    name: ScheduleName,
    cron: members.cron,
    command: members.command.nullish(),
    action: TakeAction.nullish().meta({ description: 'Instead of a command: a snapshot of a store.' }),
    time_zone: members.time_zone.default(TIMING_DEFAULTS.time_zone),
    timeout_seconds: members.timeout_seconds.default(TIMING_DEFAULTS.timeout_seconds),
    overlap: members.overlap.default(TIMING_DEFAULTS.overlap),
    jitter_seconds: members.jitter_seconds.default(TIMING_DEFAULTS.jitter_seconds),
    retries: members.retries.default(TIMING_DEFAULTS.retries),
    deadline_seconds: members.deadline_seconds.default(TIMING_DEFAULTS.deadline_seconds),
    process: members.process.nullish(),
    enabled: members.enabled.default(true),
    owner: Owner.nullish(),
  })
  .superRefine(({ command, action }, check) => {
    if ((command == null) === (action == null))
      check.addIssue({ code: 'custom', path: ['command'], message: 'or `action` is required, not both' })
  })
  .meta({
    id: 'NewSchedule',
    description: 'A command, or a snapshot, and the times at which it runs.',
    example: {
      name: 'nightly-report',
      cron: '30 3 * * *',
      time_zone: 'Europe/Berlin',
      command: 'python report.py',
      retries: 2,
    },
  })
export type NewSchedule = z.output<typeof NewSchedule>

const patched = { name: ScheduleName, ...members }
export const SchedulePatch = z
  .object({
    ...(Object.fromEntries(Object.entries(patched).map(([name, schema]) => [name, schema.nullish()])) as {
      [K in keyof typeof patched]: z.ZodOptional<z.ZodNullable<(typeof patched)[K]>>
    }),
    process: z
      .union([z.literal(''), JobProcess])
      .nullish()
      .meta({
        description: 'An empty text removes it: runs then have what the application has.',
      }),
    owner: OwnerPatch,
  })
  .meta({
    id: 'SchedulePatch',
    description: 'The members to change. Null keeps a member.',
    example: { cron: '0 4 * * *', enabled: true },
  })
export type SchedulePatch = z.output<typeof SchedulePatch>

export const Schedule = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    name: z.string(),
    cron: z.string(),
    time_zone: z.string(),
    command: z.union([z.string(), z.array(z.string())]),
    action: TakeAction.nullable(),
    timeout_seconds: z.int(),
    overlap: z.enum(overlaps),
    jitter_seconds: z.int(),
    retries: z.int(),
    deadline_seconds: z.int(),
    process: z.string().nullable(),
    enabled: z.boolean(),
    declared: z.boolean().meta({
      description: 'The configuration file of the source has it: it changes and goes with the revision that serves.',
    }),
    owner: z.string().nullable().meta({ description: 'The label of the files that declare it.' }),
    next_runs: z.array(Time).meta({ description: 'The next due times. None while it is disabled.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Schedule', description: 'A command that runs at the times of a cron expression.' })
export type Schedule = z.output<typeof Schedule>
export const ScheduleList = listOf(Schedule).meta({ id: 'ScheduleList' })

export const WorkspaceScheduleQuery = Page.extend({ owner: ownedBy })
export type WorkspaceScheduleQuery = z.output<typeof WorkspaceScheduleQuery>
export const ScheduleQuery = Page.extend({ name: exactName('name') })
export type ScheduleQuery = z.output<typeof ScheduleQuery>
