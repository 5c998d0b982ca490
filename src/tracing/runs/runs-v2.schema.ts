// Schemas of runs in the second version of the API of published clients: upper-case names, and selected members only.
import * as z from 'zod'
import { hasOneOf } from '../../protocol/conditions.ts'
import { arrayOf, CREDENTIAL, emptyAsAbsent, parseWholeNumber, Uuid } from '../../protocol/wire.ts'
import { queryFilter } from './list-parameters.schema.ts'
import { CursorText, filterText, MAX_PROJECTS, RUN_TYPES, type Run } from './runs.schema.ts'
import { TIME_TEXT, TraceTime } from './time.schema.ts'

/** Members that are those of the first version, by the same name. */
export const SAME_MEMBERS = [
  'ID',
  'NAME',
  'START_TIME',
  'END_TIME',
  'FIRST_TOKEN_TIME',
  'ERROR',
  'EXTRA',
  'EVENTS',
  'INPUTS',
  'INPUTS_PREVIEW',
  'OUTPUTS',
  'OUTPUTS_PREVIEW',
  'PARENT_RUN_ID',
  'PARENT_RUN_IDS',
  'TRACE_ID',
  'THREAD_ID',
  'DOTTED_ORDER',
  'REFERENCE_EXAMPLE_ID',
  'REFERENCE_DATASET_ID',
  'TOTAL_TOKENS',
  'PROMPT_TOKENS',
  'COMPLETION_TOKENS',
  'PRICE_MODEL_ID',
  'TAGS',
  'APP_PATH',
  'LAST_QUEUED_AT',
  'FEEDBACK_STATS',
] as const
const RUN_SELECT_V2 = [
  ...SAME_MEMBERS,
  'RUN_TYPE',
  'STATUS',
  'LATENCY_SECONDS',
  'ERROR_PREVIEW',
  'METADATA',
  'MANIFEST',
  'PROJECT_ID',
  'IS_ROOT',
  'TOTAL_COST',
  'PROMPT_COST',
  'COMPLETION_COST',
  'PROMPT_TOKEN_DETAILS',
  'COMPLETION_TOKEN_DETAILS',
  'PROMPT_COST_DETAILS',
  'COMPLETION_COST_DETAILS',
  'ATTACHMENTS',
  'THREAD_EVALUATION_TIME',
  'IS_IN_DATASET',
  'SHARE_URL',
  'LS_USER_ID',
] as const
export type SelectV2 = (typeof RUN_SELECT_V2)[number]

const MAX_IDS = 1000
const MAX_SELECTED = 100
const DAY = 'By default a day ago.'
export const unsupported = (what: string) =>
  z
    .null()
    .optional()
    .meta({ description: `${what} This is not supported.` })
export const Selects = arrayOf(z.enum(RUN_SELECT_V2), MAX_SELECTED)
  .nullish()
  .meta({ description: 'The members to return. By default the id.' })

const pageMembers = (size: number) => ({
  cursor: CursorText.nullish().meta({ description: '`next_cursor` of the previous answer.' }),
  page_size: z
    .int()
    .min(1)
    .max(100)
    .nullish()
    .transform(value => value ?? size),
})
export const aiMembers = {
  ai_search: unsupported('A criterion in plain words.'),
  min_feedback_modified_at: unsupported('When the feedback was changed.'),
  max_feedback_modified_at: unsupported('When the feedback was changed.'),
}
export const timeMembers = {
  min_start_time: TraceTime.nullish().meta({ description: `Runs that started at this time or later. ${DAY}` }),
  max_start_time: TraceTime.nullish().meta({ description: 'Runs that started at this time or before.' }),
}

const hasOnePlace = (body: { project_ids?: unknown; reference_dataset_id?: unknown }) =>
  Boolean(body.project_ids) !== Boolean(body.reference_dataset_id)

export const RunQueryV2 = z
  .object({
    ...pageMembers(100),
    ...timeMembers,
    ...aiMembers,
    project_ids: arrayOf(Uuid, MAX_PROJECTS, 1).nullish().meta({ description: 'This or `reference_dataset_id`.' }),
    reference_dataset_id: Uuid.nullish().meta({ description: 'The runs of all experiments of a dataset.' }),
    ids: arrayOf(Uuid, MAX_IDS).nullish(),
    trace_id: Uuid.nullish(),
    run_type: z.enum(RUN_TYPES.map(type => type.toUpperCase() as Uppercase<typeof type>)).nullish(),
    reference_examples: arrayOf(Uuid, MAX_IDS).nullish(),
    has_error: z.boolean().nullish(),
    is_root: z.boolean().nullish(),
    filter: filterText('the run'),
    trace_filter: filterText('the root of its trace'),
    tree_filter: filterText('any run of its trace'),
    selects: Selects,
    sort_order: z.enum(['ASC', 'DESC']).nullish(),
    include_subtree_usage: z
      .boolean()
      .nullish()
      .meta({ description: 'Has no effect: tokens and costs of a root are those of its trace.' }),
  })
  .refine(hasOnePlace, { path: ['project_ids'], error: 'give either this or `reference_dataset_id`' })
  .meta({
    id: 'RunQueryV2',
    ...hasOneOf('project_ids', 'reference_dataset_id'),
    example: { project_ids: ['0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10'], selects: ['ID', 'NAME', 'STATUS'] },
  })
