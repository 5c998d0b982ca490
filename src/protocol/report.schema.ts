// Schemas of reports: the state of deployments as an agent observes it, and the outcome of each report.
import * as z from 'zod'
import { BuildPlan } from './build-plan.schema.ts'
import { all, hasAll, hasMembers, implies, isAnyOf } from './conditions.ts'
import { ImageReference } from './kubernetes.schema.ts'
import { HealthState } from './parts.schema.ts'
import { ProcessType } from './resources.schema.ts'
import { AgentId, Fence, Generation } from './sync-fields.schema.ts'
import { ReportedTraffic } from './traffic.schema.ts'
import { arrayOf, boundedText, Instant, Uuid } from './wire.ts'

/** States of a revision, which require `revision_id`; in the order of a rollout. */
const revisionReportStates = ['building', 'built', 'deploying', 'deployed', 'failed', 'interrupted'] as const
export const ReportState = z.enum([...revisionReportStates, 'serving', 'database_ready', 'removed']).meta({
  description:
    '`building`, `built`, `deploying`, `deployed`, `failed`: the revision in flight. Steps can be skipped. ' +
    '`interrupted`: work on a revision that is no longer wanted has stopped. ' +
    '`serving`: this generation is in effect, and `revision_id` runs; null if nothing runs. ' +
    '`database_ready`: the database is ready. `removed`: the deployment is removed completely.',
})
export type ReportState = z.output<typeof ReportState>

export const MAX_BATCH_REPORTS = 100

const MAX_PROCESS_TYPES = 24
export const ProcessHealth = z
  .object({
    name: ProcessType,
    state: HealthState,
    reason: boundedText(500).nullish().meta({ description: 'Why it is not healthy.' }),
    copies: z
      .object({ wanted: z.int().min(0).max(1000), running: z.int().min(0).max(1000) })
      .nullish()
      .meta({ description: 'Of a process whose number of copies moves by itself.' }),
  })
  .meta({ id: 'ProcessHealth' })
export type ProcessHealth = z.output<typeof ProcessHealth>

export const ReportedHealth = z
  .object({
    state: HealthState,
    reason: boundedText(2000).nullish().meta({ description: 'Why it is not healthy, and what to do.' }),
    processes: arrayOf(ProcessHealth, MAX_PROCESS_TYPES).nullish().meta({
      description: 'The health of each process type, if there are others than `web` or copies move by themselves.',
    }),
  })
  .meta({ id: 'ReportedHealth' })
export type ReportedHealth = z.output<typeof ReportedHealth>

export const IncidentKind = z.enum(['restarted', 'out_of_memory', 'disk_full', 'scaled'])
export type IncidentKind = z.output<typeof IncidentKind>
export const Incident = z
  .object({
    kind: IncidentKind.meta({
      description:
        'A copy that was killed for its memory was also restarted. `scaled`: the number of copies moved by itself.',
    }),
    count: z.int().min(1).max(2_147_483_647).meta({
      description: 'The total since the agent started or, if that is later, since the revision was started.',
    }),
    last_at: Instant.meta({ description: 'The time of the last one.' }),
    message: boundedText(2000).nullish().meta({ description: 'About the last one, for a person.' }),
  })
  .meta({ id: 'Incident', description: 'What happened to the copies of the revision that serves.' })
export type Incident = z.output<typeof Incident>

export const ReportedHost = z
  .object({
    host: boundedText(253).meta({ description: 'The host of the `custom_url` that the work had.' }),
    certificate: z.enum(['valid', 'failed']).nullish().meta({
      description: 'The end of the last order or renewal. Null while the agent knows of none.',
    }),
    leads_here: z.boolean().nullish().meta({
      description: 'Whether the addresses of the host are those at which the agent serves. Null: not known.',
    }),
    reason: boundedText(2000).nullish().meta({ description: 'What is wrong, and what to do.' }),
  })
  .meta({ id: 'ReportedHost', description: 'The host of a custom URL, as an agent that serves in public sees it.' })
export type ReportedHost = z.output<typeof ReportedHost>

