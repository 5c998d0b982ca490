// Deletes traces of a project.
import type * as z from 'zod'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import type { DeletedTraces, TraceDeletion } from '../shares/shares.schema.ts'
import type { RunCursor } from '../store/queries.ts'
import type { ResolvedFilter } from './filter/resolve.ts'

type Deletion = z.output<typeof TraceDeletion>

export const deleteTraces = verb(
  'runs:delete',
  async (ctx, { session_id, trace_ids, metadata }: Deletion): Promise<z.output<typeof DeletedTraces>> => {
    const found = metadata ? await findByMetadata(ctx, session_id, metadata) : { ids: trace_ids!, has_more: false }
    const deleted = found.ids.length > 0 ? await ctx.traces.remove(ctx, found.ids, session_id) : []
    return { trace_ids: deleted, has_more: found.has_more }
  },
  { byPolicy: true },
)

const MAX_TRACES = 1000
const MAX_PAGES = 20

/** Traces of which a run has the metadata, up to a number of traces and of pages. */
async function findByMetadata(ctx: Ctx, project: string, metadata: NonNullable<Deletion['metadata']>) {
  const filter = hasMetadata(metadata)
  const ids = new Set<string>()
  let cursor: RunCursor | null | undefined
  for (let pages = 0; pages < MAX_PAGES && ids.size < MAX_TRACES && cursor !== null; pages++) {
    const limit = MAX_TRACES - ids.size
    const page = await ctx.traces.query(ctx, { projects: [project], filter, order: 'desc', limit, cursor, columns: [] })
    for (const { trace_id } of page.runs) ids.add(trace_id)
    cursor = page.next
  }
  return { ids: [...ids], has_more: cursor !== null }
}

const hasMetadata = (metadata: NonNullable<Deletion['metadata']>): ResolvedFilter => ({
  operator: 'and',
  parts: Object.entries(metadata).map(
    ([name, values]): ResolvedFilter => ({
      operator: 'some',
      family: 'metadata',
      conditions: [
        { operator: 'eq', field: 'metadata_key', type: 'text', values: [name] },
        { operator: 'in', field: 'metadata_value', type: 'member', values: [values].flat() },
      ],
    }),
  ),
})
