// The summary prompts of runs, with what the runs hold filled in.
import type { Ctx } from '../kernel/context.ts'
import { RUN_FIELDS } from '../traces/filter/fields.ts'
import { readFilters } from '../traces/filter/resolve.ts'
import { fillPayloads } from '../traces/object-links.ts'
import type { StoredRun } from '../traces/run-query.ts'
import type { ClaimedJob } from './claimed-job.ts'
import { DEFAULT_SUMMARY_PROMPT, fillTemplate, listVariables } from './summary-template.ts'

const PAYLOAD_BYTES = 16 * 1024 * 1024
/** Of a value in a prompt. */
const MAX_VALUE = 32_000
const MAX_THREAD_RUNS = 500
const MAX_DEPTH = 32

/** `json` as models read it, `words` without the names of members, to count the words. */
export type ValueFormat = 'json' | 'words'
type Message = Record<string, unknown>

/** By the ids of the runs. Runs that were deleted meanwhile are missing. */
export async function renderPrompts(
  ctx: Ctx,
  job: ClaimedJob,
  ids: string[],
  format: ValueFormat,
): Promise<Map<string, string>> {
  const template = job.request.summary_prompt?.trim() || DEFAULT_SUMMARY_PROMPT
  const columns = ['inputs', 'outputs', 'objects', 'error', 'thread_id', 'feedback_stats'] as const
  const { runs } = await ctx.traces.query(ctx, { ids, order: 'desc', limit: ids.length, columns })
  await fillPayloads(ctx, runs, PAYLOAD_BYTES)
  const hasThreads = listVariables(template).includes('all_thread_messages')
  const threads = hasThreads ? await readThreads(ctx, job, runs) : new Map<string, Message[]>()
  return new Map(
    runs.map(run => [run.id, fillTemplate(template, name => show(readVariable(name, run, threads), format))]),
  )
}

function readVariable(name: string, run: StoredRun, threads: Map<string, Message[]>): unknown {
  if (name === 'all_thread_messages') return threads.get(run.thread_id ?? '') ?? messagesOf(run)
  const [, member, ...path] = name.split('.')
  if (member === 'error') return run.error ?? ''
  if (member === 'feedback') return readFeedback(run, path.join('.'))
  return path.reduce<unknown>(
    (value, step) => (isObject(value) || Array.isArray(value) ? (value as Message)[step] : undefined),
    parse(member === 'inputs' ? run.inputs : run.outputs),
  )
}

/** Of a key, the average score, or else the values. */
function readFeedback({ feedback_stats }: StoredRun, key: string): unknown {
  const stats = parse(feedback_stats) as Record<string, { avg: number | null; values?: unknown }> | undefined
  const shown = Object.entries(stats ?? {}).map(([name, { avg, values }]) => [name, avg ?? values ?? null] as const)
  return key ? new Map(shown).get(key) : Object.fromEntries(shown)
}

/** The messages of whole conversations by their threads. */
async function readThreads(ctx: Ctx, job: ClaimedJob, runs: StoredRun[]): Promise<Map<string, Message[]>> {
  const threads = [...new Set(runs.flatMap(({ thread_id }) => thread_id ?? []))]
  if (threads.length === 0) return new Map()
  const isOneOf = threads.map(thread => `eq(thread_id, ${JSON.stringify(thread)})`)
  const filter = isOneOf.length === 1 ? isOneOf[0] : `or(${isOneOf.join(', ')})`
  const page = await ctx.traces.query(ctx, {
    sessions: [job.session_id],
    is_root: true,
    filter: readFilters({ filter }, RUN_FIELDS).filter,
    order: 'asc',
    limit: MAX_THREAD_RUNS,
    columns: ['inputs', 'outputs', 'objects', 'thread_id'],
  })
  await fillPayloads(ctx, page.runs, PAYLOAD_BYTES)
  const messages = new Map<string, Message[]>()
  for (const run of page.runs) {
    const thread = run.thread_id!
    messages.set(thread, joinMessages(messages.get(thread) ?? [], messagesOf(run)))
  }
  return messages
}

/** Applications often send the conversation so far with each message. */
function joinMessages(earlier: Message[], later: Message[]): Message[] {
  const repeats = earlier.every((message, i) => JSON.stringify(message) === JSON.stringify(later[i]))
  return repeats ? later : [...earlier, ...later]
}

function messagesOf({ inputs, outputs }: StoredRun): Message[] {
  const read = (json: string | null | undefined, role: string): Message[] => {
    const value = parse(json)
    const messages = isObject(value) && Array.isArray(value.messages) ? value.messages.flat() : undefined
    return messages ?? (value === undefined ? [] : [{ role, content: value }])
  }
  return joinMessages(read(inputs, 'user'), read(outputs, 'assistant'))
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Undefined for nothing, and for what lies apart and could not be read. */
const parse = (json: string | null | undefined): unknown => (json ? JSON.parse(json) : undefined)

function show(value: unknown, format: ValueFormat): string {
  if (value === undefined || value === null) return ''
  if (format === 'words') return collectTexts(value).join(' ').slice(0, MAX_VALUE)
  return (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, MAX_VALUE)
}

function collectTexts(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return []
  return Object.values(value).flatMap(inner => collectTexts(inner, depth + 1))
}
