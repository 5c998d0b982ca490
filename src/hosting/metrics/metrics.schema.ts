// Schemas of reading the metrics of a deployment.
import * as z from 'zod'
import { ProcessType } from '../../protocol/resources.schema.ts'
import { commaSeparated, Instant, optionalFilter, parseWholeNumber, Uuid } from '../../protocol/wire.ts'

const REVISION_METRICS = {
  cpu: { unit: 'cores', meaning: 'CPU cores that all copies used, on average.' },
  memory: { unit: 'bytes', meaning: 'Memory of all copies: the most of each minute, on average.' },
  memory_peak: { unit: 'bytes', meaning: 'The most memory of one copy.' },
  copies: { unit: 'copies', meaning: 'The most copies that ran at once.' },
  restarts: { unit: 'restarts', meaning: 'How often a copy was started again.' },
  requests: { unit: 'requests', meaning: 'Requests that were answered.' },
  status_1xx: { unit: 'requests', meaning: 'Upgrades to WebSockets.' },
  status_2xx: { unit: 'requests', meaning: 'Answers with a status from 200 to 299.' },
  status_3xx: { unit: 'requests', meaning: 'Answers with a status from 300 to 399.' },
  status_4xx: {
    unit: 'requests',
    meaning: 'Answers with a status from 400 to 499, and clients that disconnected before the answer.',
  },
  status_5xx: { unit: 'requests', meaning: 'Answers with a status from 500 to 599, and requests of `unreached`.' },
  unreached: { unit: 'requests', meaning: 'Requests that no copy accepted, answered with 503.' },
  queue: { unit: 'tasks', meaning: 'The most tasks that waited, as the application tells where it scales by `queue`.' },
  latency_p50: { unit: 'milliseconds', meaning: 'The time until half of the answers began.' },
  latency_p95: { unit: 'milliseconds', meaning: 'The time until 95 of 100 answers began.' },
  latency_p99: { unit: 'milliseconds', meaning: 'The time until 99 of 100 answers began.' },
} as const
/** Metrics of stores, which revisions share. */
const STORE_METRICS = {
  database_size: { unit: 'bytes', meaning: 'What the database takes.' },
  database_connections: { unit: 'connections', meaning: 'Open connections of the database.' },
  redis_memory: { unit: 'bytes', meaning: 'The memory of the data of Redis.' },
  disk_size: { unit: 'bytes', meaning: 'What the files of a disk take.' },
} as const
export type RevisionMetricName = keyof typeof REVISION_METRICS
export type StoreMetricName = keyof typeof STORE_METRICS
/** The meaning of each metric, in the order of answers. */
export const METRICS = { ...REVISION_METRICS, ...STORE_METRICS }
export type MetricName = keyof typeof METRICS
export const isStoreMetric = (name: MetricName): name is StoreMetricName => name in STORE_METRICS
export const metricNames = Object.keys(METRICS) as MetricName[]
const MetricName = z.enum(metricNames)

export const STEPS = [60, 300, 900, 3600, 21_600, 86_400] as const
export const MAX_STEPS = 1500
/** The range without `from`. */
export const DEFAULT_RANGE_MS = 3600_000
/** The steps of a default answer. */
export const DEFAULT_STEPS = 300
export const MAX_RANGE_DAYS = 31

export const MetricsQuery = z
  .object({
    from: optionalFilter(Instant).meta({
      description: 'The beginning of the range. Default: an hour before `to`.',
    }),
    to: optionalFilter(Instant).meta({ description: 'The end of the range. Default: now.' }),
    step: optionalFilter(z.preprocess(parseWholeNumber, z.literal([...STEPS]))).meta({
      type: 'integer',
      enum: [...STEPS],
      description:
        `Seconds between two values. Default: the shortest with at most ${DEFAULT_STEPS} values. ` +
        'Values of less than an hour are kept for a day, others for 30 days.',
    }),
    metrics: optionalFilter(commaSeparated(MetricName, metricNames.length)).meta({
      type: 'string',
      description: `Comma-separated, of: ${metricNames.join(', ')}. Default: all.`,
    }),
    process: optionalFilter(ProcessType).meta({
      description:
        'Only copies of this process type, such as `worker`, and no stores. Requests are those of `web`. What an ' +
        'agent of an earlier release sends counts as `web`.',
    }),
  })
  .meta({ id: 'MetricsQuery', example: { metrics: 'cpu,memory' } })
export type MetricsQuery = z.output<typeof MetricsQuery>

const Series = z
  .object({
    metric: MetricName.meta({
      description: Object.entries(METRICS)
        .map(([name, { meaning }]) => `\`${name}\`: ${meaning}`)
        .join(' '),
    }),
    unit: z.enum([...new Set(Object.values(METRICS).map(({ unit }) => unit))]),
    revision_id: Uuid.nullable().meta({ description: 'Null for all revisions together.' }),
    store: z.string().optional().meta({ description: 'Of which this is, such as `disk:media`. Only of stores.' }),
    values: z.array(z.number().nullable()).meta({
      description: 'Value `i` is of the `step` seconds from `from` + `i` × `step` on. Null: nothing was measured.',
    }),
  })
  .meta({ id: 'MetricSeries' })

export const MetricsAnswer = z
  .object({
    from: z.iso.datetime().meta({ description: 'The beginning of the first value, a multiple of `step` since 1970.' }),
    to: z.iso.datetime().meta({ description: 'The end of the last value.' }),
    step: z.int().meta({ description: 'Seconds between two values.' }),
    processes: z.array(z.string()).meta({
      description:
        'The process types with values in the range. Empty: there is only `web`, or the agent does not tell.',
    }),
    series: z.array(Series).meta({
      description:
        'Each metric for all revisions together, and for each of the 10 newest revisions with values in the range. ' +
        'Those of stores: one for each store with values in the range.',
    }),
  })
  .meta({ id: 'DeploymentMetrics' })
export type MetricsAnswer = z.output<typeof MetricsAnswer>
