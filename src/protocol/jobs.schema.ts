// Schemas of jobs that the control plane hands to agents, and of what agents report of them.
import * as z from 'zod'
import { JobAction } from './snapshots.schema.ts'
import { AgentId, Fence } from './sync-fields.schema.ts'
import { arrayOf, boundedText, Uuid } from './wire.ts'

export const jobStatuses = [
  'QUEUED',
  'RUNNING',
  'SUCCEEDED',
  'FAILED',
  'TIMED_OUT',
  'CANCELLED',
  'LOST',
  'MISSED',
  'SKIPPED',
] as const
export type JobStatus = (typeof jobStatuses)[number]
export const openJobStatuses: JobStatus[] = ['QUEUED', 'RUNNING']

export const overlaps = ['skip', 'replace', 'allow'] as const
export type Overlap = (typeof overlaps)[number]

const MAX_COMMAND_LENGTH = 4096
const MAX_ARGUMENTS = 100
const Argument = boundedText(MAX_COMMAND_LENGTH).refine(text => !text.includes('\0'), {
  error: 'must not contain NUL',
})

export const Command = z
  .union([Argument, arrayOf(Argument, MAX_ARGUMENTS, 1)], {
    error: 'must be a text, or a list of a program and its arguments',
  })
  .refine(command => [command].flat()[0]?.trim() !== '', { error: 'must not be empty' })
  .refine(command => [command].flat().join(' ').length <= MAX_COMMAND_LENGTH, {
    error: `must have at most ${MAX_COMMAND_LENGTH} characters`,
  })
  .meta({
    description:
      'A text, which the shell runs, or a program and its arguments. Everyone who may read the deployment sees it: ' +
      'put secrets into its variables.',
  })
export type Command = z.output<typeof Command>

export const MAX_TIMEOUT_SECONDS = 7 * 24 * 3600

// ---- to the agent

export const JobWork = z
  .object({
    job_id: Uuid,
    deployment_id: Uuid,
    status: z.enum(['QUEUED', 'RUNNING']).meta({
      description: '`RUNNING`: an agent has reported that it started. Find it, and never start it again.',
    }),
    command: z.union([z.string(), z.array(z.string())]),
    timeout_seconds: z.int(),
    process: z.string().nullish().meta({
      description: 'The process whose environment and resources it has. Null: those of the application.',
    }),
    starts_in_ms: z.int().meta({ description: 'Wait so long before it is started.' }),
    cancel: z.boolean().meta({ description: 'Stop it, and report `cancelled`.' }),
    action: JobAction.nullish().meta({ description: 'Instead of the command. It needs no revision that serves.' }),
    is_scheduled: z.boolean().nullish(),
  })
  .meta({ id: 'JobWork', description: 'A command to run once, in the environment of the revision that serves.' })
export type JobWork = z.output<typeof JobWork>

// ---- from the agent

const jobStates = ['running', 'succeeded', 'failed', 'timed_out', 'cancelled', 'lost'] as const

export const MAX_JOB_REPORTS = 100

export const JobReport = z.object({
  job_id: Uuid,
  state: z.enum(jobStates).meta({
    description:
      '`running`: it is about to be started. Start it only once this is accepted. `lost`: it was started, and its ' +
      'end is not known.',
  }),
  revision_id: Uuid.nullish().meta({ description: 'The revision that it runs in.' }),
  exit_code: z.int().min(-1).max(255).nullish(),
  reason: boundedText(2000).nullish().meta({ description: 'Why it did not succeed, for people.' }),
})
export type JobReport = z.output<typeof JobReport>

export const JobReports = z
  .object({ agent_id: AgentId, fence: Fence, reports: arrayOf(JobReport, MAX_JOB_REPORTS, 1) })
  .meta({
    id: 'JobReports',
    description: 'The states of jobs.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      reports: [{ job_id: '6512bd43-d9ca-4a6e-8c99-2adbb0b2d0e1', state: 'succeeded', exit_code: 0 }],
    },
  })
export type JobReports = z.output<typeof JobReports>

export const JobReportResults = z
  .object({
    results: z
      .array(
        z.object({
          job_id: Uuid,
          accepted: z.boolean(),
          code: z.enum(['job_unknown', 'job_ended']).nullable().meta({
            description:
              '`job_ended`: it was cancelled, or has ended otherwise. Do not start it, and do not repeat this.',
          }),
        }),
      )
      .meta({ description: 'In the order of the reports.' }),
  })
  .meta({ id: 'JobReportResults' })
export type JobReportResults = z.output<typeof JobReportResults>
