// From an integration's row to the wire, and the write by which one comes to be. Nothing that is sealed is told.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { inTenant } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { etagVersion } from '../kernel/routes.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import { integrations } from '../tables/integrations.ts'
import { type Integration, webhookPath } from './githost.ts'
import type { ProvenAccount } from './ownership.ts'
import type * as schema from './schema.ts'

const { credentials: _1, token: _2, token_expires_at: _3, ...wireColumns } = getTableColumns(integrations)

export { wireColumns }
export type PublicIntegration = Omit<Integration, 'credentials' | 'token' | 'token_expires_at'>

/** One integration of this workspace. */
export const isIntegration = (id: string): SQL => and(eq(integrations.id, id), inTenant(integrations))!

/** An installation of the operator's App has no address of its own: GitHub knows where the App's deliveries go. */
const isOperatorsApp = ({ host, app_id }: PublicIntegration): boolean => host === 'github' && app_id === null

export const toWire = (origin: string, row: PublicIntegration): schema.Integration & { [etagVersion]: number } => ({
  id: row.id,
  installation_id: row.installation_id,
  name: row.name,
  host: row.host,
  base_url: row.base_url,
  state: row.state,
  webhook_url: origin + webhookPath(isOperatorsApp(row) ? undefined : row.id),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

/**
 * A host that was proved is connected. The integration that this workspace had with the same account, and that was revoked, comes back to
 * life, so that its deployments go on; the constraints see that an installation is one workspace's.
 */
export async function storeIntegration(
  ctx: Ctx,
  proven: ProvenAccount,
  sealed: string | null,
): Promise<PublicIntegration> {
  const { host, base_url, app_id, installation_id, account_id, name, state } = proven
  const revived = sql`revived as (
    update integrations i set app_id = ${app_id}, installation_id = ${installation_id}, name = ${name}, state = ${state},
      credentials = ${sealed}, token = null, token_expires_at = null, version = i.version + 1, updated_at = clock()
    where i.id = (select o.id from integrations o where o.tenant_id = current_tenant() and o.host = ${host} and o.base_url = ${base_url}
        and o.account_id = ${account_id} and o.state = 'revoked' order by o.updated_at desc limit 1)
      and i.tenant_id = current_tenant() returning i.*)`
  const made = sql`made as (
    insert into integrations as i (organization_id, tenant_id, host, base_url, app_id, installation_id, account_id, name, state,
      credentials, created_by)
    select current_organization(), current_tenant(), ${host}, ${base_url}, ${app_id}, ${installation_id}, ${account_id}, ${name}, ${state},
      ${sealed}, current_actor() where not exists (select from revived) returning i.*)`
  const plain = sql.raw(Object.keys(wireColumns).join(', '))
  const change = sql<PublicIntegration>`select ${plain} from revived union all select ${plain} from made`
  const data = { host, base_url, installation_id, name }
  const rows = await commit(ctx, 'integration.connected', change, data, { first: [revived, made] })
  return requireRow(rows, 'workspace_not_found')
}
