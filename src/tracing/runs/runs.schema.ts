// Schemas of runs as they are queried and read.
import * as z from 'zod'
import { hasAnyOf } from '../../protocol/conditions.ts'
import {
  arrayOf,
  boundedText,
  CREDENTIAL,
  emptyAsAbsent,
  parseBoolean,
  parseWholeNumber,
  Uuid,
} from '../../protocol/wire.ts'
import { readTraceTime, TIME_TEXT, TraceTime } from './time.schema.ts'

export const RUN_TYPES = ['tool', 'chain', 'llm', 'retriever', 'embedding', 'prompt', 'parser'] as const
const RunType = z.enum(RUN_TYPES)

/** A query names at least one. */
export const PLACES = ['id', 'session', 'trace', 'parent_run', 'reference_example'] as const

const MAX_FILTER_LENGTH = 20_000
const FilterText = boundedText(MAX_FILTER_LENGTH)
export const filterText = (about: string) =>
  FilterText.nullish().meta({ description: `A filter, as docs/observe/query-traces.md describes it, about ${about}.` })

export const MAX_PROJECTS = 100
const MAX_IDS = 1000
const MAX_PAGE = 100
const ids = (max: number) => arrayOf(Uuid, max).nullish()
/** Published clients send 1 for true. */
const flag = () =>
  z
    .union([z.boolean(), z.literal([0, 1])])
    .nullish()
    .transform(value => (value == null ? undefined : Boolean(value)))

const CURSOR = /^(<?)(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)~(.+)$/
/** A place in the order of runs. Opaque to clients. */
export const CursorText = boundedText(200)
  .transform((text, check): RunCursor => {
    const [, backwards, time, id] = CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? []
    if (readTraceTime(time ?? '') && Uuid.safeParse(id).success)
      return { time: time!, id: id!, backwards: backwards === '<' }
    check.addIssue({ code: 'custom', message: 'is not a cursor of a previous answer' })
    return z.NEVER
  })
  .meta({ type: 'string' })
type RunCursor = { time: string; id: string; backwards?: boolean }
export const writeCursor = ({ time, id, backwards }: RunCursor): string =>
  Buffer.from(`${backwards ? '<' : ''}${time}~${id}`).toString('base64url')

/** Members that `select` names, in the words of published clients. */
export const RUN_SELECT = [
  'id',
  'name',
  'run_type',
  'start_time',
  'end_time',
  'status',
  'error',
  'extra',
  'events',
  'inputs',
  'inputs_preview',
  'inputs_s3_urls',
  'inputs_or_signed_url',
  'outputs',
  'outputs_preview',
  'outputs_s3_urls',
  'outputs_or_signed_url',
  's3_urls',
  'error_or_signed_url',
  'events_or_signed_url',
  'extra_or_signed_url',
  'serialized_or_signed_url',
  'parent_run_id',
  'manifest_id',
  'manifest_s3_id',
  'manifest',
  'session_id',
  'serialized',
  'reference_example_id',
  'reference_dataset_id',
  'total_tokens',
  'prompt_tokens',
  'prompt_token_details',
  'completion_tokens',
  'completion_token_details',
  'total_cost',
  'prompt_cost',
  ...['prompt_cost_details', 'completion_cost', 'completion_cost_details', 'price_model_id', 'first_token_time'],
  ...['trace_id', 'dotted_order', 'last_queued_at', 'feedback_stats', 'child_run_ids', 'direct_child_run_ids'],
  ...['parent_run_ids', 'tags', 'in_dataset', 'app_path', 'share_token', 'trace_tier', 'trace_first_received_at'],
  ...['ttl_seconds', 'trace_upgrade', 'thread_id', 'trace_min_max_start_time', 'messages', 'inserted_at'],
] as const

