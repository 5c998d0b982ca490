// Waits for a revision by polling the database: no connection is kept open, and a poll that fails is repeated.
import { and, eq } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { pauseWhileConnected, verb } from '../../kernel/http/context.ts'
import { isDatabaseUnavailable } from '../../kernel/http/errors.ts'
import { terminalStates } from './lifecycle.ts'
import type { WaitQuery } from './revisions.schema.ts'
import { isRevision } from './revisions.ts'
import { type RevisionRow, revisionToWire } from './rows.ts'
import type { RevisionRef } from './schema.ts'
import { deployments, revisions } from './tables.ts'

/** The delay grows slowly, so that the answer comes soon after the end, however long that takes. */
const [MIN_DELAY_MS, MAX_DELAY_MS, DELAY_GROWTH] = [250, 3000, 1.3]

const isEnded = ({ status }: RevisionRow) => (terminalStates as string[]).includes(status)

type RevisionParams = z.output<typeof RevisionRef>

const pollStatement = prepareStatement((ref: Placeholders<RevisionParams>) =>
  db
    .select()
    .from(revisions)
    .innerJoin(deployments, and(eq(deployments.id, revisions.deployment_id), inTenant(deployments)))
    .where(isRevision(ref)),
)

export const waitForRevision = verb(
  'deployments:read',
  async (ctx, input: RevisionParams & z.output<typeof WaitQuery>) => {
    const { deployment_id, revision_id, until, timeout } = input
    const query = pollStatement({ deployment_id, revision_id })
    const end = Date.now() + timeout * 1000
    for (let delay = MIN_DELAY_MS, isConnected = true; ; delay = Math.min(delay * DELAY_GROWTH, MAX_DELAY_MS)) {
      const rows = await run(ctx, query).catch((error: unknown) => error as Error)
      const left = end - Date.now()
      const isLast = left <= 0 || !isConnected
      if (rows instanceof Error) {
        if (isLast || !isDatabaseUnavailable(rows)) throw rows
      } else {
        const { revisions: revision, deployments: deployment } = requireRow(rows, 'revision_not_found')
        const isAwaited = isEnded(revision) || (until === 'active' && deployment.active_revision_id === revision.id)
        if (isLast || isAwaited) return revisionToWire(revision)
      }
      isConnected = await pauseWhileConnected(ctx, Math.min(delay, left))
    }
  },
)
