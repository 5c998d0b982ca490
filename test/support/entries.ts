// Roles, keys and the verdicts of enter_by_key() and enter_by_session() on them, by the thousand in one round trip:
// every route passes the same arguments, so a test of a route need not repeat what the two functions make of each
// caller.
import { sql } from 'drizzle-orm'
import { makeKeyHint, newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { Permission } from '../../src/kernel/permissions.ts'
import { getApp, type Tenant, unusedId } from './app.ts'

/** Returns the ids of workspace roles, one for each list of permissions. */
export async function insertRoles(
  { organization_id }: Tenant,
  lists: readonly (readonly Permission[])[],
): Promise<string[]> {
  const rows = lists.map(permissions => ({ id: unusedId(), permissions }))
  await runAsSystem(
    getApp().database,
    sql`
      insert into roles (id, organization_id, scope, display_name, permissions)
      select id, ${organization_id}::uuid, 'workspace', id::text, permissions
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as r(id uuid, permissions text[])`,
  )
  return rows.map(({ id }) => id)
}

/** A workspace key has a `tenant_id`. Of a role's permissions, a key may list those that it keeps. */
type NewKey = { tenant_id?: string; role_id: string; permissions?: readonly Permission[]; revoked_at?: string }

export async function insertKeys({ organization_id }: Tenant, keys: NewKey[]): Promise<string[]> {
  const rows = keys.map(key => ({ ...key, text: newApiKey() }))
  const hashed = rows.map(({ text, ...row }) => ({ ...row, hint: makeKeyHint(text), key_hash: sha256Hex(text) }))
  await runAsSystem(
    getApp().database,
    sql`
      insert into api_keys
        (organization_id, description, tenant_id, role_id, permissions, revoked_at, hint, key_hash)
      select ${organization_id}::uuid, 'Key of a test', k.*
      from jsonb_to_recordset(${JSON.stringify(hashed)}::jsonb) as k(
        tenant_id uuid, role_id uuid, permissions text[], revoked_at timestamptz, hint text, key_hash text)`,
  )
  return rows.map(({ text }) => text)
}

export type Entry = {
  /** A key, or the token of a session. */
  key: string
  isSession?: boolean
  workspace?: string | undefined
  permission: Permission
  inWorkspace: boolean
  /** Without it, policies do not matter. */
  access?: string | null
  /** Seconds by which the clock is ahead. */
  ahead?: number
}

const JUDGE = sql`
  create or replace function pg_temp.judge(entry jsonb) returns text
  language plpgsql as $$
  begin
    if (entry ->> 'isSession')::boolean then
      perform enter_by_session(
        entry ->> 'hash', (entry ->> 'workspace')::uuid, entry ->> 'permission', (entry ->> 'inWorkspace')::boolean,
        'judged', entry ->> 'ahead', false, null, null, (entry ->> 'access')::jsonb);
    else
      perform enter_by_key(
        entry ->> 'hash', (entry ->> 'workspace')::uuid, entry ->> 'permission', (entry ->> 'inWorkspace')::boolean,
        'judged', entry ->> 'ahead', false, null, null, (entry ->> 'access')::jsonb);
    end if;
    return 'passes';
  exception when sqlstate 'SW000' then
    return sqlerrm;
  end $$`

/** Returns for each entry `passes`, or the code of its refusal. */
async function judgeEntries(entries: Entry[]): Promise<string[]> {
  const verdicts: string[] = []
  // A trip has a time limit.
  for (let from = 0; from < entries.length; from += 500) {
    const some = entries.slice(from, from + 500).map(({ key, ahead = 0, ...entry }) => ({
      ...entry,
      hash: sha256Hex(key),
      ahead: `${ahead} seconds`,
    }))
    const [, rows] = await getApp().database([
      JUDGE,
      sql`
        select pg_temp.judge(entry)
        from jsonb_array_elements(${JSON.stringify(some)}::jsonb) with ordinality as listed(entry, place)
        order by place`,
    ])
    verdicts.push(...(rows as [string][]).map(([verdict]) => verdict))
  }
  return verdicts
}

/** Returns the entries that got another verdict than `expected`, with theirs. */
export async function findUnexpected<One extends Entry>(
  entries: One[],
  expected: (entry: One) => string,
): Promise<unknown[]> {
  const verdicts = await judgeEntries(entries)
  return entries.flatMap((entry, i) => (verdicts[i] === expected(entry) ? [] : [{ ...entry, verdict: verdicts[i] }]))
}
