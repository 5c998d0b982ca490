// Revisions: read one or all of a deployment's.
import { and, eq, inArray, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import { db, mine, run } from '../kernel/db.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { found } from '../kernel/rows.ts'
import { deployments, revisions } from '../tables.ts'
import { terminalStates } from './lifecycle.ts'
import { type RevisionRow, revisionToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { theOne } from './service.ts'

type OfDeployment = z.output<typeof schema.DeploymentRef>
type Ref = z.output<typeof schema.RevisionRef>

/** Nothing of it is left to do: an UNKNOWN one may still be heard of. */
const SETTLED = inArray(revisions.status, terminalStates)

const ofDeployment = (id: string) => and(eq(revisions.deployment_id, id), mine(revisions))

export const listRevisions = verb(
  'deployments:read',
  async (ctx, { deployment_id, ...query }: OfDeployment & schema.RevisionQuery) => {
    const { limit, offset } = bounds(query)
    const page = db
      .select()
      .from(revisions)
      .where(
        and(
          ofDeployment(deployment_id),
          query.status && inArray(revisions.status, query.status),
          query.remote_reconciled === undefined ? undefined : sql`(${SETTLED}) = ${query.remote_reconciled}`,
          beyond(revisions, query),
        ),
      )
      .orderBy(...newestFirst(revisions))
      .limit(limit)
      .offset(offset)
      .as('revision')
    // Through the deployment, so that one that is not there is told from one without such revisions.
    const through = db.select().from(deployments).leftJoinLateral(page, sql`true`).where(theOne(deployment_id))
    const rows = await run(ctx, through)
    found(rows, 'deployment_not_found')
    return listed(
      rows.flatMap(({ revision }) => (revision ? [revision as RevisionRow] : [])),
      query,
      revisionToWire,
    )
  },
)

export const readRevision = verb('deployments:read', async (ctx, { deployment_id, revision_id }: Ref) => {
  const rows = await run(
    ctx,
    db
      .select()
      .from(revisions)
      .where(and(eq(revisions.id, revision_id), ofDeployment(deployment_id))),
  )
  return revisionToWire(found(rows, 'revision_not_found'))
})