const selection = {
  id: ids(MAX_IDS).meta({ description: 'These runs. All other filters are ignored.' }),
  trace: Uuid.nullish(),
  parent_run: Uuid.nullish(),
  run_type: RunType.nullish(),
  session: ids(MAX_PROJECTS).meta({ description: 'Tracing projects.' }),
  reference_example: ids(MAX_IDS),
  execution_order: z.literal(1).nullish(),
  start_time: TraceTime.nullish().meta({ description: 'Runs that started at this time or later.' }),
  end_time: TraceTime.nullish().meta({ description: 'Runs that started at this time or before.' }),
  error: flag().meta({ description: 'Only runs with, or only runs without an error.' }),
  query: boundedText(1000).nullish().meta({ description: 'Words that the texts of a run contain.' }),
  filter: filterText('the run'),
  trace_filter: filterText('the root of its trace'),
  tree_filter: filterText('any run of its trace'),
  search_filter: filterText('the run, too'),
  is_root: flag(),
  data_source_type: boundedText(40).nullish().meta({ description: 'Has no effect.' }),
  skip_pagination: flag().meta({ description: 'Has no effect.' }),
  use_experimental_search: flag().meta({ description: 'Has no effect.' }),
}

export const RunQueryBody = z
  .object({
    ...selection,
    cursor: CursorText.nullish().meta({ description: 'One of `cursors` of the previous answer.' }),
    limit: z
      .int()
      .min(1)
      .max(MAX_PAGE)
      .nullish()
      .transform(limit => limit ?? MAX_PAGE),
    select: arrayOf(z.enum(RUN_SELECT), 100).nullish().meta({ description: 'The members to return.' }),
    order: z
      .enum(['asc', 'desc'])
      .nullish()
      .transform(order => order ?? 'desc'),
    skip_prev_cursor: flag(),
  })
  .meta({
    id: 'RunQuery',
    description: 'At least one of `id`, `session`, `trace`, `parent_run` and `reference_example`.',
    ...hasAnyOf(...PLACES),
    example: { id: ['0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10'], select: ['name', 'inputs', 'outputs'] },
  })
export type RunQueryBody = z.output<typeof RunQueryBody>

export const RunSelectionBody = z.object(selection)
export type RunSelectionBody = z.output<typeof RunSelectionBody>

export const FilterCheckBody = z
  .object({
    filter: filterText('the run'),
    trace_filter: filterText('the root of its trace'),
    tree_filter: filterText('any run of its trace'),
    search_filter: filterText('the run, too'),
  })
  .meta({ id: 'FilterCheck', example: { filter: 'and(eq(run_type, "llm"), gt(latency, "5s"))' } })
export type FilterCheckBody = z.output<typeof FilterCheckBody>
export const FilterErrors = z
  .object({
    valid: z.boolean(),
    errors: z.array(
      z.object({
        field: z.string().meta({ description: 'The member of the body.' }),
        message: z.string(),
        position: z.int().meta({ description: 'The character, counted from 1.' }),
      }),
    ),
  })
  .meta({ id: 'FilterErrors' })
export type FilterErrors = z.output<typeof FilterErrors>

const Time = z.string().meta({ format: 'date-time' })
const Json = z.unknown()
const Details = z.record(z.string(), z.number()).nullable()
const Costs = z.record(z.string(), z.string()).nullable()
const Cost = z.string().nullable().meta({ description: 'A decimal number.' })

/** Members that are stored apart. The URL takes no key, and expires after an hour. */
const StoredUrls = z
  .record(
    z.string(),
    z.object({ presigned_url: z.string().meta(CREDENTIAL), s3_url: z.null(), mime_type: z.string().nullable() }),
  )
  .nullable()

const FeedbackStats = z
  .record(
    z.string(),
    z.object({
      n: z.int(),
      avg: z.number().nullable(),
      min: z.number().nullable(),
      max: z.number().nullable(),
      stdev: z.number().nullable(),
      errors: z.int(),
      values: z.record(z.string(), z.int()),
      comments: z.array(z.string()),
      sources: z.array(z.string()),
    }),
  )
  .nullable()

