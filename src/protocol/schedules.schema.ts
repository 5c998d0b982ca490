// Schemas of what a schedule says, in requests, in documents and in the configuration file of a source.
import * as z from 'zod'
import { CronFault, isTimeZone, parseCron } from './cron.ts'
import { MAX_TIMEOUT_SECONDS, overlaps } from './jobs.schema.ts'
import { textMatching } from './kubernetes.schema.ts'
import { boundedText } from './wire.ts'

const DAY_SECONDS = 24 * 3600

export const TimeoutSeconds = z.int().min(1).max(MAX_TIMEOUT_SECONDS).meta({
  description: 'It is ended after this time, and becomes `TIMED_OUT`.',
})
export const DeadlineSeconds = z.int().min(1).max(DAY_SECONDS)

export const ScheduleName = textMatching(
  63,
  '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?',
  'must be 1 to 63 lower-case letters, digits and hyphens, without a hyphen at either end',
)
/** The name of a process type: `web`, or one of the source. */
export const ProcessName = textMatching(
  30,
  '[a-z]([a-z0-9-]{0,28}[a-z0-9])?',
  'must be the name of a process: at most 30 lower-case letters, digits and inner hyphens',
)

const MAX_CRON_LENGTH = 200
export const Cron = boundedText(MAX_CRON_LENGTH)
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
    pattern: '^\\s*(\\S+\\s+){4}\\S+\\s*$',
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

/** All but the name, the command and the switch. */
export const timingMembers = {
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
}

export const TIMING_DEFAULTS = {
  time_zone: 'UTC',
  timeout_seconds: 3600,
  overlap: 'skip',
  jitter_seconds: 0,
  retries: 0,
  deadline_seconds: 3600,
} as const
