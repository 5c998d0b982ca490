// Records that a host refuses a part of the work: the token is gone, or lacks a scope. Each change is an event.
import { type SQL, sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { usesToken } from '../../protocol/host-kinds.ts'
import type { Integration } from './githost.ts'
import { HostRefusal } from './request.ts'
import { INTEGRATION_RECORD } from './rows.ts'
import { type IntegrationProblem, integrations } from './tables.ts'

/** The work that was refused. Its next success ends the problem. */
export type WorkKind = IntegrationProblem['work']

export const refusalOf = (error: unknown): HostRefusal | null =>
  error instanceof Failure && error.code === 'githost_refused' && error.extra.cause instanceof HostRefusal
    ? error.extra.cause
    : null

/** A host that has no such token any more refuses everything: the integration is revoked. */
export async function recordRefusal(
  services: DatabaseServices,
  integration: Integration,
  refusal: HostRefusal,
  work: WorkKind,
): Promise<void> {
  const isRevoked = refusal.status === 401 && usesToken(integration.host)
  const problem: IntegrationProblem = {
    code: isRevoked ? 'token_refused' : 'access_refused',
    work: isRevoked ? 'repository' : work,
    message: refusal.message || `The host answered ${refusal.status}.`,
    since: new Date(services.platform.clock.now()).toISOString(),
  }
  const isNew = sql`
    i.problem is null
      or (i.problem ->> 'work', i.problem ->> 'message') is distinct from (${problem.work}, ${problem.message})`
  await changeProblem(services, integration, {
    set: sql`problem = ${JSON.stringify(problem)}::json${isRevoked ? sql`, state = 'revoked'` : sql``}`,
    condition: isRevoked ? sql`i.state = 'active'` : sql`i.state = 'active' and (${isNew})`,
    type: isRevoked ? 'integration.revoked' : 'integration.limited',
    data: { work, message: problem.message },
  })
}

export async function clearProblem(
  services: DatabaseServices,
  integration: Integration,
  work: WorkKind,
): Promise<void> {
  await changeProblem(services, integration, {
    // A host may refuse a token for a while, and accept it again.
    set: sql`
      problem = null,
      state = case when i.problem ->> 'code' = 'token_refused' and i.state = 'revoked' then 'active' else i.state end`,
    condition: sql`i.problem ->> 'work' = ${work}`,
    type: 'integration.restored',
    data: { work },
  })
}

type IntegrationChange = { set: SQL; condition: SQL; type: string; data: Record<string, string> }

/** The lock, and the change with its event, for a transaction without a person. */
export function prepareChange(id: string, { set, condition, type, data }: IntegrationChange): [lock: SQL, change: SQL] {
  const events = sql`
    select
      tenant_id,
      organization_id,
      ${type}::text as type,
      id as subject_id,
      ${JSON.stringify(data)}::json as data,
      ${changedMembers(integrations, INTEGRATION_RECORD)} as changes
    from changed`
  return [
    sql`select from integrations i where i.id = ${id}::uuid for update`,
    sql`
      with changed as (
        update integrations i
        set ${set}, version = i.version + 1, updated_at = clock()
        where i.id = ${id}::uuid and ${condition}
        returning i.*)
      select ${journalTenantEvents(events)}
      from changed`,
  ]
}

async function changeProblem(
  { database, platform }: DatabaseServices,
  { id }: Integration,
  change: IntegrationChange,
): Promise<void> {
  await runAsSystem(database, setSystemSettings(platform, `githost-${id}`), ...prepareChange(id, change))
}
