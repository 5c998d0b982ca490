// Runs as the second version of the API shows them: the selected members of the first version, and some others.
import { rawJson } from '../../kernel/json/raw-json.ts'
import type { DetailColumn, StoredRun } from '../store/queries.ts'
import { attachmentName, columnsOf, type Select } from './run-wire.ts'
import type { Run } from './runs.schema.ts'
import { type RunV2, SAME_MEMBERS, type SelectV2 } from './runs-v2.schema.ts'

type Shown = { run: Run; stored: StoredRun; origin: string }
type Member = {
  /** The members of the first version that are shown, or read for it. */
  select?: Select[]
  columns?: DetailColumn[]
  show(shown: Shown): RunV2
}

const lower = <Name extends string>(name: Name) => name.toLowerCase() as Lowercase<Name>
const same = (name: (typeof SAME_MEMBERS)[number]): Member => ({
  select: [lower(name)],
  show: ({ run }) => ({ [lower(name)]: run[lower(name)] ?? null }),
})
type Cost = 'total_cost' | 'prompt_cost' | 'completion_cost'
const toNumber = (text: string | null | undefined): number | null => (text == null ? null : Number(text))
const cost = (name: Cost): Member => ({ select: [name], show: ({ run }) => ({ [name]: toNumber(run[name]) }) })
type Details = `${'prompt' | 'completion'}_${'token' | 'cost'}_details`
const details = (name: Details): Member => ({
  select: [name],
  show: ({ run }) => {
    const entries = Object.entries(run[name] ?? {}).map(([key, value]) => [key, Number(value)])
    return { [name]: run[name] && { raw: Object.fromEntries(entries) } }
  },
})

const ERROR_PREVIEW_LENGTH = 200

function showAttachments({ run }: Shown): RunV2 {
  const start = attachmentName('').length
  const urls = Object.entries(run.s3_urls ?? {}).map(([name, { presigned_url }]) => [name.slice(start), presigned_url])
  return { attachments: Object.fromEntries(urls) }
}

export const latencyOf = (start: string | null | undefined, end: string | null | undefined): number | null =>
  start && end ? Math.round(toMicroseconds(end) - toMicroseconds(start)) / 1e6 : null
/** `Date.parse` reads milliseconds only. */
const toMicroseconds = (time: string): number => Date.parse(`${time.slice(0, 19)}Z`) * 1000 + Number(time.slice(20, 26))

const MEMBERS: Record<SelectV2, Member> = {
  ...(Object.fromEntries(SAME_MEMBERS.map(name => [name, same(name)])) as Record<
    (typeof SAME_MEMBERS)[number],
    Member
  >),
  RUN_TYPE: { show: ({ run }) => ({ run_type: run.run_type.toUpperCase() }) },
  STATUS: { show: ({ run }) => ({ status: run.status.toUpperCase() }) },
  PROJECT_ID: { show: ({ run }) => ({ project_id: run.session_id }) },
  IS_ROOT: { show: ({ run }) => ({ is_root: run.id === run.trace_id }) },
  LATENCY_SECONDS: {
    select: ['end_time'],
    show: ({ run }) => ({ latency_seconds: latencyOf(run.start_time, run.end_time) }),
  },
  ERROR_PREVIEW: {
    columns: ['error'],
    show: ({ stored }) => ({ error_preview: stored.error?.slice(0, ERROR_PREVIEW_LENGTH).toWellFormed() ?? null }),
  },
  METADATA: {
    columns: ['metadata'],
    show: ({ stored }) => ({ metadata: stored.metadata ? rawJson(stored.metadata) : {} }),
  },
  MANIFEST: { select: ['serialized'], show: ({ run }) => ({ manifest: run.serialized }) },
  TOTAL_COST: cost('total_cost'),
  PROMPT_COST: cost('prompt_cost'),
  COMPLETION_COST: cost('completion_cost'),
  PROMPT_TOKEN_DETAILS: details('prompt_token_details'),
  COMPLETION_TOKEN_DETAILS: details('completion_token_details'),
  PROMPT_COST_DETAILS: details('prompt_cost_details'),
  COMPLETION_COST_DETAILS: details('completion_cost_details'),
  ATTACHMENTS: { select: ['s3_urls'], show: showAttachments },
  THREAD_EVALUATION_TIME: { show: () => ({ thread_evaluation_time: null }) },
  IS_IN_DATASET: { select: ['in_dataset'], show: ({ run }) => ({ is_in_dataset: run.in_dataset ?? false }) },
  SHARE_URL: {
    select: ['share_token'],
    show: ({ run, origin }) => ({ share_url: run.share_token ? `${origin}/public/${run.share_token}/r` : null }),
  },
  LS_USER_ID: { show: () => ({ ls_user_id: null }) },
}

const DEFAULT_SELECT: SelectV2[] = ['ID']
export const readSelects = (selects: readonly SelectV2[] | null | undefined): readonly SelectV2[] =>
  selects && selects.length > 0 ? selects : DEFAULT_SELECT

/** Lists the members of the first version that have to be shown. */
export const selectOf = (selects: readonly SelectV2[]): Select[] => [
  ...new Set(selects.flatMap(name => MEMBERS[name].select ?? [])),
]
export const columnsOfV2 = (selects: readonly SelectV2[]): DetailColumn[] => [
  ...new Set([...columnsOf(selectOf(selects)), ...selects.flatMap(name => MEMBERS[name].columns ?? [])]),
]

export function showRunV2(selects: readonly SelectV2[], shown: Shown): RunV2 {
  const members: RunV2 = {}
  for (const name of selects) Object.assign(members, MEMBERS[name].show(shown))
  return members
}
