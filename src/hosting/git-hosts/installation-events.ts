// Applies changes of an App's installation, as its host reports them, to the state of the integration.
import { type SQL, sql } from 'drizzle-orm'
import { runAsSystem, textArray } from '../../kernel/db/db.ts'
import { journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'
import type { Integration } from './githost.ts'
import { INTEGRATION_RECORD } from './rows.ts'
import { integrations } from './tables.ts'

type State = Integration['state']
/** A revoked installation never becomes active again: GitHub gives a new one a new id. */
const STATE_CHANGES = {
  deleted: { from: ['active', 'suspended'], to: 'revoked', type: 'integration.revoked' },
  suspend: { from: ['active'], to: 'suspended', type: 'integration.suspended' },
  unsuspend: { from: ['suspended'], to: 'active', type: 'integration.resumed' },
  repositories: { from: ['active', 'suspended'], to: null, type: 'integration.repositories_changed' },
} as const satisfies Record<string, { from: State[]; to: State | null; type: string }>
type InstallationAction = keyof typeof STATE_CHANGES

export type InstallationChange = {
  base_url: string
  /** Null: the operator's App. */
  app_id: string | null
  installation_id: string
  action: InstallationAction
  sender: string | null
}

/** Also marks the stored repository listing as stale. Changes one integration at most. */
export async function applyInstallationChange(
  { platform, database }: DatabaseServices,
  { requestId, request }: { requestId: string; request: string | null },
  { base_url, app_id, installation_id, action, sender }: InstallationChange,
): Promise<{ id: string; tenant_id: string }[]> {
  const { from, to, type } = STATE_CHANGES[action]
  const events = sql`
    select
      tenant_id,
      organization_id,
      ${type}::text as type,
      id as subject_id,
      json_build_object('installation_id', installation_id, 'sender', ${sender}::text) as data,
      ${changedMembers(integrations, INTEGRATION_RECORD)} as changes
    from changed`
  const isInstallation = sql`i.host = 'github'
        and i.base_url = ${base_url}
        and i.installation_id = ${installation_id}
        and i.app_id is not distinct from ${app_id}`
  const lock = sql`select from integrations i where ${isInstallation} for update`
  const statement = sql`
    with changed as (
      update integrations i
      set ${setState(to)}
      where ${isInstallation}
        and i.state = any(${textArray(from)})
      returning i.*),
    stale as (
      update integration_listings l
      set fetched_at = 'epoch'
      from changed
      where l.integration_id = changed.id)
    select id, tenant_id, ${journalTenantEvents(events, { actor: sql`'push', null, ${sender}` })}
    from changed`
  const settings = setSystemSettings(platform, requestId, request)
  const [, , rows] = await runAsSystem(database, settings, lock, statement)
  return (rows as [string, string][]).map(([id, tenant_id]) => ({ id, tenant_id }))
}

/** SQL assignments over `integrations i`. Null keeps the state. A cached token survives only while it can be used. */
export const setState = (state: State | null): SQL => sql`
  state = ${state === null ? sql`i.state` : sql`${state}`},
  token = ${state === 'active' || state === null ? sql`i.token` : sql`null`},
  version = i.version + 1,
  updated_at = clock()`
