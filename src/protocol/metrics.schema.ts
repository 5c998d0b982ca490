// Schemas of the metrics that an agent sends: what the copies of a revision used and answered in a minute.
import * as z from 'zod'
import { LATENCY_BOUNDS_MS, LATENCY_BUCKETS, statusClasses } from './latency-histogram.ts'
import { ProcessType } from './resources.schema.ts'
import { StoreName } from './snapshots.schema.ts'
import { AgentId, Fence } from './sync-fields.schema.ts'
import { arrayOf, boundedText, Instant, Uuid } from './wire.ts'

const MINUTE_MS = 60_000
const MAX_POINTS = 500
/** The most that `max_scale` allows. */
const MAX_COPIES = 1000
/** `web`, three parts and those of the source. */
const MAX_PROCESS_TYPES = 24
export const MAX_COUNT = 999_999_999

const Count = z.int().min(0).max(MAX_COUNT)
/** One text, because a body may have 10,000 values. */
const counts = (length: number, pattern: RegExp) =>
  boundedText(11 * length)
    .regex(pattern, { error: `must be ${length} counts, comma-separated` })
    .transform(text => text.split(',').map(Number))

export const CopyMetrics = z
  .object({
    copy: boundedText(128)
      .regex(/^[A-Za-z0-9._:-]+$/, { error: 'must be letters, digits, dots, underscores, colons or hyphens' })
      .meta({ description: 'Names the copy within its revision, also after a restart.' }),
    process: ProcessType.nullish().meta({ description: 'The type of its process. Left out: not told.' }),
    running: z.boolean().meta({ description: 'Whether it ran at the end of the minute.' }),
    restarts: Count.meta({ description: 'How often it was started again in the minute.' }),
    cpu_ms: z.int().min(0).max(1e9).nullish().meta({
      description: 'CPU time that it used in the minute. Leave it out if you cannot see it.',
    }),
    memory_bytes: z
      .int()
      .min(0)
      .max(2 ** 44)
      .nullish()
      .meta({ description: 'The most memory that it used in the minute. Leave it out if you cannot see it.' }),
    statuses: counts(statusClasses.length, /^\d{1,9}(,\d{1,9}){4}$/)
      .nullish()
      .meta({
        description:
          `The answers of the minute by status, as counts of ${statusClasses.join(', ')}. ` +
          'Leave it out if you do not see requests.',
      }),
    latencies: counts(LATENCY_BUCKETS, /^\d{1,9}(,\d{1,9}){15}$/)
      .nullish()
      .meta({
        description:
          'The answers of the minute by the time until they began, as counts of those within ' +
          `${LATENCY_BOUNDS_MS.join(', ')} milliseconds, and above. An answer counts in one bucket only.`,
      }),
  })
  .meta({ id: 'CopyMetrics', description: 'What one copy of a revision used and answered in a minute.' })
export type CopyMetrics = z.output<typeof CopyMetrics>

/** A database, a Redis and disks. */
const MAX_STORES = 20

const StoreMetrics = z
  .object({
    store: StoreName,
    bytes: z
      .int()
      .min(0)
      .max(2 ** 50)
      .nullish()
      .meta({ description: 'Of a database or a disk what it takes of the machine, of a Redis its memory.' }),
    connections: Count.nullish().meta({ description: 'The connections of a database that are open.' }),
  })
  .meta({ id: 'StoreMetrics', description: 'The amounts of what lasts of a deployment, in a minute.' })

export const MetricPoint = z
  .object({
    deployment_id: Uuid,
    revision_id: Uuid,
    at: Instant.refine(text => Date.parse(text) % MINUTE_MS === 0, { error: 'must be the beginning of a minute' }).meta(
      { description: 'When the minute began. The minute of a point may be up to an hour ago.' },
    ),
    unreached: Count.nullish().meta({
      description: 'Requests that you answered with 503 because no copy accepted the connection.',
    }),
    queue: Count.nullish().meta({
      description: 'Tasks that waited at the end of the minute, as the application tells where it scales by `queue`.',
    }),
    copies: arrayOf(CopyMetrics, MAX_COPIES).refine(
      copies => new Set(copies.map(copy => copy.process)).size <= MAX_PROCESS_TYPES,
      { error: `must be of at most ${MAX_PROCESS_TYPES} process types` },
    ),
    stores: arrayOf(StoreMetrics, MAX_STORES)
      .nullish()
      .meta({
        description:
          'Of the whole deployment, in the point of one of its revisions. A store that the deployment does not ask ' +
          'for is left out.',
      }),
  })
  .meta({ id: 'MetricPoint', description: 'One minute of a revision.' })
export type MetricPoint = z.output<typeof MetricPoint>

export const Metrics = z.object({ agent_id: AgentId, fence: Fence, points: arrayOf(MetricPoint, MAX_POINTS, 1) }).meta({
  id: 'Metrics',
  description: 'The last minute of all revisions that an agent runs.',
  example: {
    agent_id: 'agent-1',
    fence: 1,
    points: [
      {
        deployment_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
        revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a',
        at: '2026-11-21T12:00:00.000Z',
        unreached: 0,
        copies: [
          {
            copy: '1',
            running: true,
            restarts: 0,
            cpu_ms: 1200,
            memory_bytes: 52_428_800,
            statuses: '0,118,0,2,0',
            latencies: '0,0,4,60,40,10,4,2,0,0,0,0,0,0,0,0',
          },
        ],
      },
    ],
  },
})
export type Metrics = z.output<typeof Metrics>

const metricCodes = ['revision_unknown', 'time_ahead', 'time_passed', 'too_many_revisions'] as const
export const MetricReceipt = z
  .object({
    refused: z
      .array(
        z.object({
          place: z.int().meta({ description: 'The place of the point in `points`, starting at 0.' }),
          code: z.enum(metricCodes).meta({
            description:
              '`revision_unknown`: not served by this listener. `time_ahead`: the minute has not begun. ' +
              '`time_passed`: it is more than an hour ago. ' +
              '`too_many_revisions`: the deployment has points of 12 other revisions in the same hour.',
          }),
        }),
      )
      .meta({ description: 'The points that were not stored. Do not repeat them.' }),
  })
  .meta({ id: 'MetricReceipt' })
export type MetricReceipt = z.output<typeof MetricReceipt>
