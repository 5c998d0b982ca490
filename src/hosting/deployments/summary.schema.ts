// Schemas of the summary of a deployment, and of the counts of a list.
import * as z from 'zod'
import { RevisionStatus } from '../../protocol/parts.schema.ts'
import { commaSeparated, optionalFilter, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const DeploymentState = z.enum(['attention', 'in_flight', 'serving', 'idle']).meta({
  description: [
    '`attention`: its latest revision failed, what serves is degraded, in a crash loop or unhealthy, or its state is',
    'unknown.',
    '`in_flight`: its latest revision is on its way. `idle`: nothing serves, or it is being deleted.',
  ].join(' '),
})

export const RevisionActor = z
  .object({
    kind: z.enum(['key', 'session', 'listener', 'push', 'cron']),
    id: Uuid.nullable(),
    name: z.string().nullable().meta({
      description: 'For a push, the login of the person who pushed at the git host. For a key, its description.',
    }),
  })
  .meta({ description: 'Who created the revision.' })

const RevisionSummary = z
  .object({
    id: Uuid,
    number: z.int(),
    status: RevisionStatus,
    status_message: z.string().nullable().meta({ description: 'Its first 300 characters.' }),
    commit: z
      .object({ sha: z.string(), title: z.string().nullable().meta({ description: 'The first line of the message.' }) })
      .nullable(),
    actor: RevisionActor,
    since: Time.meta({ description: 'When it entered its status.' }),
    created_at: Time,
  })
  .meta({ id: 'RevisionSummary' })

export const DeploymentSummary = z
  .object({
    state: DeploymentState,
    healthy: z.boolean().nullable().meta({ description: 'Whether what serves is healthy; null before a report.' }),
    remote_reconciled: z.boolean().meta({
      description: 'Whether the data plane has reached the current configuration, and stopped what was interrupted.',
    }),
    listener_id: Uuid.nullable(),
    latest_revision: RevisionSummary.nullable(),
    in_flight_revision: RevisionSummary.nullable().meta({ description: 'The one that the latest may wait behind.' }),
    serving_revision: RevisionSummary.nullable(),
    recent_revisions: z
      .array(
        z.object({
          number: z.int(),
          status: RevisionStatus,
          seconds: z.number().nullable().meta({ description: 'Until it ended; null while it is on its way.' }),
        }),
      )
      .meta({ description: 'The last eight, newest first.' }),
  })
  .meta({ id: 'DeploymentSummary', description: 'What a list shows of the revisions. Present with `include=summary`.' })
export type DeploymentSummary = z.output<typeof DeploymentSummary>

const INCLUDABLE = ['summary'] as const
export const Include = z.object({
  include: optionalFilter(commaSeparated(z.enum(INCLUDABLE), INCLUDABLE.length)).meta({
    type: 'string',
    description: 'Members to add to each deployment: `summary`.',
  }),
})

export const MAX_COUNTED = 1000
export const DeploymentCounts = z
  .object({
    total: z.int(),
    attention: z.int(),
    in_flight: z.int(),
    serving: z.int(),
    idle: z.int(),
    has_more: z.boolean().meta({ description: `Whether there are more than the ${MAX_COUNTED} newest, which count.` }),
  })
  .meta({ id: 'DeploymentCounts', description: 'How many deployments match, by their state.' })
export type DeploymentCounts = z.output<typeof DeploymentCounts>
