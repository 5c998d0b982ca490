// Reads runs for published clients: pages, and single ones.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { StoredRun, RunPage as StoredRunPage } from '../store/queries.ts'
import { searchFilter, toSelection } from './client-selection.ts'
import { RUN_FIELDS } from './filter/fields.ts'
import { resolveFilters } from './filter/resolve.ts'
import { fillPayloads, PAGE_PAYLOAD_BYTES, RUN_PAYLOAD_BYTES, signObjects } from './object-links.ts'
import { columnsOf, DEFAULT_SELECT, FULL_SELECT, type Select, showRun } from './run-wire.ts'
import type * as schema from './runs.schema.ts'
import { writeCursor } from './runs.schema.ts'

export const queryRuns = verb(
  'runs:read',
  async (ctx, body: schema.RunQueryBody): Promise<schema.RunPage> => {
    const select = body.select ?? DEFAULT_SELECT
    const { limit, order, cursor } = body
    const page = await readRunPage(ctx, { ...toSelection(body), limit, order, cursor: cursor ?? undefined, select })
    const previous = body.skip_prev_cursor ? null : page.previous
    return {
      runs: await showRuns(ctx, page.runs, select, PAGE_PAYLOAD_BYTES),
      cursors: { next: page.next && writeCursor(page.next), prev: previous && writeCursor(previous) },
      parsed_query: body.query?.trim() ? searchFilter(body.query) : null,
    }
  },
  { byPolicy: true },
)

type PageRequest = Omit<Parameters<Ctx['traces']['query']>[1], 'columns'> & { select: readonly Select[] }

async function readRunPage(ctx: Ctx, { select, ...request }: PageRequest): Promise<StoredRunPage> {
  const page = await ctx.traces.query(ctx, { ...request, columns: columnsOf(select) })
  if (!page.hasAllProjects) throw fail('project_not_found')
  return page
}

export async function showRuns(
  ctx: Ctx,
  runs: StoredRun[],
  select: readonly Select[],
  maxPayloadBytes: number,
): Promise<schema.Run[]> {
  const [urlOf] = await Promise.all([signObjects(ctx, runs), fillPayloads(ctx, runs, maxPayloadBytes)])
  const showing = { tenant: ctx.requestInfo.tenant!, urlOf }
  return runs.map(run => showRun(run, select, showing))
}

/** Clients send a time in milliseconds. The database has microseconds. */
export const aroundTime = (time: string) => {
  const at = (ms: number) => new Date(Date.parse(time) + ms).toISOString()
  return { start_time: at(-1000), end_time: at(1000) }
}

export const readRun = verb(
  'runs:read',
  async (ctx, input: z.output<typeof schema.RunRef> & z.output<typeof schema.RunReadQuery>): Promise<schema.Run> => {
    const { run_id, session_id, start_time, exclude_serialized, exclude_s3_stored_attributes } = input
    const select = FULL_SELECT.filter(name => !(exclude_serialized && name.startsWith('serialized')))
    const { runs } = await ctx.traces.query(ctx, {
      ids: [run_id],
      ...(session_id && { projects: [session_id] }),
      ...(start_time && aroundTime(start_time)),
      order: 'desc',
      limit: 1,
      columns: columnsOf(select),
    })
    const found = requireRow(runs, 'run_not_found')
    const [shown] = await showRuns(ctx, [found], select, exclude_s3_stored_attributes ? 0 : RUN_PAYLOAD_BYTES)
    return shown!
  },
)

/** The first fault of each filter. */
export const validateFilters = verb(
  'runs:read',
  async (ctx, { filter, trace_filter, tree_filter, search_filter }: schema.FilterCheckBody) => {
    await run(ctx, sql<Row>`select true`)
    const { faults } = resolveFilters({ filter, trace_filter, tree_filter, search_filter }, RUN_FIELDS)
    const errors = faults.map(({ name, fault }) => ({
      field: name,
      message: fault.message,
      position: fault.position,
    }))
    return { valid: errors.length === 0, errors } satisfies schema.FilterErrors
  },
  { byPolicy: true },
)
