// Schemas of the conditions of alert rules and the hours of mutes, as they cross the wire and are stored, and the sets
// of what alerts have.
import * as z from 'zod'
import { levels } from './logs.schema.ts'
import { TimeZone } from './schedules.schema.ts'
import { arrayOf, boundedText, Uuid } from './wire.ts'

// ---- sets

/** `dismissed`: resolved by a person while the condition held. It must end before the rule opens an incident again. */
export const phases = ['ok', 'pending', 'firing', 'clearing', 'dismissed'] as const

export const ruleKinds = ['metric', 'log', 'trace', 'event'] as const

/** Rules that each workspace has from its beginning. `add_default_alert_rules()` writes them. */
export const builtIns = [
  'unhealthy',
  'error_rate',
  'out_of_memory',
  'disk_nearly_full',
  'disk_full',
  'listener_lost',
  'certificate',
] as const

export const subjectTypes = ['deployment', 'project', 'listener', 'workspace'] as const

export const incidentStates = ['open', 'acknowledged', 'resolved'] as const

export const changeKinds = ['opened', 'reopened', 'acknowledged', 'resolved', 'muted', 'told'] as const

// ---- conditions

const Operator = z.enum(['above', 'below'])
const Threshold = z.number().min(-1e15).max(1e15)
const ClearThreshold = Threshold.nullish().meta({
  description: 'The condition is over only beyond this value, so that a value near the threshold does not flap.',
})
const windowOf = (least: number, most: number, usual: number) =>
  z.int().min(least).max(most).default(usual).meta({ description: 'The value is that of so many last seconds.' })

/** Each with its unit, and where a value comes from. */
const METRICS = {
  error_rate: 'Requests with a 5xx answer or without one, as a share of all: 0 to 1.',
  requests: 'Requests a minute.',
  latency_p50: 'Milliseconds within which half of the answers began.',
  latency_p95: 'Milliseconds within which 95 % of the answers began.',
  latency_p99: 'Milliseconds within which 99 % of the answers began.',
  cpu: 'Cores, all copies together.',
  memory: 'The memory of the largest copy, as a share of its limit: 0 to 1.',
  disk: 'The fullest disk or database, as a share of its size: 0 to 1.',
  restarts: 'Restarts of copies.',
  copies: 'Copies that run, while any does.',
  queue: 'Tasks that wait, where the application scales by `queue`.',
} as const
const metricNames = Object.keys(METRICS) as (keyof typeof METRICS)[]

const MetricCondition = z
  .object({
    kind: z.literal('metric'),
    metric: z.enum(metricNames as [keyof typeof METRICS]).meta({
      description: Object.entries(METRICS)
        .map(([name, text]) => `\`${name}\`: ${text}`)
        .join(' '),
    }),
    operator: Operator,
    threshold: Threshold,
    clear_threshold: ClearThreshold,
    window_seconds: windowOf(60, 3600, 300),
    min_requests: z.int().min(0).max(1e9).default(0).meta({
      description: 'With fewer requests in the window, no incident opens: one failure of three is no rate.',
    }),
  })
  .meta({ description: 'A metric of a deployment. No value is not zero.' })

const LogCondition = z
  .object({
    kind: z.literal('log'),
    contains: boundedText(200).min(1).meta({ description: 'Text within the line, in any case. No pattern.' }),
    level: z.enum(levels).nullish().meta({ description: 'The least level of the line.' }),
    process: boundedText(30).nullish().meta({ description: 'The process type of the copy.' }),
    count: z.int().min(1).max(1e6).default(1).meta({ description: 'So many lines in the window, or more.' }),
    window_seconds: windowOf(10, 3600, 300),
  })
  .meta({ description: 'Lines of the log of a deployment, as they arrive.' })

const TRACE_METRICS = ['error_rate', 'latency_p50', 'latency_p99', 'cost', 'feedback', 'traces'] as const
const TraceCondition = z
  .object({
    kind: z.literal('trace'),
    project_id: Uuid.meta({ description: 'The project of the traces.' }),
    metric: z.enum(TRACE_METRICS).meta({
      description:
        '`error_rate`: the share that failed, 0 to 1. Latencies are in seconds. `cost`: of all in the window, in US ' +
        'dollars. `feedback`: the average score of `feedback_key`. `traces`: how many began.',
    }),
    feedback_key: boundedText(250).nullish().meta({ description: 'Required for `feedback`, and for nothing else.' }),
    filter: boundedText(4096).nullish().meta({ description: 'In the filter language of runs. By default all roots.' }),
    operator: Operator,
    threshold: Threshold,
    clear_threshold: ClearThreshold,
    window_seconds: windowOf(60, 86_400, 600),
    min_traces: z.int().min(0).max(1e9).default(0).meta({ description: 'With fewer, no incident opens.' }),
  })
  .refine(({ metric, feedback_key }) => (metric === 'feedback') === Boolean(feedback_key), {
    path: ['feedback_key'],
    error: 'is required for the metric `feedback`, and allowed for no other',
  })
  .meta({ description: 'The traces of a project that began within the window.' })

const EventPattern = boundedText(100).regex(/^[a-z_*]+(\.[a-z_*]+)*$/, {
  error: 'must be a type of events such as `deployment.crash_looping`, or `revision.*_failed`',
})
const OWN_EVENT = /^(\*|alert_|incident|i\*|a\*)/
const EventCondition = z
  .object({
    kind: z.literal('event'),
    types: arrayOf(
      EventPattern.refine(type => !OWN_EVENT.test(type), { error: 'must not include events of alerts themselves' }),
      20,
      1,
    ).meta({ description: 'An event of one of these types opens an incident. `*` stands for any text.' }),
    ends: arrayOf(EventPattern, 20).default([]).meta({
      description: 'An event of one of these types is the end. Without any, the end is `resolve_after_seconds` later.',
    }),
  })
  .meta({ description: 'Events of the journal, of any kind of resource.' })

export const AlertCondition = z
  .discriminatedUnion('kind', [MetricCondition, LogCondition, TraceCondition, EventCondition])
  .superRefine((condition, check) => {
    if (!('clear_threshold' in condition) || condition.clear_threshold == null) return
    const { operator, threshold, clear_threshold } = condition
    if (operator === 'above' ? clear_threshold <= threshold : clear_threshold >= threshold) return
    check.addIssue({
      code: 'custom',
      path: ['clear_threshold'],
      message: operator === 'above' ? 'must not be above `threshold`' : 'must not be below `threshold`',
    })
  })
  .meta({ description: 'A condition on metrics, log lines, traces or events.' })
export type StoredCondition = z.output<typeof AlertCondition>
export type ConditionOf<Kind extends StoredCondition['kind']> = Extract<StoredCondition, { kind: Kind }>

// ---- hours

const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const
const Clock = boundedText(5).regex(/^([01]\d|2[0-3]):[0-5]\d$/, { error: 'must be a time such as 22:00' })
export const Weekly = z
  .object({
    days: arrayOf(z.enum(weekdays), 7, 1).transform(days => [...new Set(days)]),
    from: Clock,
    until: Clock.meta({ description: 'Not after `from`: on the next day.' }),
    time_zone: TimeZone,
  })
  .meta({ id: 'WeeklyHours', description: 'The same hours each week.' })

/** Hours of each of these days. They end on the next day if `until` is not after `from`. */
export type WeeklyHours = z.output<typeof Weekly>
