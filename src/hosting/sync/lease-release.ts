// Releases the lease of an agent that ends. Not journaled, like the lease itself.

import { run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import type { Release } from '../../protocol/poll.schema.ts'
import { clearLease } from './lease.ts'

export const releaseLease = verb('listeners:sync', async (ctx, input: Release): Promise<void> => {
  requireRow(await run(ctx, clearLease(input)), 'listener_not_found')
})
