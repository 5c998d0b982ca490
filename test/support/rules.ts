// Automation rules for tests: a tenant with a traced project, its runs, and what the schedule does.
import { sql } from 'drizzle-orm'
import { evaluateAndSend } from '../../src/tracing/rules/evaluate.ts'
import { getServices, newTenant, type Tenant, unusedId } from './app.ts'
import { appendRuns, newTrace, projectId } from './new-traces.ts'
import type { RunInput } from './trace-operations.ts'

type Services = ReturnType<typeof getServices>

/** Rules of this workspace alone: tests of one database run beside each other. */
export const sweep = ({ tenant_id }: Tenant, services: Services = getServices()) =>
  evaluateAndSend(services, sql`r.tenant_id = ${tenant_id}::uuid`)

export const END = { end_time: new Date().toISOString() }

/** A workspace with the project `traced`. */
export async function newTracedTenant(options: Parameters<typeof newTenant>[0] = {}) {
  const tenant = await newTenant(options)
  await appendRuns(tenant, [newTrace().root])
  const session_id = await projectId(tenant, 'traced')
  const createRule = async (body: Record<string, unknown> = {}) =>
    (await tenant.post('/runs/rules', { display_name: unusedId(), sampling_rate: 1, session_id, ...body })).body
  return { tenant, session_id, createRule }
}

/** Appends roots of different traces that have ended. */
export async function appendEnded(tenant: Tenant, count: number, members: Partial<RunInput> = {}): Promise<string[]> {
  const roots = Array.from({ length: count }, () => ({ ...newTrace().root, ...END, ...members }))
  await appendRuns(tenant, roots)
  return roots.map(({ id }) => id).sort()
}

export const readLogs = async (tenant: Tenant, rule: { id: string }, query = '') =>
  (await tenant.get(`/runs/rules/${rule.id}/logs?limit=1440${query}`)).body

export const appliedRuns = async (tenant: Tenant, rule: { id: string }): Promise<string[]> =>
  (await readLogs(tenant, rule)).map(({ run_id }: { run_id: string }) => run_id).sort()
