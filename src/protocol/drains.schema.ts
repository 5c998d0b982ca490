// Schemas of drains: what both sides know of one, what an agent gets, and what it tells of its work.
import * as z from 'zod'
import { levels } from './logs.schema.ts'
import { ProcessType } from './resources.schema.ts'
import { AgentId, Fence, Sealed } from './sync-fields.schema.ts'
import { arrayOf, boundedText, Instant, Uuid } from './wire.ts'

export const drainKinds = ['otlp', 'ndjson', 'loki', 'syslog'] as const
export type DrainKind = (typeof drainKinds)[number]

const agentSignals = ['logs', 'requests', 'metrics'] as const
export const platformSignals = ['events', 'traces'] as const
export const drainSignals = [...agentSignals, ...platformSignals] as const
export type DrainSignal = (typeof drainSignals)[number]

/** The signals that a kind has a form for. */
export const SIGNALS_OF: Record<DrainKind, readonly DrainSignal[]> = {
  otlp: drainSignals,
  ndjson: drainSignals,
  loki: ['logs', 'requests', 'events'],
  syslog: ['logs', 'requests'],
}

export const compressions = ['gzip', 'none'] as const

const MAX_DRAINS_PER_AGENT = 500
const MAX_SCOPE = 10_000
const MAX_PROCESSES = 24
const MAX_COUNT = Number.MAX_SAFE_INTEGER

const DrainFilter = z.object({
  min_level: z.enum(levels).nullable(),
  processes: arrayOf(ProcessType, MAX_PROCESSES),
  contains: z.string().nullable(),
})

export const WorkDrain = z
  .object({
    id: Uuid,
    tenant_id: Uuid,
    kind: z.enum(drainKinds),
    url: z.string(),
    compression: z.enum(compressions),
    signals: arrayOf(z.enum(agentSignals), agentSignals.length),
    deployment_ids: arrayOf(Uuid, MAX_SCOPE)
      .nullable()
      .meta({ description: 'Send of these deployments alone. Null: of all of the workspace.' }),
    filter: DrainFilter.meta({ description: 'Lines that do not match are not sent. Metrics are not filtered.' }),
    sampling_rate: z.number().min(0).max(1).meta({ description: 'The share of the lines that is sent.' }),
    access: Sealed.nullable().meta({
      description: 'Sealed JSON: the headers to send with each request. Bound to `<listener>/drains/<id>`.',
    }),
  })
  .meta({ id: 'WorkDrain', description: 'A place to send lines and metrics to, with what belongs there.' })
export type WorkDrain = z.output<typeof WorkDrain>

export const OfferedDrains = z
  .object({
    digest: z.string().meta({ description: 'Send it as `drains` with the next polls.' }),
    list: z.array(WorkDrain),
  })
  .meta({ id: 'OfferedDrains', description: 'All drains of the deployments that the agent runs.' })
export type OfferedDrains = z.output<typeof OfferedDrains>

const Count = z.int().min(0).max(MAX_COUNT)
export const DrainReport = z.object({
  id: Uuid,
  epoch: Uuid.meta({ description: 'Of these counts. A new one when the agent counts from 0 again.' }),
  sent: Count.meta({ description: 'Records that the receiver has taken, since the epoch began.' }),
  dropped: Count.meta({ description: 'Records that are lost, since the epoch began.' }),
  waiting: Count,
  waiting_bytes: Count,
  last_sent_at: Instant.nullish(),
  failing_since: Instant.nullish().meta({ description: 'The first failure since the last success.' }),
  error: boundedText(500).nullish().meta({ description: 'The last failure, as a sentence. Null after a success.' }),
})
export type DrainReport = z.output<typeof DrainReport>

export const DrainReports = z
  .object({ agent_id: AgentId, fence: Fence, drains: arrayOf(DrainReport, MAX_DRAINS_PER_AGENT, 1) })
  .meta({
    id: 'DrainReports',
    description: 'The state of drains at an agent.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      drains: [
        {
          id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
          epoch: '6512bd43-d9ca-4a6e-8c99-2adbb0b2d0e1',
          sent: 1200,
          dropped: 0,
          waiting: 0,
          waiting_bytes: 0,
        },
      ],
    },
  })
export type DrainReports = z.output<typeof DrainReports>
