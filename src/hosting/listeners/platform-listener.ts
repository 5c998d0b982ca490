// Registers listeners of the platform, which serve deployments without a listener_id. For the operator only.
import { sql } from 'drizzle-orm'
import { makeKeyHint, newApiKey } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Database, runAsSystem } from '../../kernel/db/db.ts'
import { createdMembers } from '../../kernel/db/recorded-changes.ts'
import { KEY_RECORD } from '../../people/access/api-keys.ts'
import { ORGANIZATION_ADMIN } from '../../people/access/built-in-roles.ts'

type PlatformListenerInput = { organization_id: string; compute_id: string; compute_type: 'k8s' | 'local' }
type PlatformListener = { listener_id: string; listener_key: string }

/** Registers the listener if its compute_id is new. Creates a key for its agent in either case. */
export async function registerPlatformListener(
  database: Database,
  { organization_id, compute_id, compute_type }: PlatformListenerInput,
): Promise<PlatformListener> {
  const key = newApiKey()
  const config = JSON.stringify({ k8s_namespaces: [] })
  const insertListener = sql`
    insert into listeners (organization_id, compute_id, compute_type, compute_config)
    values (${organization_id}::uuid, ${compute_id}, ${compute_type}, ${config}::json)
    on conflict do nothing`
  const insertKey = sql`
    with inserted as (
      insert into api_keys (organization_id, listener_id, description, hint, key_hash, role_id, permissions)
      select organization_id, id, 'Agent of ' || compute_id, ${makeKeyHint(key)}, ${sha256Hex(key)},
        ${ORGANIZATION_ADMIN}::uuid, '{listeners:sync}'
      from listeners
      where tenant_id is null and compute_id = ${compute_id}
      returning *),
    numbered as (
      insert into journals (scope_id, organization_id, seq)
      select organization_id, organization_id, 1
      from inserted
      on conflict (scope_id) do update set seq = journals.seq + 1
      returning *),
    journaled as (
      insert into events
        (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data, changes)
      select n.scope_id, n.seq, i.organization_id, null, 'api_key.created', i.id, 'operator', 'bootstrap', '{}',
        ${createdMembers(KEY_RECORD, sql`i`)}
      from inserted i, numbered n)
    select listener_id
    from inserted`
  const results = await runAsSystem(database, insertListener, insertKey)
  const [listener_id] = results.at(-1)![0] as [string]
  return { listener_id, listener_key: key }
}
