// An agent that ends gives its lease back. Like the lease itself, that is nobody's change and not journaled.
import { verb } from '../kernel/context.ts'
import { run } from '../kernel/db.ts'
import { found } from '../kernel/rows.ts'
import { released } from './lease.ts'
import type { Release } from './poll.schema.ts'

export const release = verb('listeners:sync', async (ctx, input: Release): Promise<void> => {
  found(await run(ctx, released(input)), 'listener_not_found')
})