export type RunQueryV2 = z.output<typeof RunQueryV2>

export const TraceQueryV2 = z
  .object({
    ...pageMembers(20),
    ...timeMembers,
    ...aiMembers,
    project_id: Uuid,
    trace_ids: arrayOf(Uuid, MAX_IDS).nullish(),
    trace_filter: filterText('the root of the trace'),
    tree_filter: filterText('any run of the trace'),
    selects: Selects,
  })
  .meta({ id: 'TraceQueryV2', example: { project_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10', selects: ['NAME'] } })
export type TraceQueryV2 = z.output<typeof TraceQueryV2>

/** A run is described by the schema of the first version; the members that differ say how. */
type Changed =
  | ('run_type' | 'status' | 'total_cost' | 'prompt_cost' | 'completion_cost' | 'prompt_token_details')
  | ('completion_token_details' | 'prompt_cost_details' | 'completion_cost_details')
export type RunV2 = Partial<Omit<Run, Changed>> & {
  run_type?: string
  status?: string
  total_cost?: number | null
  prompt_cost?: number | null
  completion_cost?: number | null
} & { [Name in Extract<Changed, `${string}_details`>]?: { raw: Record<string, number> } | null } & {
  latency_seconds?: number | null
  error_preview?: string | null
  metadata?: unknown
  manifest?: unknown
  project_id?: string
  is_root?: boolean
  attachments?: Record<string, string>
  thread_evaluation_time?: null
  is_in_dataset?: boolean
  share_url?: string | null
  ls_user_id?: null
}
export const RunV2 = z
  .looseObject({
    id: Uuid.optional(),
    share_url: z.string().nullable().optional().meta(CREDENTIAL),
    attachments: z.record(z.string(), z.string().meta(CREDENTIAL)).optional(),
  })
  .meta({
    id: 'RunV2',
    description:
      'The selected members of a run, named as `selects` names them, in lower case. `run_type` and `status` are in ' +
      'upper case, costs are numbers, and details stand in `raw`.',
  })

export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), next_cursor: z.string().nullable(), has_more: z.boolean() })
export const RunPageV2 = pageOf(RunV2).meta({ id: 'RunPageV2' })
export type Page<Item> = { items: Item[]; next_cursor: string | null; has_more: boolean }
export const TracePageV2 = pageOf(
  z.object({
    root_run: RunV2,
    trace_aggregates: z.object({
      total_tokens: z.int(),
      total_cost: z.number().nullable(),
      first_token_time: z.string().nullable().meta({ format: 'date-time' }),
    }),
    query_metadata: z.null(),
  }),
).meta({ id: 'TracePageV2' })
export type TracePageV2 = z.output<typeof TracePageV2>

const selectsQuery = z.preprocess(emptyAsAbsent, arrayOf(z.enum(RUN_SELECT_V2), MAX_SELECTED).optional())
const timeQuery = z.preprocess(emptyAsAbsent, TraceTime.optional()).meta({ ...TIME_TEXT })
const EXAMPLE = { project_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10' }
export const RunReadQueryV2 = z
  .object({
    project_id: Uuid,
    selects: selectsQuery,
    start_time: timeQuery.meta({ description: 'When the run started. It is found faster.' }),
  })
  .meta({ example: EXAMPLE })
export const RunUrlQuery = z
  .object({ project_id: Uuid, trace_id: Uuid, start_time: timeQuery })
  .meta({ example: { ...EXAMPLE, trace_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a11' } })
export const RunUrl = z.object({ url: z.string() }).meta({ id: 'RunUrl' })

export const TraceRef = z.object({ trace_id: Uuid })
export const TraceRunsQuery = z
  .object({
    project_id: Uuid,
    filter: queryFilter(),
    min_start_time: timeQuery,
    max_start_time: timeQuery,
    selects: selectsQuery,
  })
  .meta({ example: EXAMPLE })
export const RunListV2 = z.object({ items: z.array(RunV2) }).meta({ id: 'RunListV2' })

export const NewTraceShare = z
  .object({ session_id: Uuid, trace_id: Uuid })
  .meta({ id: 'NewTraceShare', example: { session_id: EXAMPLE.project_id, trace_id: EXAMPLE.project_id } })
export const TraceShare = z.object({ share_token: Uuid.meta(CREDENTIAL) }).meta({ id: 'TraceShare' })
export const SharedRunQueryV2 = z.object({ selects: Selects }).meta({ id: 'SharedRunQueryV2', example: {} })
export const SharedRunReadQuery = z.object({ selects: selectsQuery, start_time: timeQuery })
export const pageSizeQuery = (size: number) => z.preprocess(parseWholeNumber, z.int().min(1).max(100).default(size))