export const Run = z
  .object({
    id: Uuid,
    name: z.string(),
    run_type: RunType,
    status: z.enum(['pending', 'success', 'error']),
    trace_id: Uuid,
    dotted_order: z.string(),
    session_id: Uuid,
    app_path: z.string(),
    start_time: Time.nullable(),
    end_time: Time.nullable().optional(),
    first_token_time: Time.nullable().optional(),
    error: z.string().nullable().optional(),
    execution_order: z.literal(1).optional(),
    inputs: Json.optional(),
    outputs: Json.optional(),
    events: Json.optional(),
    extra: Json.optional(),
    serialized: Json.optional(),
    inputs_preview: z.string().nullable().optional(),
    outputs_preview: z.string().nullable().optional(),
    inputs_s3_urls: StoredUrls.optional(),
    outputs_s3_urls: StoredUrls.optional(),
    s3_urls: StoredUrls.optional().meta({ description: 'Attachments: `attachment.<name>`.' }),
    tags: z.array(z.string()).nullable().optional(),
    parent_run_id: Uuid.nullable().optional(),
    parent_run_ids: z.array(Uuid).optional(),
    child_run_ids: z.array(Uuid).nullable().optional(),
    direct_child_run_ids: z.array(Uuid).nullable().optional(),
    thread_id: z.string().nullable().optional(),
    reference_example_id: Uuid.nullable().optional(),
    reference_dataset_id: Uuid.nullable().optional(),
    total_tokens: z.int().optional().meta({ description: 'Of a root: of all runs of the trace.' }),
    prompt_tokens: z.int().optional(),
    completion_tokens: z.int().optional(),
    prompt_token_details: Details.optional(),
    completion_token_details: Details.optional(),
    total_cost: Cost.optional(),
    prompt_cost: Cost.optional(),
    completion_cost: Cost.optional(),
    prompt_cost_details: Costs.optional(),
    completion_cost_details: Costs.optional(),
    feedback_stats: FeedbackStats.optional(),
    trace_min_start_time: Time.nullable().optional(),
    trace_max_start_time: Time.nullable().optional(),
    trace_tier: z.enum(['shortlived', 'longlived']).nullable().optional(),
    trace_first_received_at: Time.nullable().optional(),
    trace_upgrade: z.boolean().optional().meta({ description: 'The trace became long-lived after it began.' }),
    ttl_seconds: z.int().nullable().optional(),
    share_token: Uuid.nullable().optional().meta(CREDENTIAL),
    in_dataset: z.boolean().nullable().optional(),
    last_queued_at: Time.nullable().optional(),
    manifest_id: z.null().optional(),
    manifest_s3_id: z.null().optional(),
    price_model_id: z.null().optional(),
    messages: z.null().optional(),
  })
  .meta({ id: 'Run', description: 'A run of a trace. Members that `select` leaves out are missing.' })
export type Run = z.output<typeof Run>

export const RunPage = z
  .object({
    runs: z.array(Run),
    cursors: z.object({ next: z.string().nullable(), prev: z.string().nullable() }).meta({
      description: 'Where there is a next page, this one may have fewer runs than `limit`, or none.',
    }),
    parsed_query: z.string().nullable(),
  })
  .meta({ id: 'RunPage' })
export type RunPage = z.output<typeof RunPage>

export const RunRef = z.object({ run_id: Uuid })
const queryFlag = () => z.preprocess(parseBoolean, z.boolean().default(false))
export const RunReadQuery = z.object({
  session_id: z.preprocess(emptyAsAbsent, Uuid.optional()),
  start_time: z
    .preprocess(emptyAsAbsent, TraceTime.optional())
    .meta({ ...TIME_TEXT, description: 'When the run started. It is found faster.' }),
  exclude_s3_stored_attributes: queryFlag().meta({ description: 'Leave out what is stored apart.' }),
  exclude_serialized: queryFlag(),
  include_messages: queryFlag().meta({ description: 'Has no effect.' }),
})

export const ObjectRef = z.object({ run_id: Uuid, name: boundedText(1024) })
export const ObjectSignature = z.object({
  organization_id: Uuid,
  workspace_id: Uuid,
  expires: z.preprocess(parseWholeNumber, z.int().min(0)),
  signature: boundedText(512),
})
export type ObjectLink = z.output<typeof ObjectRef> & z.output<typeof ObjectSignature>
