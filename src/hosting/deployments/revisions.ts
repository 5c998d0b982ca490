// Reads the revisions of a deployment.
import { and, eq, inArray, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { revisionStatuses } from '../../protocol/parts.schema.ts'
import { terminalStates } from './lifecycle.ts'
import { type RevisionRow, revisionToWire } from './rows.ts'
import type * as schema from './schema.ts'
import { isDeployment } from './service.ts'
import { deployments, revisions } from './tables.ts'
import { warnUnknownStatuses } from './unknown-statuses.ts'

type DeploymentParams = z.output<typeof schema.DeploymentRef>
type RevisionParams = z.output<typeof schema.RevisionRef>

/** UNKNOWN is not settled: the listener may still report. */
const IS_SETTLED = inArray(revisions.status, terminalStates)

export const isInDeployment = (id: Placeholder): SQL => and(eq(revisions.deployment_id, id), inTenant(revisions))!
export const isRevision = ({ deployment_id, revision_id }: Placeholders<RevisionParams>): SQL =>
  and(eq(revisions.id, revision_id), isInDeployment(deployment_id))!

type ListInput = DeploymentParams & schema.RevisionQuery

/** Selects from the deployment, to tell an unknown deployment from one without such revisions. */
const pageStatement = prepareStatement(({ deployment_id, ...query }: Placeholders<ListInput>) => {
  const { status, remote_reconciled } = query
  const page = db
    .select()
    .from(revisions)
    .where(
      and(
        isInDeployment(deployment_id),
        status && sql`${revisions.status} = any(${status}::text[])`,
        remote_reconciled && sql`(${IS_SETTLED}) = ${remote_reconciled}`,
        afterCursor(revisions, query),
      ),
    )
    .orderBy(...newestFirst(revisions))
    .limit(query.limit)
    .offset(query.offset)
    .as('revision')
  return db.select().from(deployments).leftJoinLateral(page, sql`true`).where(isDeployment(deployment_id))
})

export const listRevisions = verb('deployments:read', async (ctx, input: ListInput) => {
  warnUnknownStatuses(ctx, input.status, revisionStatuses)
  const rows = await run(ctx, pageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'deployment_not_found')
  return toListPage(
    rows.flatMap(({ revision }) => (revision ? [revision as RevisionRow] : [])),
    input,
    revisionToWire,
  )
})

const revisionStatement = prepareStatement((ref: Placeholders<RevisionParams>) =>
  db.select().from(revisions).where(isRevision(ref)),
)

export const readRevision = verb('deployments:read', async (ctx, { deployment_id, revision_id }: RevisionParams) =>
  revisionToWire(requireRow(await run(ctx, revisionStatement({ deployment_id, revision_id })), 'revision_not_found')),
)
