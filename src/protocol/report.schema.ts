// What an agent says became of deployments, and what that came to.
import * as z from 'zod'
import { ImageReference } from './kubernetes.schema.ts'
import { AgentId, Fence, Generation } from './sync-fields.schema.ts'
import { arrayOf, boundedText, Instant, Uuid } from './wire.ts'

/** Those that speak of a revision and so need to name it, in the order of a rollout. */
export const revisionReportStates = ['building', 'built', 'deploying', 'deployed', 'failed', 'interrupted'] as const
export const ReportState = z.enum([...revisionReportStates, 'serving', 'database_ready', 'removed']).meta({
  description:
    '`building`, `built`, `deploying`, `deployed`, `failed`: of the revision in flight; steps may be left out. ' +
    '`interrupted`: work on a revision that is wanted no more has stopped. ' +
    '`serving`: this generation is in effect, and `revision_id` is what runs, null where nothing does. ' +
    '`database_ready`: its database is there. `removed`: nothing of it is left.',
})
export type ReportState = z.output<typeof ReportState>

export const MAX_BATCH_REPORTS = 100

export const Report = z
  .object({
    deployment_id: Uuid,
    revision_id: Uuid.nullish().meta({ description: 'Needed where the state is that of a revision.' }),
    generation: Generation.meta({ description: 'That of the work which this is about.' }),
    state: ReportState,
    message: boundedText(2000).nullish().meta({
      description:
        'Of a failure: a sentence that a person can act on, perhaps with the last lines of the log. Needed there.',
    }),
    commit: z
      .object({
        sha: boundedText(64).regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/, { error: 'needs to be a full commit id' }),
        message: boundedText(2000).nullish(),
        author: boundedText(200).nullish(),
      })
      .nullish()
      .meta({ description: 'What `ref` was found to be.' }),
    image_uri: ImageReference.nullish().meta({ description: 'The image that was built or pulled, by its digest.' }),
    url: boundedText(2048)
      .regex(/^https?:\/\/[!-~]+$/, { error: 'needs to be an http(s) address' })
      .nullish()
      .meta({ description: 'Where the deployment answers.' }),
    healthy: z.boolean().nullish().meta({ description: 'Whether its health check passes. `deployed` needs true.' }),
    last_request_at: Instant.nullish().meta({
      description:
        'When somebody last used it; before anybody has, since when uses are counted. Left out by an agent that cannot tell: then it never counts as unused.',
    }),
  })
  .superRefine((report, check) => {
    const needs = (path: string, missing: boolean) =>
      missing &&
      check.addIssue({ code: 'custom', path: [path], message: `is needed with the state \`${report.state}\`` })
    needs(
      'revision_id',
      (revisionReportStates as readonly string[]).includes(report.state) && report.revision_id == null,
    )
    needs('message', report.state === 'failed' && !report.message?.trim())
    needs('healthy', report.state === 'deployed' && report.healthy !== true)
  })
  .meta({ id: 'Report', description: 'What became of one deployment.' })
export type Report = z.output<typeof Report>

export const Reports = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    reports: arrayOf(Report, MAX_BATCH_REPORTS, 1)
      .superRefine((reports, check) => {
        const seen = new Set<string>()
        for (const [i, { deployment_id }] of reports.entries()) {
          if (seen.has(deployment_id))
            check.addIssue({
              code: 'custom',
              path: [i, 'deployment_id'],
              message: 'is reported twice; send the second with the next request',
            })
          seen.add(deployment_id)
        }
      })
      .meta({ description: 'Each deployment once; what follows on it goes with the next request.' }),
  })
  .meta({
    id: 'Reports',
    description: 'What became of deployments, under a lease.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      reports: [
        {
          deployment_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
          revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a',
          generation: 3,
          state: 'deployed',
          healthy: true,
          url: 'http://shop-agent.localhost:8080',
        },
      ],
    },
  })
export type Reports = z.output<typeof Reports>

export const reportOutcomes = ['accepted', 'stale', 'refused'] as const
export const reportCodes = [
  'revision_ended',
  'generation_passed',
  'generation_unknown',
  'deployment_unknown',
  'revision_unknown',
  'still_wanted',
] as const
export const ReportResult = z
  .object({
    deployment_id: Uuid,
    revision_id: Uuid.nullable(),
    outcome: z.enum(reportOutcomes).meta({
      description:
        'Accepted: it holds, now or since an earlier report. Stale: something newer is wanted; poll. Refused: it cannot be, and is never to be repeated.',
    }),
    code: z
      .enum(reportCodes)
      .nullable()
      .meta({
        description:
          '`revision_ended`: the revision is not in flight any more. `generation_passed`: what is wanted has changed since. ' +
          '`generation_unknown`: no such generation yet. `deployment_unknown`, `revision_unknown`: not this listener’s. ' +
          '`still_wanted`: it was reported as removed or interrupted, and is wanted.',
      }),
    generation: Generation.nullable().meta({
      description:
        'What is wanted from now on. Where the report was that of the newest, this is what the agent has; null when the deployment is gone.',
    }),
  })
  .meta({ id: 'ReportResult', description: 'What a report came to.' })
export type ReportResult = z.output<typeof ReportResult>
export const ReportResults = z
  .object({ results: z.array(ReportResult).meta({ description: 'In the order of the reports.' }) })
  .meta({ id: 'ReportResults' })
export type ReportResults = z.output<typeof ReportResults>
