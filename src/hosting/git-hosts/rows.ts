// Converts an integration's row to the wire without its secrets, and writes a connected integration.
import { and, eq, getTableColumns, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { inTenant } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { capabilitiesOf } from '../../protocol/host-kinds.ts'
import { type Integration, webhookPath } from './githost.ts'
import type { ProvenAccount } from './ownership.ts'
import type * as schema from './schema.ts'
import { sshToWire } from './ssh-access.ts'
import { integrations, type SshAccess } from './tables.ts'

const { credentials: _1, token: _2, token_expires_at: _3, ...wireColumns } = getTableColumns(integrations)

export { wireColumns }
export const WIRE_COLUMNS_SQL = sql.raw(
  Object.keys(wireColumns)
    .map(name => `i.${name}`)
    .join(', '),
)
export type PublicIntegration = Omit<Integration, 'credentials' | 'token' | 'token_expires_at'>

export const INTEGRATION_RECORD = recordColumns(integrations, [
  'host',
  'base_url',
  'installation_id',
  'name',
  'state',
  'problem',
  'ssh',
])

export const isIntegration = (id: string | Placeholder): SQL => and(eq(integrations.id, id), inTenant(integrations))!

/** All installations of the operator's App share the App's webhook. */
const isOperatorsApp = ({ host, app_id }: PublicIntegration): boolean => host === 'github' && app_id === null

export const toWire = (origin: string, row: PublicIntegration): schema.Integration & { [etagVersion]: number } => ({
  id: row.id,
  installation_id: row.installation_id,
  name: row.name,
  host: row.host,
  base_url: row.base_url,
  state: row.state,
  problem: row.problem,
  ssh: row.ssh && sshToWire(row.ssh),
  capabilities: capabilitiesOf(row.host),
  webhook_url: origin + webhookPath(isOperatorsApp(row) ? undefined : row.id),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

/**
 * Reactivates the workspace's revoked integration of the same account, so that its deployments continue, or inserts a
 * new one. Unique constraints keep an installation in one workspace.
 */
export async function storeIntegration(
  ctx: Ctx,
  proven: ProvenAccount,
  sealed: string | null,
  ssh: SshAccess | null = null,
): Promise<PublicIntegration> {
  const { host, base_url, app_id, installation_id, account_id, name, state } = proven
  const isRevoked = sql`o.tenant_id = current_tenant()
          and o.host = ${host}
          and o.base_url = ${base_url}
          and o.account_id = ${account_id}
          and o.state = 'revoked'`
  const reactivated = sql`reactivated as (
    update integrations i
    set app_id = ${app_id},
      installation_id = ${installation_id},
      name = ${name},
      state = ${state},
      credentials = ${sealed},
      ssh = ${ssh && JSON.stringify(ssh)}::json,
      token = null,
      token_expires_at = null,
      problem = null,
      version = i.version + 1,
      updated_at = clock()
    where i.tenant_id = current_tenant()
      and i.id = (
        select o.id
        from integrations o
        where ${isRevoked}
        order by o.updated_at desc
        limit 1)
    returning i.*)`
  const inserted = sql`inserted as (
    insert into integrations as i
      (organization_id, tenant_id, host, base_url, app_id, installation_id, account_id, name, state, credentials,
        ssh, created_by)
    select current_organization(), current_tenant(), ${host}, ${base_url}, ${app_id}, ${installation_id},
      ${account_id}, ${name}, ${state}, ${sealed},
      ${ssh && JSON.stringify(ssh)}::json, current_actor()
    where not exists (select from reactivated)
    returning i.*)`
  const change = sql<PublicIntegration>`
    select ${WIRE_COLUMNS_SQL} from reactivated i
    union all
    select ${WIRE_COLUMNS_SQL} from inserted i`
  const rows = await commit(
    ctx,
    'integration.connected',
    change,
    {},
    {
      lock: sql`select from integrations o where ${isRevoked} for update`,
      changes: changedMembers(integrations, INTEGRATION_RECORD),
      ctesBefore: [reactivated, inserted],
    },
  )
  return requireRow(rows, 'workspace_not_found')
}
