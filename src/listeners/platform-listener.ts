// The installation's own listeners, which serve whatever names none: registered by the operator, since no workspace's key may.
import { sql } from 'drizzle-orm'
import { ORGANIZATION_ADMIN } from '../access/built-in-roles.ts'
import { makeKeyHint, newApiKey } from '../kernel/crypto.ts'
import { type Database, runAsSystem } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'

type PlatformListenerInput = { organization_id: string; compute_id: string; compute_type: 'k8s' | 'local' }
type PlatformListener = { listener_id: string; listener_key: string }

/** Finds it by its compute_id, or makes it, and makes a key for its agent in either case. */
export async function registerPlatformListener(
  database: Database,
  wanted: PlatformListenerInput,
): Promise<PlatformListener> {
  const { organization_id, compute_id, compute_type } = wanted
  const key = newApiKey()
  const config = JSON.stringify({ k8s_namespaces: [] })
  const found = sql`(select id from listeners where tenant_id is null and compute_id = ${compute_id})`
  const results = await runAsSystem(
    database,
    sql`insert into listeners (organization_id, compute_id, compute_type, compute_config)
      values (${organization_id}::uuid, ${compute_id}, ${compute_type}, ${config}::json) on conflict do nothing`,
    sql`with made as (
        insert into api_keys (organization_id, listener_id, description, hint, key_hash, role_id, permissions)
        select organization_id, id, 'Agent of ' || compute_id, ${makeKeyHint(key)}, ${sha256Hex(key)}, ${ORGANIZATION_ADMIN}::uuid, '{listeners:sync}'
        from listeners where id = ${found} returning *),
      numbered as (
        insert into journals (scope_id, organization_id, seq) select organization_id, organization_id, 1 from made
        on conflict (scope_id) do update set seq = journals.seq + 1 returning *),
      journaled as (
        insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
        select n.scope_id, n.seq, m.organization_id, null, 'api_key.created', m.id, 'operator', 'bootstrap', json_build_object('listener_id', m.listener_id)
        from made m, numbered n)
      select listener_id from made`,
  )
  const [listener_id] = results.at(-1)![0] as [string]
  return { listener_id, listener_key: key }
}
