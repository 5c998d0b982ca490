// Schemas of tracing projects, which are sessions on the wire.
import * as z from 'zod'
import {
  arrayOf,
  boundedText,
  commaSeparated,
  emptyAsAbsent,
  optionalFilter,
  parseWholeNumber,
  Uuid,
} from '../../protocol/wire.ts'
import {
  flag,
  idFilter,
  JsonObject,
  jsonFilter,
  offsetPage,
  optionalFlag,
  queryFilter,
  storableText,
  Time,
} from '../runs/list-parameters.schema.ts'
import { TIME_TEXT, TraceTime } from '../runs/time.schema.ts'

const TRACE_TIERS = ['shortlived', 'longlived'] as const
/** The days that the tiers keep, and so the bounds of a retention of one's own. */
const SHORTLIVED_DAYS = 14
export const LONGLIVED_DAYS = 400
const MAX_TAGS = 50

export const ProjectRef = z.object({ session_id: Uuid })
/** An index of Postgres takes at most 2,704 bytes. */
export const MAX_NAME = 512
const Name = storableText(MAX_NAME).min(1)
const Description = storableText(10_000)
export const TraceTier = z.enum(TRACE_TIERS).meta({
  description: `\`shortlived\` keeps traces for ${SHORTLIVED_DAYS} days, \`longlived\` for ${LONGLIVED_DAYS} days.`,
})
export const LonglivedDays = z.int().min(SHORTLIVED_DAYS).max(LONGLIVED_DAYS).meta({
  description: 'How many days the long-lived traces are kept. Null: as the workspace says.',
})

const changeableMembers = {
  name: Name.nullish(),
  description: Description.nullish(),
  end_time: TraceTime.nullish(),
  extra: JsonObject.nullish().meta({ description: 'Replaces the stored one. Its `metadata` can be searched.' }),
  default_dataset_id: Uuid.nullish(),
  trace_tier: TraceTier.nullish(),
  longlived_ttl_days: LonglivedDays.nullish(),
}

export const NewProject = z
  .object({
    ...changeableMembers,
    id: Uuid.nullish(),
    start_time: TraceTime.nullish(),
    reference_dataset_id: Uuid.nullish().meta({ description: 'The dataset of an experiment.' }),
    tag_value_ids: arrayOf(Uuid, MAX_TAGS).nullish(),
    num_examples: z.int().min(0).max(1e9).nullish(),
    num_repetitions: z.int().min(1).max(1e9).nullish(),
    evaluator_keys: arrayOf(storableText(180), 100).nullish(),
  })
  .meta({
    id: 'NewTracingProject',
    description: 'Null means the same as an absent member. By default the name is the id.',
    example: { name: 'support-agent', description: 'Answers questions of customers.' },
  })
export type NewProject = z.output<typeof NewProject>
export const Upsert = z.object({
  upsert: flag(false).meta({ description: 'If the workspace has a project of this name, change it.' }),
})

export const ProjectPatch = z.object(changeableMembers).meta({
  id: 'TracingProjectPatch',
  description:
    'Members that are absent or null stay as they are, but a null `longlived_ttl_days` clears it. ' +
    'A tier is for traces that begin from now on.',
  example: { description: 'Answers questions of customers, in German.' },
})
export type ProjectPatch = z.output<typeof ProjectPatch>
export const ProjectIds = z
  .object({ session_ids: commaSeparated(Uuid, 100) })
  .meta({ example: { session_ids: '5d41402a-bc4b-4a76-b971-9d911017c592' } })

const number = () => z.number().nullable()
const Cost = z.string().nullable()
export const Stats = z.record(z.string(), z.looseObject({}))

export const Project = z
  .object({
    id: Uuid,
    tenant_id: Uuid,
    name: z.string(),
    description: z.string().nullable(),
    start_time: Time,
    end_time: Time.nullable(),
    extra: JsonObject.nullable(),
    default_dataset_id: Uuid.nullable(),
    reference_dataset_id: Uuid.nullable(),
    deployment_id: Uuid.nullable().meta({ description: 'The deployment that traces into this project.' }),
    tag_value_ids: z.array(Uuid),
    trace_tier: TraceTier,
    longlived_ttl_days: number(),
    num_examples: number(),
    num_repetitions: number(),
    evaluator_keys: z.array(z.string()).nullable(),
    created_at: Time,
    run_count: number().meta({ description: 'Of traces. It and the next members: with `include_stats=true`.' }),
    latency_p50: number().meta({ description: 'Of traces, in seconds. Within 5 %.' }),
    latency_p99: number(),
    first_token_p50: number(),
    first_token_p99: number(),
    prompt_tokens: number(),
    completion_tokens: number(),
    total_tokens: number(),
    prompt_cost: Cost,
    completion_cost: Cost,
    total_cost: Cost,
    last_run_start_time: Time.nullable(),
    last_run_start_time_live: Time.nullable(),
    error_rate: number().meta({ description: 'The part of the traces that failed.' }),
    streaming_rate: number().meta({ description: 'The part of the traces that streamed their answer.' }),
    feedback_stats: Stats.nullable().meta({ description: 'Of the runs, by key.' }),
    session_feedback_stats: Stats.nullable().meta({ description: 'Of the project as a whole, by key.' }),
    run_facets: z
      .array(z.object({ key: z.string(), value: z.string(), query: z.string(), n: z.int() }))
      .nullable()
      .meta({ description: 'Values that roots have most often, with their filters. With `facets=true`.' }),
    test_run_number: number().meta({ description: 'Of an experiment: its place among those of its dataset.' }),
  })
  .meta({ id: 'TracingProject', description: 'A tracing project. That of a deployment has the same name.' })
