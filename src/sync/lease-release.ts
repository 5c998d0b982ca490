// Releases the lease of an agent that ends. Not journaled, like the lease itself.
import { verb } from '../kernel/context.ts'
import { run } from '../kernel/db.ts'
import { requireRow } from '../kernel/rows.ts'
import type { Release } from '../protocol/poll.schema.ts'
import { clearLease } from './lease.ts'

export const releaseLease = verb('listeners:sync', async (ctx, input: Release): Promise<void> => {
  requireRow(await run(ctx, clearLease(input)), 'listener_not_found')
})