export const Report = z
  .object({
    deployment_id: Uuid,
    revision_id: Uuid.nullish().meta({ description: 'Required for the states of a revision.' }),
    generation: Generation.meta({ description: 'The generation of the work that is reported.' }),
    state: ReportState,
    message: boundedText(2000)
      .nullish()
      .meta({
        description:
          'The reason of a failure, so that the user can act on it, with the last log lines if useful. ' +
          'Required then. With `deploying`: why the revision is not healthy yet, and when it is given up. ' +
          'A newer revision then takes its place at once.',
      }),
    commit: z
      .object({
        sha: boundedText(64).regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/, { error: 'must be a full commit id' }),
        message: boundedText(2000).nullish(),
        author: boundedText(200).nullish(),
      })
      .nullish()
      .meta({ description: 'The commit that `ref` resolved to.' }),
    image_uri: ImageReference.nullish().meta({ description: 'The image that was built or pulled, with its digest.' }),
    application_version: boundedText(128)
      .regex(/^[!-~]+$/, { error: 'must consist of visible ASCII characters' })
      .nullish()
      .meta({
        description:
          'The version of the application, for sources that the agent builds: from the runtime configuration, ' +
          'package.json, pyproject.toml or the git tag.',
      }),
    build_plan: BuildPlan.nullish().meta({ description: 'How the agent builds and starts the source.' }),
    url: boundedText(2048)
      .regex(/^https?:\/\/[!-~]+$/, { error: 'must be an http(s) URL' })
      .nullish()
      .meta({ description: 'The URL of the deployment.' }),
    local_url: boundedText(64)
      .regex(/^http:\/\/127\.0\.0\.1:\d{1,5}$/, { error: 'must be http://127.0.0.1 with a port' })
      .nullish()
      .meta({ description: 'The URL of the deployment on the machine of the agent, without a name.' }),
    awaits_database: z
      .boolean()
      .nullish()
      .meta({
        description:
          'The source needs a database that the resource specification does not ask for, and it is not ready yet. ' +
          '`database_ready` follows.',
      }),
    healthy: z.boolean().nullish().meta({ description: 'Whether its health check passes. `deployed` requires true.' }),
    health: ReportedHealth.nullish().meta({
      description:
        'The health of the revision that serves, in any report. Without it, `healthy` and `message` of ' +
        '`serving` tell it.',
    }),
    incidents: arrayOf(Incident, IncidentKind.options.length)
      .nullish()
      .meta({
        description:
          'Restarts, out-of-memory kills, full disks and changes of the number of copies of the revision that ' +
          'serves, one for each kind. The control plane journals what is new, at most once in ten minutes.',
      }),
    custom_host: ReportedHost.nullish().meta({
      description:
        'The host of the custom URL, in any report. The control plane journals each change: what is null or absent ' +
        'changes nothing.',
    }),
    traffic: ReportedTraffic.nullish().meta({
      description: 'With `deploying`, `deployed` and `serving`. Null: all traffic goes to the revision that serves.',
    }),
    last_request_at: Instant.nullish().meta({
      description:
        'The time of the last request; before the first request, when the agent began to count. ' +
        'An agent that cannot observe requests leaves it out: the deployment then never becomes `UNUSED`.',
    }),
  })
  .superRefine((report, check) => {
    const addMissing = (path: string, isMissing: boolean) =>
      isMissing &&
      check.addIssue({ code: 'custom', path: [path], message: `is required with the state \`${report.state}\`` })
    addMissing(
      'revision_id',
      (revisionReportStates as readonly string[]).includes(report.state) && report.revision_id == null,
    )
    addMissing('message', report.state === 'failed' && !report.message?.trim())
    addMissing('healthy', report.state === 'deployed' && report.healthy !== true)
  })
  .meta({
    id: 'Report',
    description: 'The observed state of one deployment.',
    ...all(
      implies(isAnyOf('state', ...revisionReportStates), hasAll('revision_id')),
      implies(isAnyOf('state', 'failed'), hasMembers({ message: { type: 'string', pattern: '[^\\s]' } })),
      implies(isAnyOf('state', 'deployed'), isAnyOf('healthy', true)),
    ),
  })
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
              message: 'is reported twice. Send the second report in the next request.',
            })
          seen.add(deployment_id)
        }
      })
      .meta({ description: 'At most one report for each deployment. Send further reports in the next request.' }),
  })
  .meta({
    id: 'Reports',
    description: 'The observed state of deployments, under a lease.',
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
        '`accepted`: applied now or by an earlier report. `stale`: the wanted state has changed; poll. ' +
        '`refused`: the report is invalid; do not repeat it.',
    }),
    code: z
      .enum(reportCodes)
      .nullable()
      .meta({
        description:
          '`revision_ended`: the revision is no longer in flight. `generation_passed`: the wanted state has changed. ' +
          '`generation_unknown`: this generation does not exist yet. ' +
          '`deployment_unknown`, `revision_unknown`: not served by this listener. ' +
          '`still_wanted`: it was reported as removed or interrupted, but is wanted.',
      }),
    generation: Generation.nullable().meta({
      description:
        'The wanted generation after the report. ' +
        'If the report was of the latest generation, the agent has reached this one. ' +
        'Null when the deployment is removed.',
    }),
  })
  .meta({ id: 'ReportResult', description: 'The result of a report.' })
export type ReportResult = z.output<typeof ReportResult>
export const ReportResults = z
  .object({ results: z.array(ReportResult).meta({ description: 'In the order of the reports.' }) })
  .meta({ id: 'ReportResults' })
export type ReportResults = z.output<typeof ReportResults>
