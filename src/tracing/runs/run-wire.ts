// Runs as published clients read them. JSON goes out as it came in.
import { rawJson } from '../../kernel/json/raw-json.ts'
import type { DetailColumn, StoredRun } from '../store/queries.ts'
import type { StoredObjects, UsageDetails } from '../store/store.ts'
import type { RUN_SELECT, Run } from './runs.schema.ts'

export type Select = (typeof RUN_SELECT)[number]
/** The context in which a run is shown. */
export type Showing = {
  tenant: string
  /** The URL of a text that is stored apart. */
  urlOf(run: StoredRun, name: string): string
}
type Member = { columns: DetailColumn[]; show(run: StoredRun, showing: Showing): Partial<Run> }

const member = (columns: DetailColumn[], show: Member['show']): Member => ({ columns, show })
/** A member that is its column. */
const same = (name: DetailColumn & keyof Run): Member => member([name], run => ({ [name]: run[name] ?? null }))
const json = (name: DetailColumn & keyof Run): Member => member([name], run => ({ [name]: toJson(run[name]) }))
const payload = (name: 'inputs' | 'outputs' | 'events' | 'extra' | 'serialized'): Member =>
  member([name, 'objects'], run => ({ [name]: toJson(run[name]) }))
const tokens = (name: 'total_tokens' | 'prompt_tokens' | 'completion_tokens'): Member =>
  member([name], run => ({ [name]: Number(run[name] ?? 0) }))
const constant = (shown: Partial<Run>): Member => member([], () => shown)
const details = (name: keyof Run, of: keyof UsageDetails): Member =>
  member(['usage_details'], run => ({ [name]: readJson<UsageDetails>(run.usage_details)?.[of] ?? null }))
const costs = (name: keyof Run, of: keyof UsageDetails): Member =>
  member(['usage_details'], run => {
    const found = Object.entries(readJson<UsageDetails>(run.usage_details)?.[of] ?? {})
    return { [name]: found.length > 0 ? Object.fromEntries(found.map(([key, cost]) => [key, String(cost)])) : null }
  })
const storedPayload = (name: 'inputs' | 'outputs'): Member =>
  member(['objects'], (run, showing) => ({
    [`${name}_s3_urls`]: objectsOf(run)[name] ? { ROOT: urlEntry(run, showing, name, 'application/json') } : null,
  }))

/** Null, and the empty text of a member that is stored apart. */
const toJson = (text: string | null | undefined): unknown => (text ? rawJson(text) : null)
const readJson = <Value>(text: string | null | undefined): Value | undefined =>
  text ? (JSON.parse(text) as Value) : undefined
export const objectsOf = (run: StoredRun): StoredObjects => readJson<StoredObjects>(run.objects) ?? {}

const urlEntry = (run: StoredRun, showing: Showing, name: string, type: string | undefined) => ({
  presigned_url: showing.urlOf(run, name),
  s3_url: null,
  mime_type: type ?? null,
})

export const attachmentName = (name: string): string => `attachment.${name}`

function showAttachments(run: StoredRun, showing: Showing): Partial<Run> {
  const attachments = Object.entries(objectsOf(run).attachments ?? {})
  const entries = attachments.map(([name, { type }]) => [
    attachmentName(name),
    urlEntry(run, showing, attachmentName(name), type),
  ])
  return { s3_urls: entries.length > 0 ? Object.fromEntries(entries) : null }
}

const DAY_SECONDS = 86_400
const KEPT_DAYS = { shortlived: 14, longlived: 400 }

const showTtl = ({ trace_tier, longlived_ttl_days }: StoredRun): Partial<Run> => ({
  ttl_seconds:
    DAY_SECONDS *
    (trace_tier === 'shortlived' ? KEPT_DAYS.shortlived : Number(longlived_ttl_days ?? KEPT_DAYS.longlived)),
})

/** The runs above it, the root first. */
const ancestorsOf = ({ dotted_order }: StoredRun): string[] =>
  dotted_order
    .split('.')
    .slice(0, -1)
    .map(segment => segment.slice(-36))

/** The path of a run in the dashboard. */
export const appPath = ({ session_id, id, trace_id, start_time }: StoredRun, tenant: string): string => {
  const query = new URLSearchParams({ trace_id, ...(start_time && { start_time }) })
  return `/o/${tenant}/projects/p/${session_id}/r/${id}?${query}`
}

const ALWAYS = constant({})
const CHILDREN = member(['child_run_ids', 'direct_child_run_ids'], run => ({
  child_run_ids: toJson(run.child_run_ids) as string[],
  direct_child_run_ids: toJson(run.direct_child_run_ids) as string[],
}))
const ERROR = member(['error', 'objects'], run => ({ error: run.error ?? null }))
const [INPUTS, OUTPUTS] = [storedPayload('inputs'), storedPayload('outputs')]
const withUrls = (one: Member, urls: Member): Member =>
  member([...one.columns, ...urls.columns], (run, showing) => ({
    ...one.show(run, showing),
    ...urls.show(run, showing),
  }))

