// Reads the revisions of a deployment.
import { and, eq, inArray, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { terminalStates } from './lifecycle.ts'
import { type RevisionRow, revisionToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { isDeployment } from './service.ts'
import { deployments, revisions } from './tables.ts'

type DeploymentParams = z.output<typeof schema.DeploymentRef>
type RevisionParams = z.output<typeof schema.RevisionRef>

/** UNKNOWN is not settled: the listener may still report. */
const IS_SETTLED = inArray(revisions.status, terminalStates)

export const isInDeployment = (id: string) => and(eq(revisions.deployment_id, id), inTenant(revisions))

export const listRevisions = verb(
  'deployments:read',
  async (ctx, { deployment_id, ...query }: DeploymentParams & schema.RevisionQuery) => {
    const { limit, offset } = pageBounds(query)
    const page = db
      .select()
      .from(revisions)
      .where(
        and(
          isInDeployment(deployment_id),
          query.status && inArray(revisions.status, query.status),
          query.remote_reconciled === undefined ? undefined : sql`(${IS_SETTLED}) = ${query.remote_reconciled}`,
          afterCursor(revisions, query),
        ),
      )
      .orderBy(...newestFirst(revisions))
      .limit(limit)
      .offset(offset)
      .as('revision')
    // Selects from the deployment, to tell an unknown deployment from one without such revisions.
    const pageOfDeployment = db
      .select()
      .from(deployments)
      .leftJoinLateral(page, sql`true`)
      .where(isDeployment(deployment_id))
    const rows = await run(ctx, pageOfDeployment)
    requireRow(rows, 'deployment_not_found')
    return toListPage(
      rows.flatMap(({ revision }) => (revision ? [revision as RevisionRow] : [])),
      query,
      revisionToWire,
    )
  },
)

export const readRevision = verb('deployments:read', async (ctx, { deployment_id, revision_id }: RevisionParams) => {
  const rows = await run(
    ctx,
    db
      .select()
      .from(revisions)
      .where(and(eq(revisions.id, revision_id), isInDeployment(deployment_id))),
  )
  return revisionToWire(requireRow(rows, 'revision_not_found'))
})
