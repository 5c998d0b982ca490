// Schemas of insights jobs: their requests and results.
import * as z from 'zod'
import { hasNone } from '../../protocol/conditions.ts'
import { arrayOf, boundedText, optionalFilter, recordOf, Uuid } from '../../protocol/wire.ts'
import { ProjectRef } from '../projects/projects.schema.ts'
import { flag, offsetPage, storableText, Time } from '../runs/list-parameters.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'
import { AttributeSchemas } from './attributes.schema.ts'

const MAX_LEVELS = 5
const MAX_CLUSTERS = 100
const MAX_HOURS = 400 * 24
const MAX_SAMPLE = 1000
export const MAX_PARTITIONS = 10

export const JobRef = ProjectRef.extend({ job_id: Uuid })
export const ClusterRef = JobRef.extend({ cluster_id: Uuid })

const Model = storableText(255).min(1)
const Sample = z
  .number()
  .gt(0)
  .max(MAX_SAMPLE)
  .refine(sample => sample <= 1 || Number.isInteger(sample), { error: 'must be a part up to 1, or a whole number' })
  .meta({
    anyOf: [{ maximum: 1 }, { multipleOf: 1 }],
    description: 'Up to 1 a part of the runs, above it their number. A job takes at most 1000 runs.',
  })

/** Members that a saved config has too. */
const requestShape = {
  name: storableText(255).nullish(),
  start_time: TraceTime.nullish().meta({ description: 'Runs that began since then.' }),
  end_time: TraceTime.nullish(),
  last_n_hours: z.int().min(1).max(MAX_HOURS).nullish().meta({ description: 'Instead of a start.' }),
  hierarchy: arrayOf(z.int().min(1).max(MAX_CLUSTERS), MAX_LEVELS, 1)
    .nullish()
    .meta({ description: 'How many clusters each level has, from the finest to the broadest.' }),
  partitions: recordOf(storableText(100).min(1), storableText(1000), MAX_PARTITIONS)
    .nullish()
    .meta({ description: 'The broadest categories, if they are known: descriptions by name.' }),
  sample: Sample.nullish(),
  summary_prompt: storableText(20_000)
    .nullish()
    .meta({
      description:
        'A template. Its variables are `run.inputs`, `run.outputs`, `run.error`, `run.feedback` and ' +
        '`all_thread_messages`.',
    }),
  filter: boundedText(20_000).nullish(),
  attribute_schemas: AttributeSchemas.nullish(),
  user_context: recordOf(storableText(1000).min(1), storableText(10_000), 20)
    .nullish()
    .meta({ description: 'Answers by questions about the application.' }),
  model: Model.nullish().meta({
    description:
      '`openai` or `anthropic`: the oldest model configuration of this provider, for `openai` also of a server that ' +
      'is compatible with it. Or the name, the id or the `model` of a configuration. `none`: the lexical method, ' +
      'which calls no model. By default `openai`.',
  }),
  cluster_model: Model.nullish().meta({ description: 'Of clusters and report: the name or id of a configuration.' }),
  summary_model: Model.nullish().meta({ description: 'Of summaries: the name or id of a configuration.' }),
}

const ONE_START = { anyOf: [hasNone('start_time'), hasNone('last_n_hours')] }
export const SavedRequest = z.object(requestShape).meta({ id: 'InsightRequest', ...ONE_START })
export type SavedRequest = z.output<typeof SavedRequest>

export const NewJob = z
  .object({
    ...requestShape,
    config_id: Uuid.nullish().meta({ description: 'Members that are absent are those of the config.' }),
    is_scheduled: z.boolean().default(false),
    validate_model_secrets: z
      .boolean()
      .default(true)
      .meta({ description: 'Refuses a job whose model has no configuration. Else the job fails later.' }),
  })
  .meta({
    id: 'NewInsightJob',
    example: { name: 'What people ask', model: 'none', last_n_hours: 24, hierarchy: [10] },
    ...ONE_START,
  })
export type NewJob = z.output<typeof NewJob>

export const JobName = z
  .object({ name: storableText(255).min(1) })
  .meta({ id: 'InsightJobName', example: { name: 'Questions of May' } })

