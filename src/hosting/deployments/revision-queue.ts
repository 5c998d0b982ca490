// What writes of a deployment share. queue_revision() in drizzle/functions/deployments.sql queues a revision.
import { type SQL, sql } from 'drizzle-orm'

/** Selects deployment `c` of the caller's workspace. */
export const isDeploymentInTenant = (id: string): SQL => sql`c.id = ${id}::uuid and c.tenant_id = current_tenant()`
/** Concurrent writers of a deployment take turns. */
export const lockDeployment = (id: string): SQL =>
  sql`select from deployments c where ${isDeploymentInTenant(id)} for update`

/** Among the reasons of a revision that is only recorded, as SKIPPED. */
export const HELD_BACK_REASON = 'held'
