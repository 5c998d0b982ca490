// Schemas that several routes share. Null counts as left out: the SDK of Python sends it.
import * as z from 'zod'

export const object = z.record(z.string(), z.unknown())
export const threadParams = z.object({ thread_id: z.uuid() })
export const runParams = z.object({ run_id: z.uuid() })
export const threadRunParams = z.object({ thread_id: z.uuid(), run_id: z.uuid() })
export const assistantParams = z.object({ assistant_id: z.string() })

export const flag = z
  .enum(['true', 'false', '1', '0', 'True', 'False'])
  .transform(text => text === '1' || text.toLowerCase() === 'true')
  .optional()
export const words = z
  .union([z.string(), z.array(z.string())])
  .transform(given => [given].flat())
  .optional()

/** Members of the SDKs that this server does not obey: refused, where ignoring them would give another answer. */
export const unsupported = z.null({ error: 'is not supported' }).optional()

const LARGEST_PAGE = 1000
const limit = z.number().int().min(1).max(LARGEST_PAGE)
const offset = z.number().int().min(0).max(2_147_483_647)
export const page = {
  limit: limit.nullish().transform(value => value ?? 10),
  offset: offset.nullish().transform(value => value ?? 0),
}
export const queryPage = {
  limit: z.coerce
    .number()
    .pipe(limit)
    .optional()
    .transform(value => value ?? 10),
  offset: z.coerce
    .number()
    .pipe(offset)
    .optional()
    .transform(value => value ?? 0),
}
export const sorted = <Names extends [string, ...string[]]>(...names: Names) => ({
  sort_by: z
    .enum(names)
    .nullish()
    .transform(value => value ?? 'created_at'),
  sort_order: z
    .enum(['asc', 'desc'])
    .nullish()
    .transform(value => value ?? 'desc'),
  select: z.array(z.string()).nullish(),
})

export const config = z.looseObject({
  tags: z.array(z.string()).nullish(),
  recursion_limit: z.number().int().min(1).nullish(),
  configurable: object.nullish(),
  metadata: object.nullish(),
})

export const checkpoint = z.looseObject({
  thread_id: z.string().nullish(),
  checkpoint_id: z.string().nullish(),
  checkpoint_ns: z.string().nullish(),
  checkpoint_map: object.nullish(),
})

const target = z.union([z.string(), z.looseObject({ node: z.string(), input: z.unknown().optional() })])
export const command = z.looseObject({
  goto: z.union([target, z.array(target)]).nullish(),
  update: z.union([object, z.array(z.tuple([z.string(), z.unknown()]))]).nullish(),
  resume: z.unknown().optional(),
})

const STREAM_MODES = [
  'values',
  'messages',
  'messages-tuple',
  'updates',
  'events',
  'tasks',
  'checkpoints',
  'debug',
  'custom',
  'tools',
] as const
const mode = z.enum(STREAM_MODES)
const nodes = z.union([z.literal('*'), z.array(z.string())])

/** A year: a later start is more likely a mistake of units. */
const LONGEST_DELAY_SECONDS = 31_536_000

export const runRequest = z.looseObject({
  assistant_id: z.string().describe('The id of an assistant, or the name of a graph.'),
  input: z.unknown().optional(),
  command: command.nullish(),
  config: config.nullish(),
  context: z.unknown().optional(),
  metadata: object.nullish(),
  checkpoint: checkpoint.nullish(),
  checkpoint_id: z.string().nullish(),
  stream_mode: z.union([mode, z.array(mode)]).nullish(),
  stream_subgraphs: z.boolean().nullish(),
  stream_resumable: z.boolean().nullish(),
  interrupt_before: nodes.nullish(),
  interrupt_after: nodes.nullish(),
  durability: z.enum(['sync', 'async', 'exit']).nullish(),
  checkpoint_during: z.boolean().nullish(),
  webhook: z.string().max(65_536).nullish(),
  feedback_keys: z.array(z.string()).nullish(),
  multitask_strategy: z.enum(['reject', 'rollback', 'interrupt', 'enqueue']).nullish(),
  after_seconds: z.number().min(0).max(LONGEST_DELAY_SECONDS).nullish(),
  if_not_exists: z.enum(['create', 'reject']).nullish(),
  on_completion: z.enum(['delete', 'keep']).nullish(),
  on_disconnect: z.enum(['cancel', 'continue']).nullish(),
  strict_resume: z.literal(false, { error: 'true is not supported' }).nullish(),
  langsmith_tracer: z.looseObject({ project_name: z.string().optional(), example_id: z.string().optional() }).nullish(),
})
export type RunBody = z.output<typeof runRequest>

/** Rows reduced to the members that a search selects. */
export const selectMembers = <Item extends Record<string, unknown>>(
  rows: Item[],
  select: string[] | null | undefined,
) =>
  select ? rows.map(row => Object.fromEntries(Object.entries(row).filter(([name]) => select.includes(name)))) : rows

/** A page of a search: the place of the next one in headers, as the SDKs read it. */
export function pageOf(rows: unknown[], { limit, offset }: { limit: number; offset: number }): Response {
  const next = offset + rows.length
  const headers: Record<string, string> = { 'Content-Type': 'application/json' }
  headers['X-Pagination-Total'] = `${rows.length === limit ? next + 1 : next}`
  if (rows.length === limit) headers['X-Pagination-Next'] = `${next}`
  return new Response(JSON.stringify(rows), { headers })
}
