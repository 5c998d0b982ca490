// Takes runs: single ones, batches, and multipart bodies. They are data, so the journal has no event of them.
import type * as z from 'zod'
import { type Ctx, isConfined, verb } from '../../kernel/http/context.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import type { Accepted, RunRef } from './ingestion.schema.ts'
import type { ReadRuns } from './read-operation.ts'

type WithBody = { raw: RawBody }

export const createRun = verb(
  'runs:create',
  async (ctx, { raw }: WithBody) => store(ctx, (await import('./json-bodies.ts')).readRunBody(raw, 'post')),
  { byPolicy: true },
)

export const patchRun = verb(
  'runs:create',
  async (ctx, { raw, run_id }: WithBody & z.output<typeof RunRef>) =>
    store(ctx, (await import('./json-bodies.ts')).readRunBody(raw, 'patch', run_id)),
  { byPolicy: true },
)

export const createRuns = verb(
  'runs:create',
  async (ctx, { raw }: WithBody) => store(ctx, (await import('./json-bodies.ts')).readBatchBody(raw)),
  { byPolicy: true },
)

export const createRunsFromParts = verb(
  'runs:create',
  async (ctx, { raw }: WithBody) => store(ctx, (await import('./multipart-body.ts')).readMultipartBody(raw)),
  { byPolicy: true },
)

/** Refuses the whole request for one fault, with those that the store would find. */
async function store(ctx: Ctx, { operations, feedback = [], faults }: ReadRuns): Promise<Accepted> {
  if (faults.length > 0) {
    const { mergeOperations } = await import('./merged-operations.ts')
    throw invalidRequest([...faults, ...mergeOperations(operations, isConfined(ctx)).faults])
  }
  await ctx.traces.append(ctx, operations, feedback)
  return { operations: operations.length, feedback: feedback.length }
}
