// Reads runs and traces for the second version of the API.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { RunQuery, RunPage as StoredPage, StoredRun } from '../store/queries.ts'
import { allOf } from './client-selection.ts'
import { RUN_FIELDS } from './filter/fields.ts'
import { type ResolvedFilter, readFilters } from './filter/resolve.ts'
import { PAGE_PAYLOAD_BYTES, RUN_PAYLOAD_BYTES } from './object-links.ts'
import { appPath } from './run-wire.ts'
import { columnsOfV2, readSelects, selectOf, showRunV2 } from './run-wire-v2.ts'
import { type RunRef, writeCursor } from './runs.schema.ts'
import { aroundTime, showRuns } from './runs.ts'
import type * as schema from './runs-v2.schema.ts'

const DAY_MS = 86_400_000
export const dayAgo = ({ platform }: Ctx): string => new Date(platform.clock.now() - DAY_MS).toISOString()

export async function readPage(ctx: Ctx, query: RunQuery): Promise<StoredPage> {
  const page = await ctx.traces.query(ctx, query)
  if (!page.hasAllProjects) throw fail('project_not_found')
  return page
}

export async function showRunsV2(
  ctx: Ctx,
  stored: StoredRun[],
  selects: readonly schema.SelectV2[],
  maxPayloadBytes = PAGE_PAYLOAD_BYTES,
): Promise<schema.RunV2[]> {
  const runs = await showRuns(ctx, stored, selectOf(selects), maxPayloadBytes)
  return runs.map((shown, i) => showRunV2(selects, { run: shown, stored: stored[i]!, origin: ctx.origin }))
}

export const toPage = <Item>(items: Item[], { next }: StoredPage): schema.Page<Item> => ({
  items,
  next_cursor: next && writeCursor(next),
  has_more: next !== null,
})

/** Experiments are few, and are looked up before their runs. */
async function listExperiments(ctx: Ctx, dataset: string): Promise<string[]> {
  const experiments = sql<Row>`
    select p.id
    from projects p
    where p.tenant_id = current_tenant() and p.reference_dataset_id = ${dataset}::uuid
    order by p.start_time desc, p.id
    limit 100`
  return (await run(ctx, experiments)).map(([id]) => id as string)
}

const isOneOf = (values: string[]): ResolvedFilter => ({ operator: 'in', field: 'id', type: 'uuid', values })
export const queryRunsV2 = verb(
  'runs:read',
  async (ctx, body: schema.RunQueryV2): Promise<schema.Page<schema.RunV2>> => {
    const { project_ids, reference_dataset_id, ids, trace_id, run_type, min_start_time, sort_order } = body
    const texts = { filter: body.filter, trace_filter: body.trace_filter, tree_filter: body.tree_filter }
    const { filter, ...filters } = readFilters(texts, RUN_FIELDS)
    const selects = readSelects(body.selects)
    const isLookup = ids || trace_id || body.reference_examples || reference_dataset_id
    const page = await readPage(ctx, {
      ...filters,
      filter: allOf([filter, ids ? isOneOf(ids) : undefined]),
      projects: project_ids ?? (await listExperiments(ctx, reference_dataset_id!)),
      trace: trace_id ?? undefined,
      reference_examples: body.reference_examples ?? undefined,
      run_type: run_type?.toLowerCase(),
      has_error: body.has_error ?? undefined,
      is_root: body.is_root ?? undefined,
      start_time: min_start_time ?? (isLookup ? undefined : dayAgo(ctx)),
      end_time: body.max_start_time ?? undefined,
      order: sort_order === 'ASC' ? 'asc' : 'desc',
      limit: body.page_size,
      cursor: body.cursor ?? undefined,
      columns: columnsOfV2(selects),
    })
    return toPage(await showRunsV2(ctx, page.runs, selects), page)
  },
  { byPolicy: true },
)

export const queryTraces = verb(
  'runs:read',
  async (ctx, body: schema.TraceQueryV2): Promise<schema.TracePageV2> => {
    const { trace_ids } = body
    const texts = { trace_filter: body.trace_filter, tree_filter: body.tree_filter }
    const { trace_filter, tree_filter } = readFilters(texts, RUN_FIELDS)
    const selects = readSelects(body.selects)
    const page = await readPage(ctx, {
      projects: [body.project_id],
      is_root: true,
      filter: allOf([trace_filter, trace_ids ? isOneOf(trace_ids) : undefined]),
      tree_filter,
      start_time: body.min_start_time ?? (trace_ids ? undefined : dayAgo(ctx)),
      end_time: body.max_start_time ?? undefined,
      order: 'desc',
      limit: body.page_size,
      cursor: body.cursor ?? undefined,
      columns: [...new Set([...columnsOfV2(selects), ...AGGREGATES])],
    })
    const roots = await showRunsV2(ctx, page.runs, selects)
    const traces = roots.map((root_run, i) => {
      const { total_tokens, total_cost, first_token_time } = page.runs[i]!
      return {
        root_run: root_run as Record<string, unknown>,
        trace_aggregates: {
          total_tokens: Number(total_tokens ?? 0),
          total_cost: total_cost == null ? null : Number(total_cost),
          first_token_time: first_token_time ?? null,
        },
        query_metadata: null,
      }
    })
    return toPage(traces, page)
  },
  { byPolicy: true },
)
const AGGREGATES = ['total_tokens', 'total_cost', 'first_token_time'] as const

export const readRunV2 = verb(
  'runs:read',
  async (
    ctx,
    { run_id, project_id, start_time, ...input }: z.output<typeof RunRef> & z.output<typeof schema.RunReadQueryV2>,
  ): Promise<schema.RunV2> => {
    const selects = readSelects(input.selects)
    const { runs } = await ctx.traces.query(ctx, {
      ids: [run_id],
      projects: [project_id],
      ...(start_time && aroundTime(start_time)),
      order: 'desc',
      limit: 1,
      columns: columnsOfV2(selects),
    })
    const found = requireRow(runs, 'run_not_found')
    return (await showRunsV2(ctx, [found], selects, RUN_PAYLOAD_BYTES))[0]!
  },
)

const MAX_TRACE_RUNS = 1000

export const listTraceRuns = verb(
  'runs:read',
  async (
    ctx,
    { trace_id, ...query }: z.output<typeof schema.TraceRef> & z.output<typeof schema.TraceRunsQuery>,
  ): Promise<{ items: schema.RunV2[] }> => {
    const selects = readSelects(query.selects)
    const { runs } = await readPage(ctx, {
      projects: [query.project_id],
      trace: trace_id,
      filter: readFilters({ filter: query.filter }, RUN_FIELDS, 'query').filter,
      start_time: query.min_start_time,
      end_time: query.max_start_time,
      order: 'asc',
      limit: MAX_TRACE_RUNS,
      columns: columnsOfV2(selects),
    })
    return { items: await showRunsV2(ctx, runs, selects) }
  },
  { byPolicy: true },
)

export const readRunUrl = verb(
  'runs:read',
  async (
    ctx,
    { run_id, project_id, trace_id }: z.output<typeof RunRef> & z.output<typeof schema.RunUrlQuery>,
  ): Promise<{ url: string }> => {
    const { runs } = await ctx.traces.query(ctx, {
      ids: [run_id],
      projects: [project_id],
      order: 'desc',
      limit: 1,
      columns: [],
    })
    const found = requireRow(runs, 'run_not_found')
    if (found.trace_id !== trace_id) throw fail('run_not_found')
    return { url: `${ctx.origin}${appPath(found, ctx.requestInfo.tenant!)}` }
  },
)
