// Tables of the fleet: how the scheduled work went, and the deployments that are gone.
import { index, integer, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { instantColumn, parentTenantColumns } from '../kernel/db/columns.ts'

/** The last run of each part of the scheduled work, by whichever process. */
export const sweepRuns = pgTable('sweep_runs', {
  name: text().primaryKey(),
  done_at: instantColumn(),
  failed_at: instantColumn(),
  ms: integer().notNull(),
})

/** Written by a trigger. */
export const deletedDeployments = pgTable(
  'deleted_deployments',
  {
    id: uuid().primaryKey(),
    ...parentTenantColumns(),
    created_at: instantColumn().notNull(),
    deleted_at: instantColumn().notNull(),
  },
  t => [
    index('deleted_deployments_of_workspace').on(t.tenant_id, t.deleted_at),
    index('deleted_deployments_age').on(t.deleted_at),
  ],
)
