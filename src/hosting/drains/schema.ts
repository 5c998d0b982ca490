// Schemas of drains.
import * as z from 'zod'
import { compressions, drainKinds, drainSignals } from '../../protocol/drains.schema.ts'
import { levels } from '../../protocol/logs.schema.ts'
import { ProcessType } from '../../protocol/resources.schema.ts'
import {
  arrayOf,
  boundedText,
  exactName,
  listOf,
  Owner,
  OwnerPatch,
  ownedBy,
  Page,
  recordOf,
  Uuid,
} from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })

export const DrainRef = z.object({ drain_id: Uuid })
export const DrainQuery = z.object({ ...Page.shape, name: exactName('name'), owner: ownedBy })

const REMOTE_WRITE =
  'must be `otlp`, `ndjson`, `loki` or `syslog`. There is no remote write of Prometheus: it takes OTLP below ' +
  '`/api/v1/otlp`'
const Kind = z
  .enum(drainKinds, {
    error: ({ input }) => (/^(prometheus_?)?remote_?write$/.test(String(input)) ? REMOTE_WRITE : undefined),
  })
  .meta({
    description:
      '`otlp`: OTLP by HTTP in JSON, the standard of OpenTelemetry. `ndjson`: a POST with a JSON object in each ' +
      'line. `loki`: the push API of Grafana Loki. `syslog`: RFC 5424 over TLS.',
  })
const Name = boundedText(100)
  .regex(/^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9])?$/, {
    error: 'must be letters, digits, and spaces, dots, underscores or hyphens within',
  })
  .meta({ description: 'Unique in the workspace.' })
const Url = boundedText(2048).meta({
  description:
    '`https` with a public name. Redirects are not followed. `otlp`: the base, to which `/v1/logs` and the like are ' +
    'added. `loki`: the base, or the whole URL. `syslog`: `tls://host:6514`. Agents also reach the networks that ' +
    'their operator allows.',
  format: 'uri',
})
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/
const OWN_HEADERS = /^(content-(type|length|encoding)|host|connection|transfer-encoding|te|trailer|upgrade|expect)$/i
const Headers = recordOf(
  boundedText(100)
    .regex(HEADER_NAME, { error: 'must be the name of a header', abort: true })
    .refine(name => !OWN_HEADERS.test(name), { error: 'is set by the drain itself' }),
  boundedText(4096).regex(/^[\x20-\x7e]*$/, { error: 'must be printable ASCII' }),
  20,
).meta({
  description: 'Sent with each request, such as `Authorization`. Their values are secrets: no answer has them.',
})
const Signals = arrayOf(z.enum(drainSignals), drainSignals.length, 1)
  .refine(signals => new Set(signals).size === signals.length, { error: 'must be different' })
  .meta({
    description:
      '`logs`, `requests` and `metrics` are sent by the agents, where they are made. `events` and `traces` are sent ' +
      'by the control plane.',
  })
const DeploymentIds = arrayOf(Uuid, 100).meta({
  description: 'If there are any, only signals of these deployments, or of those with the tags, are sent.',
})
const TagValueIds = arrayOf(Uuid, 50)
const MinLevel = z.enum(levels)
const Processes = arrayOf(ProcessType, 24)
const Contains = boundedText(500).min(1)
const Filter = z
  .object({
    min_level: MinLevel.nullish().meta({ description: 'Lines of this level and of more severe ones.' }),
    processes: Processes.default([]).meta({ description: 'If there are any, only lines of these process types.' }),
    contains: Contains.nullish().meta({
      description: 'Only lines with this text. Upper and lower case do not differ.',
    }),
  })
  .meta({ id: 'DrainFilter', description: 'Which lines of `logs` and `requests` are sent. By default all.' })
const SamplingRate = z
  .number()
  .gt(0)
  .max(1)
  .meta({ description: 'The share of the lines that is sent, of those that pass the filter.' })

