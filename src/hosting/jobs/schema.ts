// Schemas of jobs and schedules.
import * as z from 'zod'
import { CronFault, isTimeZone, parseCron } from '../../protocol/cron.ts'
import { Command, jobStatuses, MAX_TIMEOUT_SECONDS, overlaps } from '../../protocol/jobs.schema.ts'
import { textMatching } from '../../protocol/kubernetes.schema.ts'
import { levels } from '../../protocol/logs.schema.ts'
import {
  boundedText,
  commaSeparated,
  exactName,
  listOf,
  optionalFilter,
  Page,
  parseWholeNumber,
  Uuid,
} from '../../protocol/wire.ts'
import { DeploymentRef } from '../deployments/schema.ts'

const Time = z.string().meta({ format: 'date-time' })

const DAY_SECONDS = 24 * 3600
const TIMEOUT_DEFAULT = 3600
const DEADLINE_DEFAULT = 3600

const TimeoutSeconds = z.int().min(1).max(MAX_TIMEOUT_SECONDS).meta({
  description: 'It is ended after this time, and becomes `TIMED_OUT`.',
})
const DeadlineSeconds = z.int().min(1).max(DAY_SECONDS)

// ---- jobs

export const JobRef = DeploymentRef.extend({ job_id: Uuid })

export const NewJob = z
  .object({
    command: Command,
    timeout_seconds: TimeoutSeconds.default(TIMEOUT_DEFAULT),
    deadline_seconds: DeadlineSeconds.default(DEADLINE_DEFAULT).meta({
      description: 'It becomes `MISSED` if it has not started after this time.',
    }),
  })
  .meta({
    id: 'NewJob',
    description: 'A command to run once.',
    example: { command: 'python manage.py createcachetable', timeout_seconds: 600 },
  })
export type NewJob = z.output<typeof NewJob>

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
    timeout_seconds: z.int(),
    deadline_seconds: z.int(),
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

const ScheduleName = textMatching(
  63,
  '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?',
  'must be 1 to 63 lower-case letters, digits and hyphens, without a hyphen at either end',
)
const MAX_CRON_LENGTH = 200
const Cron = boundedText(MAX_CRON_LENGTH)
  .transform((text, check) => {
    try {
      parseCron(text)
      return text.trim()
    } catch (error) {
      if (!(error instanceof CronFault)) throw error
      check.addIssue({ code: 'custom', message: error.message })
      return z.NEVER
    }
  })
  .meta({
    type: 'string',
    description: 'Five fields: minute, hour, day of the month, month, day of the week.',
    example: '30 3 * * *',
  })
const TimeZone = boundedText(64)
  .refine(isTimeZone, { error: 'must be the name of a time zone, such as Europe/Berlin' })
  .meta({ description: 'Of the IANA database.', example: 'Europe/Berlin' })
const ScheduleOverlap = z.enum(overlaps).meta({
  description:
    'If the run before has not ended: `skip` this one, `replace` it by this one, or `allow` both. `skip` and ' +
    '`replace` never run two at once.',
})

const members = {
  cron: Cron,
  command: Command,
  time_zone: TimeZone,
  timeout_seconds: TimeoutSeconds,
  overlap: ScheduleOverlap,
  jitter_seconds: z.int().min(0).max(3600).meta({
    description: 'Each run starts at random within this time after it is due.',
  }),
  retries: z.int().min(0).max(10).meta({
    description:
      'How often a run that failed or timed out is repeated, after 10 seconds, 20, and so on up to 10 minutes.',
  }),
  deadline_seconds: DeadlineSeconds.meta({
    description: 'A run that has not started so long after it was due becomes `MISSED`.',
  }),
  enabled: z.boolean(),
}

export const NewSchedule = z
  .object({
    name: ScheduleName,
    cron: members.cron,
    command: members.command,
    time_zone: members.time_zone.default('UTC'),
    timeout_seconds: members.timeout_seconds.default(TIMEOUT_DEFAULT),
    overlap: members.overlap.default('skip'),
    jitter_seconds: members.jitter_seconds.default(0),
    retries: members.retries.default(0),
    deadline_seconds: members.deadline_seconds.default(DEADLINE_DEFAULT),
    enabled: members.enabled.default(true),
  })
  .meta({
    id: 'NewSchedule',
    description: 'A command, and the times at which it runs.',
    example: {
      name: 'nightly-report',
      cron: '30 3 * * *',
      time_zone: 'Europe/Berlin',
      command: 'python report.py',
      retries: 2,
    },
  })
export type NewSchedule = z.output<typeof NewSchedule>

export const SchedulePatch = z
  .object(
    Object.fromEntries(
      Object.entries({ name: ScheduleName, ...members }).map(([name, schema]) => [name, schema.nullish()]),
    ) as { [K in keyof typeof members]: z.ZodOptional<z.ZodNullable<(typeof members)[K]>> } & {
      name: z.ZodOptional<z.ZodNullable<typeof ScheduleName>>
    },
  )
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
    timeout_seconds: z.int(),
    overlap: z.enum(overlaps),
    jitter_seconds: z.int(),
    retries: z.int(),
    deadline_seconds: z.int(),
    enabled: z.boolean(),
    next_runs: z.array(Time).meta({ description: 'The next due times. None while it is disabled.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Schedule', description: 'A command that runs at the times of a cron expression.' })
export type Schedule = z.output<typeof Schedule>
export const ScheduleList = listOf(Schedule).meta({ id: 'ScheduleList' })

export const ScheduleQuery = Page.extend({ name: exactName('name') })
export type ScheduleQuery = z.output<typeof ScheduleQuery>
