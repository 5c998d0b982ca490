// Waits for a revision: short trips in between, and no connection held.
import { and, eq } from 'drizzle-orm'
import type * as z from 'zod'
import { pause, uncounted, verb } from '../kernel/context.ts'
import { db, mine, run } from '../kernel/db.ts'
import { found } from '../kernel/rows.ts'
import { deployments, revisions } from '../tables.ts'
import { terminalStates } from './lifecycle.ts'
import type { WaitQuery } from './revisions.schema.ts'
import { type RevisionRow, revisionToWire } from './rows.ts'
import type { RevisionRef } from './schema.ts'

/** Slowly growing: whoever waited learns of it hardly later than it took. */
const [SHORTEST_MS, LONGEST_MS, GROWTH] = [250, 3000, 1.3]

export const waitForRevision = verb(
  'deployments:read',
  async (ctx, input: z.output<typeof RevisionRef> & z.output<typeof WaitQuery>) => {
    const { deployment_id, revision_id, until, timeout } = input
    const query = db
      .select()
      .from(revisions)
      .innerJoin(deployments, and(eq(deployments.id, revisions.deployment_id), mine(deployments)))
      .where(and(eq(revisions.id, revision_id), eq(revisions.deployment_id, deployment_id), mine(revisions)))
    const end = Date.now() + timeout * 1000
    for (let asks = ctx, ms = SHORTEST_MS; ; asks = uncounted(ctx), ms = Math.min(ms * GROWTH, LONGEST_MS)) {
      const { revisions: row, deployments: of } = found(await run(asks, query), 'revision_not_found')
      const ended = terminalStates.includes(row.status as (typeof terminalStates)[number])
      const left = end - Date.now()
      if (ended || (until === 'active' && of.active_revision_id === row.id) || left <= 0)
        return revisionToWire(row as RevisionRow)
      if (!(await pause(ctx, Math.min(ms, left)))) return revisionToWire(row as RevisionRow)
    }
  },
)