export const NewDrain = z
  .object({
    name: Name,
    kind: Kind,
    url: Url,
    headers: Headers.default({}),
    compression: z.enum(compressions).default('gzip').meta({ description: 'Of the bodies of requests.' }),
    signals: Signals.default(['logs']),
    deployment_ids: DeploymentIds.default([]),
    tag_value_ids: TagValueIds.default([]),
    filter: Filter.default({ processes: [] }),
    sampling_rate: SamplingRate.default(1),
    enabled: z.boolean().default(true),
    owner: Owner.nullish(),
  })
  .meta({
    id: 'NewDrain',
    description: 'A place to send signals to.',
    example: {
      name: 'Collector',
      kind: 'otlp',
      url: 'https://otel.example.com:4318',
      headers: { Authorization: 'Bearer 5f0c' },
      signals: ['logs', 'metrics'],
    },
  })
export type NewDrain = z.output<typeof NewDrain>

export const DrainPatch = z
  .object({
    name: Name.nullish(),
    url: Url.nullish(),
    headers: Headers.nullish().meta({ description: 'Replaces all headers. Needed with a `url` of another server.' }),
    compression: z.enum(compressions).nullish(),
    signals: Signals.nullish(),
    deployment_ids: DeploymentIds.nullish(),
    tag_value_ids: TagValueIds.nullish(),
    filter: Filter.nullish().meta({ description: 'Replaces the whole filter.' }),
    sampling_rate: SamplingRate.nullish(),
    enabled: z.boolean().nullish().meta({
      description: 'False stops it: agents delete what waits. True begins with what comes then.',
    }),
    owner: OwnerPatch,
  })
  .meta({
    id: 'DrainPatch',
    description: 'Members that are absent or null stay as they are. The kind of a drain does not change.',
    example: { signals: ['logs', 'requests', 'metrics'] },
  })
export type DrainPatch = z.output<typeof DrainPatch>

const progress = {
  sent: z.int().meta({ description: 'Records that receivers have taken. A record may have been sent twice.' }),
  dropped: z.int().meta({
    description: 'Records that are lost: the buffer was full, or the receiver refused them for their content.',
  }),
  last_sent_at: Time.nullable(),
  failing_since: Time.nullable().meta({ description: 'The first failure since the last success.' }),
  error: z.string().nullable().meta({ description: 'The last failure. Null after a success.' }),
}
const Sender = z.object({
  listener_id: Uuid.nullable().meta({ description: 'The listener of the agent. Null: the control plane.' }),
  ...progress,
  waiting: z.int().nullable().meta({ description: 'Records in the buffer. Null: the control plane has none.' }),
  waiting_bytes: z.int().nullable(),
  reported_at: Time.nullable().meta({ description: 'When the agent told this.' }),
})
export type Sender = z.output<typeof Sender>

export const Drain = z
  .object({
    id: Uuid,
    name: z.string(),
    kind: z.enum(drainKinds),
    url: z.string(),
    header_names: z.array(z.string()),
    headers_fingerprint: z.string().nullable().meta({ description: 'Another one after each change of the headers.' }),
    compression: z.enum(compressions),
    signals: z.array(z.enum(drainSignals)),
    deployment_ids: z.array(Uuid),
    tag_value_ids: z.array(Uuid),
    filter: z.object({
      min_level: z.enum(levels).nullable(),
      processes: z.array(z.string()),
      contains: z.string().nullable(),
    }),
    sampling_rate: z.number(),
    enabled: z.boolean(),
    owner: Owner.nullable(),
    state: z.object({
      status: z.enum(['disabled', 'waiting', 'ok', 'failing']).meta({
        description: '`waiting`: nothing has been sent yet. `failing`: a sender has failed since its last success.',
      }),
      ...progress,
      waiting: z.int().meta({ description: 'Records in the buffers of agents.' }),
      senders: z.array(Sender).meta({ description: 'The agents that have reported, and the control plane.' }),
    }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Drain', description: 'A place that signals are sent to, and how sending goes.' })
export type Drain = z.output<typeof Drain>
export const DrainList = listOf(Drain).meta({ id: 'DrainList', description: 'A page of drains, newest first.' })

export const DrainTest = z
  .object({
    delivered: z.boolean(),
    error: z.string().nullable().meta({
      description: '`refused` is an answer other than 2xx, others are codes of errors.',
    }),
    answer_status: z.int().nullable(),
    duration_ms: z.int(),
  })
  .meta({ id: 'DrainTest', description: 'The answer of the receiver to a test line. Its body is not shown.' })
export type DrainTest = z.output<typeof DrainTest>
