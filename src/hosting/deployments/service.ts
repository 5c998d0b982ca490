// Reads and deletes deployments, and changes what creates no revision. The first creation or patch loads its file, as
// most isolates only read.
import { and, eq, isNull, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, type Row, run, uuidArray } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import type { CreateInput } from './create.ts'
import type { PatchInput } from './patch.ts'
import { type DeploymentRow, deploymentToWire, wireColumns } from './rows.ts'
import type * as schema from './schema.ts'
import { SUMMARY_COLUMN } from './summary.ts'
import { deployments } from './tables.ts'

type DeploymentParams = z.output<typeof schema.DeploymentRef>

export const isDeployment = (id: string | Placeholder): SQL => and(eq(deployments.id, id), inTenant(deployments))!

/** Concurrent writers of a deployment take turns. */
export const lockDeployment = (id: string): SQL =>
  sql`select from deployments where id = ${id}::uuid and tenant_id = current_tenant() for update`

type ReadInput = DeploymentParams & Pick<z.output<typeof schema.RevealQuery>, 'include'>
const deploymentStatement = prepareStatement<ReadInput, DeploymentRow>(({ deployment_id, include }) =>
  db
    .select(include ? { ...wireColumns, summary: SUMMARY_COLUMN } : wireColumns)
    .from(deployments)
    .where(isDeployment(deployment_id)),
)

export const readDeployment = verb('deployments:read', async (ctx, { deployment_id, include }: ReadInput) =>
  deploymentToWire(requireRow(await run(ctx, deploymentStatement({ deployment_id, include })), 'deployment_not_found')),
)

export const createDeployment = verb('deployments:create', async (ctx, input: CreateInput) =>
  (await import('./create.ts')).createDeployment(ctx, input),
)
export const planCreate = verb('deployments:create', async (ctx, input: CreateInput) =>
  (await import('./create.ts')).planCreate(ctx, input),
)
export const patchDeployment = verb('deployments:update', async (ctx, input: PatchInput) =>
  (await import('./patch.ts')).patchDeployment(ctx, input),
)
export const planPatch = verb('deployments:update', async (ctx, input: PatchInput) =>
  (await import('./patch.ts')).planPatch(ctx, input),
)

export const setOwner = verb(
  'deployments:update',
  async (ctx, { deployment_id, owner }: DeploymentParams & z.output<typeof schema.DeploymentOwner>) => {
    const statement = sql<Row>`
      select answer, has_webhooks
      from set_deployment_owner(${deployment_id}::uuid, ${owner}, ${describeWrite(ctx)}::jsonb)`
    return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'deployment_not_found'))
  },
)

export const rotateTraceKey = verb('deployments:update', async (ctx, { deployment_id }: DeploymentParams) => {
  const statement = sql<Row>`
    select answer, has_webhooks
    from rotate_trace_key(${deployment_id}::uuid, ${describeWrite(ctx)}::jsonb)`
  requireRow(await runWrite(ctx, statement), 'deployment_not_found')
})

// ---- deleted

const deleteByIds = (ctx: Ctx, ids: string[], deletesProjects: boolean): Promise<DeploymentRow[]> =>
  runWrite(
    ctx,
    sql<Row>`
      select answer, has_webhooks
      from delete_deployments(${uuidArray(ids)}, ${deletesProjects}, ${describeWrite(ctx)}::jsonb)`,
  )

export const deleteDeployment = verb(
  'deployments:delete',
  async (ctx, { deployment_id, delete_tracing_project }: DeploymentParams & z.output<typeof schema.DeletionQuery>) => {
    requireRow(await deleteByIds(ctx, [deployment_id], delete_tracing_project), 'deployment_not_found')
  },
)

export const deleteDeployments = verb(
  'deployments:delete',
  async (ctx, { deployment_ids, delete_tracing_project }: z.output<typeof schema.DeploymentIds>) => {
    const rows = await deleteByIds(ctx, deployment_ids, delete_tracing_project)
    const removed = new Set(rows.map(row => row.id))
    const left = deployment_ids.filter(id => !removed.has(id))
    const denied = ctx.requestInfo.isLimited && left.length > 0 ? await findReadable(ctx, left) : new Set()
    const results = deployment_ids.map(id => {
      if (removed.has(id)) return { id, status: 204, code: null }
      if (denied.has(id)) return { id, status: 403, code: 'denied_by_policy' as const }
      return { id, status: 404, code: 'deployment_not_found' as const }
    })
    return { results }
  },
  { byPolicy: true },
)

const readableStatement = prepareStatement(({ ids }: Placeholders<{ ids: string[] }>) =>
  db
    .select({ id: deployments.id })
    .from(deployments)
    .where(and(sql`${deployments.id} = any(${ids}::uuid[])`, inTenant(deployments), isNull(deployments.deleting_at))),
)

/** Finds the deployments that the caller can read. One that it cannot read either is reported as not found. */
async function findReadable(ctx: Ctx, ids: string[]): Promise<Set<string>> {
  const reading: Ctx = { ...ctx, permission: 'deployments:read', byPolicy: true, idempotency: null }
  const rows = await run(reading, readableStatement({ ids })).catch((error: unknown) => {
    if (error instanceof Failure && error.code === 'permission_missing') return []
    throw error
  })
  return new Set(rows.map(({ id }) => id))
}
