// Lists and counts deployments. All filters but the last four read columns of the one index that serves the list.
import { and, eq, inArray, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { keepPlan, literal, type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { deploymentStatuses } from '../../protocol/parts.schema.ts'
import { type DeploymentRow, deploymentToWire, wireColumns } from './rows.ts'
import { type CountQuery, DeploymentHealth, type DeploymentQuery } from './schema.ts'
import { type DeploymentCounts, DeploymentState, type DeploymentSummary, MAX_COUNTED } from './summary.schema.ts'
import { DEPLOYMENT_STATE, SUMMARY_COLUMN } from './summary.ts'
import { deployments } from './tables.ts'
import { warnUnknownStatuses } from './unknown-statuses.ts'

function listFilters(query: Placeholders<CountQuery & Pick<DeploymentQuery, 'state'>>): SQL[] {
  const { name, name_contains, status, health, remote_reconciled, tag_value_ids } = query
  const { image_version, deployment_type, deployment_ids, source, listener_id, owner, state } = query
  const t = deployments
  return [
    // Names are lower-case, and the index has this column.
    name && eq(t.name_fold, name),
    name_contains && sql`strpos(${t.name_fold}, lower(${name_contains})) > 0`,
    status && sql`${t.status} = any(${status}::text[])`,
    health && sql`${t.health} = any(${health}::text[])`,
    remote_reconciled && eq(t.remote_reconciled, remote_reconciled),
    tag_value_ids && hasTagValues(tag_value_ids),
    image_version && eq(t.image_version, image_version),
    deployment_type && eq(t.deployment_type, deployment_type),
    deployment_ids && sql`${t.id} = any(${deployment_ids}::uuid[])`,
    source && eq(t.source, source),
    listener_id && eq(t.listener_id, listener_id),
    owner && eq(t.owner, owner),
    state && sql`${DEPLOYMENT_STATE} = ${state}`,
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

const plainPage = (condition: SQL | undefined, limit: number | Placeholder, offset: number | Placeholder) =>
  db
    .select(wireColumns)
    .from(deployments)
    .where(condition)
    .orderBy(...newestFirst(deployments))
    .limit(limit)
    .offset(offset)

/** Finds the page in the index, then reads its rows. A shallow page of rows alone, without filters, is read at once. */
const pageStatement = prepareStatement<DeploymentQuery & { deep?: true }, DeploymentRow>(query => {
  const filters = listFilters(query)
  const condition = and(inTenant(deployments), afterCursor(deployments, query), ...filters)
  const order = newestFirst(deployments)
  const { limit, offset } = query
  if (filters.length === 0 && !query.deep && !query.include) return plainPage(condition, limit, offset)
  const ids = db
    .select({ id: deployments.id })
    .from(deployments)
    .where(condition)
    .orderBy(...order)
    .limit(limit)
    .offset(offset)
  const columns = query.include ? { ...wireColumns, summary: SUMMARY_COLUMN } : wireColumns
  return db
    .select(columns)
    .from(deployments)
    .where(and(inTenant(deployments), inArray(deployments.id, ids)))
    .orderBy(...order)
})

/** Everybody asks for this page. Its text has the bounds, so that one plan is right for all workspaces. */
const FIRST_PAGE_SIZE = 21
const firstPage = keepPlan(plainPage(inTenant(deployments), literal(FIRST_PAGE_SIZE), literal(0)))

export function deploymentPageQuery(query: DeploymentQuery) {
  const { limit, offset } = pageBounds(query)
  const isPlain = Object.values(query).filter(value => value !== undefined).length === 2
  if (limit === FIRST_PAGE_SIZE && offset === 0 && isPlain) return firstPage
  return pageStatement({ ...query, limit, offset, ...(offset >= MAX_SHALLOW_OFFSET && { deep: true }) })
}

export const listDeployments = verb(
  'deployments:read',
  async (ctx, query: DeploymentQuery) => {
    warnUnknownStatuses(ctx, query.status, deploymentStatuses)
    warnUnknownStatuses(ctx, query.health, DeploymentHealth.options, 'health')
    return toListPage(await run(ctx, deploymentPageQuery(query)), query, deploymentToWire)
  },
  { byPolicy: true },
)

/** One more than is counted shows whether there are more. */
const countStatement = prepareStatement<CountQuery, [state: DeploymentSummary['state'], count: string]>(query => {
  const states = db
    .select({ state: sql`${DEPLOYMENT_STATE}`.as('state') })
    .from(deployments)
    .where(and(inTenant(deployments), ...listFilters(query)))
    .orderBy(...newestFirst(deployments))
    .limit(MAX_COUNTED + 1)
  return sql`select state, count(*) from ${states.as('counted')} group by state`
})

export const countDeployments = verb(
  'deployments:read',
  async (ctx, query: CountQuery): Promise<DeploymentCounts> => {
    warnUnknownStatuses(ctx, query.status, deploymentStatuses)
    warnUnknownStatuses(ctx, query.health, DeploymentHealth.options, 'health')
    const counts = new Map((await run(ctx, countStatement(query))).map(([state, count]) => [state, Number(count)]))
    const [attention, in_flight, serving, idle] = DeploymentState.options.map(state => counts.get(state) ?? 0) as [
      number,
      number,
      number,
      number,
    ]
    const total = attention + in_flight + serving + idle
    return { total: Math.min(total, MAX_COUNTED), attention, in_flight, serving, idle, has_more: total > MAX_COUNTED }
  },
  { byPolicy: true },
)