export type Project = z.output<typeof Project>
export const ProjectList = z.array(Project).meta({ id: 'TracingProjectList' })

export const STATISTICS = [
  'run_count',
  'latency_p50',
  'latency_p99',
  'first_token_p50',
  'first_token_p99',
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  'prompt_cost',
  'completion_cost',
  'total_cost',
  'last_run_start_time',
  'error_rate',
  'streaming_rate',
  'feedback_stats',
  'session_feedback_stats',
] as const
const SORT_COLUMNS = [
  'name',
  'start_time',
  'last_run_start_time',
  'latency_p50',
  'latency_p99',
  'error_rate',
  'feedback',
  'runs_count',
] as const

const statsMembers = {
  include_stats: flag(false),
  stats_start_time: optionalFilter(TraceTime).meta({
    ...TIME_TEXT,
    description: 'Count the traces and the feedback from this time on. By default all that there ever were.',
  }),
}
export const ProjectReadQuery = z.object(statsMembers)

const ADDRESSES = ['AGENT', 'EXPERIMENT', 'EVALUATOR'] as const
export const ProjectAddress = z
  .object({
    kind: boundedText(40)
      .toUpperCase()
      .pipe(z.enum(ADDRESSES))
      .meta({ description: 'Only experiments are found.', enum: [...ADDRESSES] }),
    id: optionalFilter(boundedText(256)).meta({ description: 'Of the experiment.' }),
    environment: optionalFilter(boundedText(40)).meta({ description: 'Of an agent. Slipway has none.' }),
  })
  .refine(({ kind, id }) => kind !== 'EXPERIMENT' || Uuid.safeParse(id).success, {
    path: ['id'],
    error: 'must be the id of an experiment, a UUID',
  })
  .meta({ example: { kind: 'EXPERIMENT', id: '5d41402a-bc4b-4a76-b971-9d911017c592' } })
export const ResolvedProject = z.object({ session_id: Uuid }).meta({ id: 'ResolvedProject' })

export const ProjectQuery = z
  .object({
    ...offsetPage(),
    ...statsMembers,
    id: idFilter(),
    name: optionalFilter(boundedText(MAX_NAME)).meta({ description: 'The exact `name`.' }),
    name_contains: optionalFilter(boundedText(MAX_NAME)).meta({
      description: 'Part of the name. Case does not matter.',
    }),
    reference_dataset: idFilter('Experiments of these datasets.'),
    reference_free: optionalFlag().meta({ description: 'True: projects that are no experiments. False: experiments.' }),
    dataset_version: optionalFilter(boundedText(64)).meta({ description: 'Experiments of this version of a dataset.' }),
    metadata: jsonFilter('A JSON object that `extra.metadata` contains.'),
    tag_value_id: idFilter('Projects with all of these tags.'),
    filter: queryFilter().meta({
      description: 'Of the project, in the filter language: `and(like(name, "shop-%"), gt(error_rate, 0.1))`.',
    }),
    sort_by: z.preprocess(emptyAsAbsent, z.enum(SORT_COLUMNS).default('start_time')),
    sort_by_desc: flag(true),
    sort_by_feedback_key: optionalFilter(boundedText(180)).meta({ description: 'Required to sort by `feedback`.' }),
    sort_by_feedback_source: optionalFilter(z.enum(['run', 'session'])),
    stats_select: optionalFilter(commaSeparated(z.enum(STATISTICS), STATISTICS.length)).meta({
      description: 'Only these statistics.',
    }),
    use_approx_stats: flag(false).meta({ description: 'Has no effect: statistics are exact and constant in time.' }),
    stats_filter: queryFilter().meta({
      description: 'Statistics of the traces alone whose root this filter finds. They need `runs:read`.',
    }),
    facets: flag(false).meta({ description: 'With `run_facets`, which need `runs:read`.' }),
  })
  .refine(({ sort_by, sort_by_feedback_key }) => sort_by !== 'feedback' || sort_by_feedback_key !== undefined, {
    path: ['sort_by_feedback_key'],
    error: 'is required to sort by feedback',
  })
export type ProjectQuery = z.output<typeof ProjectQuery>

export const MetadataQuery = z.object({
  metadata_keys: optionalFilter(commaSeparated(boundedText(256), 100)).meta({ description: 'By default all keys.' }),
  start_time: optionalFilter(TraceTime).meta({ ...TIME_TEXT }),
  k: z.preprocess(parseWholeNumber, z.int().min(1).max(100).default(10)).meta({ description: 'Values of each key.' }),
  root_runs_only: flag(false),
})
export const Metadata = z
  .record(z.string(), z.array(z.string()))
  .meta({ id: 'RunMetadata', description: 'The most frequent values of each key of the metadata of the latest runs.' })