const MEMBERS: Record<Select, Member> = {
  id: ALWAYS,
  name: ALWAYS,
  run_type: ALWAYS,
  status: ALWAYS,
  trace_id: ALWAYS,
  dotted_order: ALWAYS,
  session_id: ALWAYS,
  app_path: ALWAYS,
  start_time: ALWAYS,
  end_time: same('end_time'),
  first_token_time: same('first_token_time'),
  error: ERROR,
  inputs: payload('inputs'),
  outputs: payload('outputs'),
  events: payload('events'),
  extra: payload('extra'),
  serialized: payload('serialized'),
  inputs_or_signed_url: withUrls(payload('inputs'), INPUTS),
  outputs_or_signed_url: withUrls(payload('outputs'), OUTPUTS),
  events_or_signed_url: payload('events'),
  extra_or_signed_url: payload('extra'),
  serialized_or_signed_url: payload('serialized'),
  error_or_signed_url: ERROR,
  inputs_preview: same('inputs_preview'),
  outputs_preview: same('outputs_preview'),
  inputs_s3_urls: INPUTS,
  outputs_s3_urls: OUTPUTS,
  s3_urls: member(['objects'], showAttachments),
  tags: json('tags'),
  parent_run_id: member([], run => ({ parent_run_id: run.parent_run_id })),
  parent_run_ids: member([], run => ({ parent_run_ids: ancestorsOf(run) })),
  child_run_ids: CHILDREN,
  direct_child_run_ids: CHILDREN,
  thread_id: same('thread_id'),
  reference_example_id: same('reference_example_id'),
  reference_dataset_id: same('reference_dataset_id'),
  total_tokens: tokens('total_tokens'),
  prompt_tokens: tokens('prompt_tokens'),
  completion_tokens: tokens('completion_tokens'),
  prompt_token_details: details('prompt_token_details', 'input_token_details'),
  completion_token_details: details('completion_token_details', 'output_token_details'),
  total_cost: same('total_cost'),
  prompt_cost: same('prompt_cost'),
  completion_cost: same('completion_cost'),
  prompt_cost_details: costs('prompt_cost_details', 'input_cost_details'),
  completion_cost_details: costs('completion_cost_details', 'output_cost_details'),
  feedback_stats: json('feedback_stats'),
  trace_min_max_start_time: member(['trace_min_start_time', 'trace_max_start_time'], run => ({
    trace_min_start_time: run.trace_min_start_time ?? null,
    trace_max_start_time: run.trace_max_start_time ?? null,
  })),
  trace_tier: member([], run => ({ trace_tier: run.trace_tier as Run['trace_tier'] })),
  trace_first_received_at: member(['received_at'], run => ({ trace_first_received_at: run.received_at ?? null })),
  trace_upgrade: member(['is_upgraded'], run => ({ trace_upgrade: run.is_upgraded === 'true' })),
  ttl_seconds: member(['longlived_ttl_days'], showTtl),
  share_token: same('share_token'),
  in_dataset: member(['in_dataset'], run => ({ in_dataset: run.in_dataset === 'true' })),
  last_queued_at: same('last_queued_at'),
  manifest: ALWAYS,
  manifest_id: constant({ manifest_id: null }),
  manifest_s3_id: constant({ manifest_s3_id: null }),
  price_model_id: constant({ price_model_id: null }),
  messages: constant({ messages: null }),
  inserted_at: ALWAYS,
}

/** Members that published clients get without a `select`. */
export const DEFAULT_SELECT = [
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
  'outputs',
  'parent_run_id',
  'manifest_id',
  'manifest_s3_id',
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
  'prompt_cost_details',
  'completion_cost',
  'completion_cost_details',
  'price_model_id',
  'first_token_time',
  'trace_id',
  'dotted_order',
  'last_queued_at',
  'feedback_stats',
  'parent_run_ids',
  'tags',
  'in_dataset',
  'app_path',
  'share_token',
  'trace_tier',
  'trace_first_received_at',
  'ttl_seconds',
  'trace_upgrade',
  'thread_id',
] as Select[]
export const FULL_SELECT = Object.keys(MEMBERS) as Select[]

export const columnsOf = (select: readonly Select[]): DetailColumn[] => [
  ...new Set(select.flatMap(name => MEMBERS[name].columns)),
]

export function showRun(run: StoredRun, select: readonly Select[], showing: Showing): Run {
  const shown: Partial<Run> = {
    id: run.id,
    name: run.name,
    run_type: run.run_type as Run['run_type'],
    status: run.status as Run['status'],
    trace_id: run.trace_id,
    dotted_order: run.dotted_order,
    session_id: run.session_id,
    app_path: appPath(run, showing.tenant),
    start_time: run.start_time,
    execution_order: 1,
  }
  for (const name of select) Object.assign(shown, MEMBERS[name].show(run, showing))
  return shown as Run
}