const STATES = ['queued', 'running', 'success', 'error'] as const
const Status = z.enum(STATES)
const jobShape = {
  id: Uuid,
  name: z.string(),
  status: Status,
  start_time: Time.nullable().meta({ description: 'Of the runs that it is about.' }),
  end_time: Time.nullable(),
  created_at: Time,
  metadata: z.looseObject({}).meta({ description: 'Its `method`, how many runs it has, and how far it is.' }),
  shape: z
    .record(z.string(), z.int())
    .nullable()
    .meta({ description: 'How many clusters each level has. The finest is level 0.' }),
  error: z.string().nullable(),
  config_id: Uuid.nullable(),
}
export const Job = z.object(jobShape).meta({ id: 'InsightJob' })
export type Job = z.output<typeof Job>
export const JobList = z.object({ clustering_jobs: z.array(Job) }).meta({ id: 'InsightJobList' })
export const CreatedJob = z
  .object({ id: Uuid, name: z.string(), status: Status, error: z.string().nullable() })
  .meta({ id: 'CreatedInsightJob' })
export const ChangedJob = z.object({ name: z.string(), status: Status }).meta({ id: 'ChangedInsightJob' })
export const Deleted = z.object({ id: Uuid, message: z.string() }).meta({ id: 'DeletedInsight' })

export const Cluster = z
  .object({
    id: Uuid,
    parent_id: Uuid.nullable(),
    level: z.int(),
    name: z.string(),
    description: z.string(),
    parent_name: z.string().nullable(),
    num_runs: z.int(),
    stats: z.looseObject({}).nullable(),
  })
  .meta({ id: 'InsightCluster' })
export type Cluster = z.output<typeof Cluster>

const Report = z
  .object({
    title: z.string().nullable(),
    key_points: z.array(z.string()),
    highlighted_traces: z.array(
      z.object({
        run_id: Uuid,
        cluster_id: Uuid.nullable(),
        cluster_name: z.string().nullable(),
        rank: z.int(),
        highlight_reason: z.string(),
        summary: z.string().nullable(),
      }),
    ),
    created_at: Time.nullable(),
  })
  .meta({ id: 'InsightReport' })

export const JobDetails = z
  .object({
    ...jobShape,
    clusters: z.array(Cluster).meta({ description: 'The broadest level first, then by size.' }),
    report: Report.nullable().meta({ description: 'Null until it is written. The lexical method writes none.' }),
  })
  .meta({ id: 'InsightJobDetails' })
export type JobDetails = z.output<typeof JobDetails>

export const ClusterDetails = z
  .object({
    id: Uuid,
    parent_id: Uuid.nullable(),
    num_children: z.int(),
    level: z.int(),
    name: z.string(),
    description: z.string(),
  })
  .meta({ id: 'InsightClusterDetails' })

export const JobQuery = z.object({
  ...offsetPage(),
  config_id: optionalFilter(Uuid),
  legacy: flag(false).meta({ description: 'Has no effect.' }),
})

export const RunsQuery = z.object({
  ...offsetPage(),
  cluster_id: optionalFilter(Uuid).meta({ description: 'Of this cluster and those below it.' }),
  attribute_sort_key: optionalFilter(boundedText(64)).meta({ description: 'The name of an attribute.' }),
  attribute_sort_order: optionalFilter(z.enum(['asc', 'desc'])),
})
export type RunsQuery = z.output<typeof RunsQuery>

const JobRun = z
  .looseObject({
    id: Uuid,
    summary: z.string().nullable(),
    attributes: z.looseObject({}).nullable(),
    cluster_id: Uuid.nullable(),
    cluster_name: z.string().nullable(),
  })
  .meta({ description: 'The run as `POST /runs/query` shows it, with what the job says of it.' })
export const JobRuns = z
  .object({
    runs: z.array(JobRun),
    offset: z.int().nullable().meta({ description: 'Of the next page. Null on the last one.' }),
  })
  .meta({ id: 'InsightRuns' })
export type JobRuns = z.output<typeof JobRuns>
