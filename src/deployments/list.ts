// The list of deployments: every filter on columns of the one index that carries it.
import { and, eq, inArray, type SQL, sql } from 'drizzle-orm'
import { verb } from '../kernel/context.ts'
import { db, mine, run, uuidArray } from '../kernel/db.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { deployments } from '../tables.ts'
import { deploymentToWire } from './rows.ts'
import type { DeploymentQuery } from './schema.ts'

/** What narrows the list. A filter that is left out narrows nothing. */
export function filters(query: DeploymentQuery): SQL[] {
  const { name_contains, status, remote_reconciled, tag_value_ids, image_version, deployment_type, deployment_ids } =
    query
  const t = deployments
  return [
    name_contains !== undefined && sql`strpos(${t.name_fold}, lower(${name_contains})) > 0`,
    status && inArray(t.status, status),
    remote_reconciled !== undefined && eq(t.remote_reconciled, remote_reconciled),
    tag_value_ids && tagged(tag_value_ids),
    image_version !== undefined && eq(t.image_version, image_version),
    deployment_type && eq(t.deployment_type, deployment_type),
    deployment_ids && inArray(t.id, deployment_ids),
  ].filter(condition => condition instanceof Object)
}

/** Values of one key are alternatives, different keys must all match, and a value that does not exist is borne by nothing. */
const tagged = (ids: string[]): SQL => sql`not exists (
  select from (
    select array_agg(asked.id) as any_of from unnest(${uuidArray(ids)}) asked(id) 
      left join tag_values v on v.id = asked.id and v.tenant_id = current_tenant()
    group by coalesce(v.tag_key_id, asked.id)
  ) key where not ${deployments.tag_value_ids} && key.any_of)`

/** Up to here, reading the rows passed over costs less than finding the page in the index first. */
const SHALLOW = 200

/** The page is found in the index alone, and only its rows are read whole; a shallow one that nothing narrows is read at once. */
export function pageOf(query: DeploymentQuery) {
  const { limit, offset } = bounds(query)
  const narrowed = filters(query)
  const within = and(mine(deployments), beyond(deployments, query), ...narrowed)
  const order = newestFirst(deployments)
  const all = db.select().from(deployments)
  if (narrowed.length === 0 && offset < SHALLOW) {
    return all
      .where(within)
      .orderBy(...order)
      .limit(limit)
      .offset(offset)
  }
  const page = db
    .select({ id: deployments.id })
    .from(deployments)
    .where(within)
    .orderBy(...order)
    .limit(limit)
    .offset(offset)
  return all.where(and(mine(deployments), inArray(deployments.id, page))).orderBy(...order)
}

export const listDeployments = verb('deployments:read', async (ctx, query: DeploymentQuery) =>
  listed(await run(ctx, pageOf(query)), query, deploymentToWire),
)
