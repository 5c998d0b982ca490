// Lists deployments. Every filter reads columns of the one index that serves the list.
import { and, eq, inArray, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { verb } from '../kernel/context.ts'
import { db, inTenant, run } from '../kernel/db.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../kernel/paging.ts'
import { type Placeholders, prepareStatement } from '../kernel/statement.ts'
import { deployments } from '../tables/deployments.ts'
import { type DeploymentRow, deploymentToWire, wireColumns } from './rows.ts'
import type { DeploymentQuery } from './schema.ts'

export function listFilters(query: Placeholders<DeploymentQuery>): SQL[] {
  const { name, name_contains, status, remote_reconciled, tag_value_ids } = query
  const { image_version, deployment_type, deployment_ids } = query
  const t = deployments
  return [
    // Names are lower-case, and the index has this column.
    name && eq(t.name_fold, name),
    name_contains && sql`strpos(${t.name_fold}, lower(${name_contains})) > 0`,
    status && sql`${t.status} = any(${status}::text[])`,
    remote_reconciled && eq(t.remote_reconciled, remote_reconciled),
    tag_value_ids && hasTagValues(tag_value_ids),
    image_version && eq(t.image_version, image_version),
    deployment_type && eq(t.deployment_type, deployment_type),
    deployment_ids && sql`${t.id} = any(${deployment_ids}::uuid[])`,
  ].filter(condition => condition !== undefined)
}

/** Values of one key are alternatives, different keys must all match, and an unknown value matches nothing. */
const hasTagValues = (ids: Placeholder): SQL => sql`not exists (
  select from (
    select array_agg(requested.id) as any_of
    from unnest(${ids}::uuid[]) requested(id)
    left join tag_values v on v.id = requested.id and v.tenant_id = current_tenant()
    group by coalesce(v.tag_key_id, requested.id)
  ) key
  where not ${deployments.tag_value_ids} && key.any_of)`

/** Up to this offset, reading the rows before the page costs less than finding the page in the index first. */
const MAX_SHALLOW_OFFSET = 200

/** Finds the page in the index, then reads its rows. A shallow page without filters is read at once. */
const pageStatement = prepareStatement<DeploymentQuery & { deep?: true }, DeploymentRow>(query => {
  const filters = listFilters(query)
  const condition = and(inTenant(deployments), afterCursor(deployments, query), ...filters)
  const order = newestFirst(deployments)
  const { limit, offset } = query
  const rows = db.select(wireColumns).from(deployments)
  if (filters.length === 0 && !query.deep) {
    return rows
      .where(condition)
      .orderBy(...order)
      .limit(limit)
      .offset(offset)
  }
  const ids = db
    .select({ id: deployments.id })
    .from(deployments)
    .where(condition)
    .orderBy(...order)
    .limit(limit)
    .offset(offset)
  return rows.where(and(inTenant(deployments), inArray(deployments.id, ids))).orderBy(...order)
})

export function deploymentPageQuery(query: DeploymentQuery) {
  const { limit, offset } = pageBounds(query)
  return pageStatement({ ...query, limit, offset, ...(offset >= MAX_SHALLOW_OFFSET && { deep: true }) })
}

export const listDeployments = verb('deployments:read', async (ctx, query: DeploymentQuery) =>
  toListPage(await run(ctx, deploymentPageQuery(query)), query, deploymentToWire),
)
