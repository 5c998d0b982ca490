// Deletes traces of a project.
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import type { TraceDeletion } from './shares.schema.ts'

export const deleteTraces = verb(
  'runs:delete',
  async (ctx, { session_id, trace_ids }: z.output<typeof TraceDeletion>): Promise<{ trace_ids: string[] }> => ({
    trace_ids: await ctx.traces.remove(ctx, trace_ids, session_id),
  }),
  { byPolicy: true },
)
