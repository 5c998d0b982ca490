// Traces for tests: runs appended to the store without a request, and what the tables hold of them.
import { type SQL, sql } from 'drizzle-orm'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { type Ctx, createKeylessCaller } from '../../src/kernel/http/context.ts'
import type { RunOperation } from '../../src/tracing/store/store.ts'
import { type App, getApp, getServices, type Tenant } from './app.ts'
import { readStoredRuns } from './stored-runs.ts'

/** A context of the workspace that may do everything. */
export function contextOf({ organization_id, tenant_id }: Tenant, app: App = getApp()): Ctx {
  const actor = { kind: 'cron', id: null, organization: organization_id, tenant: tenant_id } as const
  const caller = createKeylessCaller(getServices(app), actor, `test-${crypto.randomUUID()}`, 'http://slipway.test')
  return { ...caller, permission: 'runs:create' }
}

export const append = (tenant: Tenant, operations: RunOperation[], app?: App): Promise<void> => {
  const ctx = contextOf(tenant, app)
  return ctx.traces.append(ctx, operations)
}

/** Reads rows over all workspaces, as objects. */
export async function select<T = Record<string, unknown>>(query: SQL): Promise<T[]> {
  const [rows] = await runAsSystem(getApp().database, sql`select to_json(r) from (${query}) r`)
  return (rows as [string][]).map(([row]) => JSON.parse(row))
}

export const readRows = async <T = Record<string, unknown>>({ tenant_id }: Tenant): Promise<T[]> =>
  (await readStoredRuns(tenant_id)) as T[]
