// Waits for a revision by polling the database: no connection is kept open.
import { and, eq } from 'drizzle-orm'
import type * as z from 'zod'
import { pauseWhileConnected, verb, withoutRateLimit } from '../kernel/context.ts'
import { db, inTenant, run } from '../kernel/db.ts'
import { requireRow } from '../kernel/rows.ts'
import { deployments, revisions } from '../tables/deployments.ts'
import { terminalStates } from './lifecycle.ts'
import type { WaitQuery } from './revisions.schema.ts'
import { type RevisionRow, revisionToWire } from './rows.ts'
import type { RevisionRef } from './schema.ts'

/** The delay grows slowly, so that the answer comes soon after the end, however long that takes. */
const [MIN_DELAY_MS, MAX_DELAY_MS, DELAY_GROWTH] = [250, 3000, 1.3]

export const waitForRevision = verb(
  'deployments:read',
  async (ctx, input: z.output<typeof RevisionRef> & z.output<typeof WaitQuery>) => {
    const { deployment_id, revision_id, until, timeout } = input
    const query = db
      .select()
      .from(revisions)
      .innerJoin(deployments, and(eq(deployments.id, revisions.deployment_id), inTenant(deployments)))
      .where(and(eq(revisions.id, revision_id), eq(revisions.deployment_id, deployment_id), inTenant(revisions)))
    const end = Date.now() + timeout * 1000
    for (
      let queryCtx = ctx, delay = MIN_DELAY_MS;
      ;
      queryCtx = withoutRateLimit(ctx), delay = Math.min(delay * DELAY_GROWTH, MAX_DELAY_MS)
    ) {
      const { revisions: row, deployments: deployment } = requireRow(await run(queryCtx, query), 'revision_not_found')
      const ended = terminalStates.includes(row.status as (typeof terminalStates)[number])
      const left = end - Date.now()
      if (ended || (until === 'active' && deployment.active_revision_id === row.id) || left <= 0)
        return revisionToWire(row as RevisionRow)
      if (!(await pauseWhileConnected(ctx, Math.min(delay, left)))) return revisionToWire(row as RevisionRow)
    }
  },
)
