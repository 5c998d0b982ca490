// API keys of workspaces and of organisations: made once, shown once, never able to do more than the key that made them.
import { and, eq, getTableColumns, isNull, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { hintOf, newApiKey } from '../kernel/crypto.ts'
import { db, mine, ours, type Row, run, textArray } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { commit } from '../kernel/journal.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { found, iso, supplied } from '../kernel/rows.ts'
import { apiKeys } from '../tables.ts'
import type * as schema from './schema.ts'

type Ref = z.output<typeof schema.KeyRef>
type Input = z.output<typeof schema.NewApiKey>

type KeyPage = z.output<typeof schema.KeyQuery>

const { key_hash: _, budget_id: __, ...visible } = getTableColumns(apiKeys)
type KeyRow = Omit<typeof apiKeys.$inferSelect, 'key_hash' | 'budget_id'>

const toWire = (row: KeyRow) => ({
  id: row.id,
  organization_id: row.organization_id,
  tenant_id: row.tenant_id,
  listener_id: row.listener_id,
  description: row.description,
  hint: row.hint,
  role_id: row.role_id,
  permissions: row.permissions,
  expires_at: iso(row.expires_at),
  last_used_at: iso(row.last_used_at),
  created_by: row.created_by,
  created_at: iso(row.created_at),
})

const ofWorkspace = mine(apiKeys)
const ofOrganization = ours(apiKeys)

async function list(ctx: Ctx, page: KeyPage, within: SQL) {
  const { limit, offset } = bounds(page)
  const madeBy = page.created_by ? eq(apiKeys.created_by, page.created_by) : undefined
  const query = db
    .select(visible)
    .from(apiKeys)
    .where(and(within, isNull(apiKeys.revoked_at), madeBy, beyond(apiKeys, page)))
    .orderBy(...newestFirst(apiKeys))
    .limit(limit)
    .offset(offset)
  return listed(await run(ctx, query), page, toWire)
}

/** A listener's agent has a key that is bound to it. */
export async function makeKey(ctx: Ctx, input: Input, tenant: SQL, scope: 'workspace' | 'key', listener?: SQL) {
  const key = newApiKey()
  const { description, role_id, permissions, expires_at } = input
  // Without a role the new key is as its maker, and as narrow.
  const narrowed = permissions ? textArray(permissions) : role_id ? sql`null::text[]` : sql`(actor_key()).permissions`
  const values = {
    organization_id: sql`current_organization()`,
    tenant_id: tenant,
    ...(listener && { listener_id: listener }),
    description,
    hint: hintOf(key),
    key_hash: sha256Hex(key),
    role_id: sql`grantable_role(${role_id ?? sql`actor_role(${scope})`}::uuid, ${scope}, ${narrowed})`,
    permissions: narrowed,
    expires_at: sql`grantable_expiry(${expires_at ?? null}::timestamptz)`,
    created_by: sql`current_actor()`,
  }
  // It travels sealed with the row, so that a repeated request can be answered with the same key, and only to the same caller.
  const caller = ctx.actor.kind === 'key' ? ctx.actor.hash : ctx.requestId
  const sealed = await ctx.sealer.seal(key, caller, 'api_key')
  const change = db
    .insert(apiKeys)
    .values(values)
    .returning({ ...visible, sealed_key: sql<string>`${sealed}::text`.as('sealed_key') })
  const data = supplied({ description, role_id, permissions, expires_at })
  const row = found(await commit(ctx, 'api_key.created', change, data), 'role_not_found')
  return { ...toWire(row), key: await ctx.sealer.open(row.sealed_key, caller, 'api_key') }
}

const theOne = ({ key_id }: Ref, within: SQL) => and(eq(apiKeys.id, key_id), within, isNull(apiKeys.revoked_at))

/** Keys that were revoked before revoking spread to what they made are passed through: what they made may be alive. */
async function read(ctx: Ctx, ref: Ref, within: SQL) {
  const reached = sql`(select id, created_by, revoked_at from ${apiKeys} where ${within})`
  const made = sql<string>`(
    with recursive made as (
      select ${ref.key_id}::uuid as id
      union
      select child.id
      from made
      join ${reached} child on child.created_by = made.id)
    select count(*)
    from made
    join ${reached} child on child.id = made.id
    where child.id <> ${ref.key_id}::uuid and child.revoked_at is null)`
  const query = db
    .select({ ...visible, descendants: made.as('descendants') })
    .from(apiKeys)
    .where(theOne(ref, within))
  const row = found(await run(ctx, query), 'key_not_found')
  return { ...toWire(row), descendants: Number(row.descendants) }
}

/** The function revokes the keys that it made too, and journals each where it belongs. */
async function revoke(ctx: Ctx, ref: Ref, within: SQL) {
  const revoked = sql<Row>`
    select revoke_key_tree(reached.id)
    from (select ${apiKeys.id} from ${apiKeys} where ${theOne(ref, within)}) reached`
  found(await run(ctx, revoked), 'key_not_found')
}

export const listWorkspaceKeys = verb('api-keys:read', (ctx, page: KeyPage) => list(ctx, page, ofWorkspace))
export const readWorkspaceKey = verb('api-keys:read', (ctx, ref: Ref) => read(ctx, ref, ofWorkspace))
export const createWorkspaceKey = verb('api-keys:create', (ctx, input: Input) =>
  makeKey(ctx, input, sql`current_tenant()`, 'workspace'),
)
export const revokeWorkspaceKey = verb('api-keys:delete', (ctx, ref: Ref) => revoke(ctx, ref, ofWorkspace))

export const listOrganizationKeys = verb('organization:manage-keys', (ctx, page: KeyPage) =>
  list(ctx, page, ofOrganization),
)
export const readOrganizationKey = verb('organization:manage-keys', (ctx, ref: Ref) => read(ctx, ref, ofOrganization))
export const createOrganizationKey = verb('organization:manage-keys', (ctx, input: Input) =>
  makeKey(ctx, input, sql`null::uuid`, 'key'),
)
export const revokeOrganizationKey = verb('organization:manage-keys', (ctx, ref: Ref) =>
  revoke(ctx, ref, ofOrganization),
)
