// Creates the first organization, workspace and Admin key of an installation.
import { sql } from 'drizzle-orm'
import { makeKeyHint, newApiKey } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Database, runAsSystem } from '../../kernel/db/db.ts'
import { createdMembers } from '../../kernel/db/recorded-changes.ts'
import { KEY_RECORD } from './api-keys.ts'
import { ADMIN, ORGANIZATION_ADMIN } from './built-in-roles.ts'

type BootstrapInput = {
  organization: string
  workspace?: string
  emails?: string[]
  scope?: 'workspace' | 'organization'
  /** The name of the key in the journal and the dashboard. */
  keyDescription?: string
}
export type BootstrapResult = { api_key: string; organization_id: string; tenant_id: string }

/** Finds the organization and the workspace by their names, or creates them. Creates a new key in either case. */
export async function bootstrap(database: Database, input: BootstrapInput): Promise<BootstrapResult> {
  const {
    organization,
    workspace = 'Default',
    emails = [],
    scope = 'workspace',
    keyDescription = 'bootstrap key',
  } = input
  const key = newApiKey()
  const organizationId = sql`(
    select id
    from organizations
    where display_name = ${organization}
    order by created_at
    limit 1)`
  const workspaceId = sql`(
    select id
    from workspaces
    where display_name = ${workspace} and organization_id = ${organizationId})`
  const people = sql`
    select ${organizationId} organization_id, email
    from jsonb_array_elements_text(${JSON.stringify(emails)}::jsonb) email`
  const [tenant, role] = scope === 'workspace' ? [workspaceId, ADMIN] : [sql`null::uuid`, ORGANIZATION_ADMIN]
  const results = await runAsSystem(
    database,
    sql`select pg_advisory_xact_lock(hashtextextended('bootstrap', 0))`,
    sql`
      insert into organizations (display_name)
      select ${organization}
      where ${organizationId} is null`,
    sql`
      insert into workspaces (organization_id, display_name)
      select ${organizationId}, ${workspace}
      where ${workspaceId} is null`,
    sql`
      insert into members (organization_id, email, role_id)
      select organization_id, email, ${ORGANIZATION_ADMIN}::uuid
      from (${people}) p
      on conflict do nothing`,
    sql`
      insert into workspace_members (organization_id, tenant_id, member_id, role_id)
      select m.organization_id, ${workspaceId}, m.id, ${ADMIN}::uuid
      from members m
      join (${people}) p using (organization_id, email)
      on conflict do nothing`,
    sql`
      with new_key as (
        insert into api_keys (organization_id, tenant_id, description, hint, key_hash, role_id)
        select ${organizationId}, ${tenant}, ${keyDescription}, ${makeKeyHint(key)}, ${sha256Hex(key)},
          ${role}::uuid
        returning *),
      numbered as (
        insert into journals (scope_id, organization_id, seq)
        select coalesce(tenant_id, organization_id), organization_id, 1
        from new_key
        on conflict (scope_id) do update set seq = journals.seq + 1
        returning *),
      journaled as (
        insert into events
          (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data, changes)
        select
          n.scope_id, n.seq, k.organization_id, k.tenant_id, 'api_key.created', k.id, 'operator', 'bootstrap', '{}',
          ${createdMembers(KEY_RECORD, sql`k`)}
        from new_key k, numbered n)
      select organization_id, ${workspaceId}
      from new_key`,
  )
  const [organization_id, tenant_id] = results.at(-1)![0] as [string, string]
  return { api_key: key, organization_id, tenant_id }
}
