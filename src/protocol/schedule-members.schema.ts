// Schemas of the members of a schedule that need no calendar. The plan of a revision has them.
import * as z from 'zod'
import { MAX_TIMEOUT_SECONDS, overlaps } from './jobs.schema.ts'
import { textMatching } from './kubernetes.schema.ts'

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

const ScheduleOverlap = z.enum(overlaps).meta({
  description:
    'If the run before has not ended: `skip` this one, `replace` it by this one, or `allow` both. `skip` and ' +
    '`replace` never run two at once.',
})

export const plainMembers = {
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
