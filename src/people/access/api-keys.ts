// API keys of workspaces and organizations: shown once, and never with more permissions than the key that created them.
import { and, eq, getTableColumns, isNull, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { makeKeyHint, newApiKey } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { db, inOrganization, inTenant, type Row, run, textArray } from '../../kernel/db/db.ts'
import { commit, openOwnAnswer, ownerOfAnswer } from '../../kernel/db/journal.ts'
import { createdMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { apiKeys } from './api-keys.tables.ts'
import type * as schema from './schema.ts'

type Ref = z.output<typeof schema.KeyRef>
type NewKeyInput = z.output<typeof schema.NewApiKey>

type KeyPage = z.output<typeof schema.KeyQuery>

const { key_hash: _, budget_id: __, ...ownColumns } = getTableColumns(apiKeys)
type BoundMember = { id: string; email: string }
type ConnectedClient = { id: string; name: string; expires_at: string }
const visibleColumns = {
  ...ownColumns,
  member: sql<BoundMember | null>`(
      select json_build_object('id', m.id, 'email', m.email)
      from members m
      where m.id = ${apiKeys.member_id}
    )`
    .mapWith((text: string) => JSON.parse(text) as BoundMember)
    .as('member'),
  client: sql<ConnectedClient | null>`client_of_key(${apiKeys.id})`
    .mapWith((text: string) => JSON.parse(text) as ConnectedClient)
    .as('client'),
}
type KeyRow = Omit<typeof apiKeys.$inferSelect, 'key_hash' | 'budget_id'> & {
  member: BoundMember | null
  client: ConnectedClient | null
}

const toWire = (row: KeyRow) => ({
  id: row.id,
  organization_id: row.organization_id,
  tenant_id: row.tenant_id,
  listener_id: row.listener_id,
  description: row.description,
  hint: row.hint,
  role_id: row.role_id,
  permissions: row.permissions,
  expires_at: toIsoTime(row.expires_at),
  last_used_at: toIsoTime(row.last_used_at),
  created_by: row.created_by,
  member: row.member,
  trusted_issuer_id: row.trusted_issuer_id,
  client: row.client && { ...row.client, expires_at: toIsoTime(row.client.expires_at) },
  created_at: toIsoTime(row.created_at),
})

export const KEY_RECORD = recordColumns(apiKeys, [
  'description',
  'listener_id',
  'role_id',
  'permissions',
  'expires_at',
  'created_by',
  'member_id',
])

/** The member is set for the keys of the organization, and not for those of the workspace. */
type Scope = { organization?: true }
const WORKSPACE: Scope = {}
const ORGANIZATION: Scope = { organization: true }
const isInScope = ({ organization }: Scope | Placeholders<Scope>): SQL =>
  organization ? inOrganization(apiKeys) : inTenant(apiKeys)

/** Jobs of a CI get a key each, which would hide all others once it has expired. */
const IS_LISTED = sql`(${apiKeys.trusted_issuer_id} is null or ${apiKeys.expires_at} > clock())`

const pageStatement = prepareStatement((page: Placeholders<KeyPage & Scope>) => {
  const within = isInScope(page)
  const createdBy = page.created_by && eq(apiKeys.created_by, page.created_by)
  const isDescribed = hasName(apiKeys.description, { name: page.description })
  return db
    .select(visibleColumns)
    .from(apiKeys)
    .where(and(within, isNull(apiKeys.revoked_at), IS_LISTED, createdBy, isDescribed, afterCursor(apiKeys, page)))
    .orderBy(...newestFirst(apiKeys))
    .limit(page.limit)
    .offset(page.offset)
})

const listKeys = (ctx: Ctx, page: KeyPage, scope: Scope) => readPage(ctx, pageStatement, { ...page, ...scope }, toWire)

/** The permissions that the caller's key lists. Its member may have lost some of them. */
const OWN_PERMISSIONS = sql`case
  when (actor_key()).member_id is null then (actor_key()).permissions
  else actor_permissions()
end`

/** With `listener`, the key is for that listener's agent. */
export async function createKey(ctx: Ctx, input: NewKeyInput, tenant: SQL, scope: 'workspace' | 'key', listener?: SQL) {
  const key = newApiKey()
  const { description, role_id, permissions, expires_at } = input
  // Without a role the new key gets the caller's role and permissions.
  const narrowed = permissions ? textArray(permissions) : role_id ? sql`null::text[]` : OWN_PERMISSIONS
  const values = {
    organization_id: sql`current_organization()`,
    tenant_id: tenant,
    ...(listener && { listener_id: listener }),
    description,
    hint: makeKeyHint(key),
    key_hash: sha256Hex(key),
    role_id: sql`require_grantable_role(${role_id ?? sql`default_key_role(${scope})`}::uuid, ${scope}, ${narrowed})`,
    permissions: narrowed,
    expires_at: sql`new_key_expiry(${expires_at ?? null}::timestamptz)`,
    created_by: sql`(maker_key()).id`,
  }
  // Sealed for the caller, the key is stored with the answer: a replay under the idempotency key returns it again.
  const sealed = await ctx.sealer.seal(key, ownerOfAnswer(ctx), 'api_key')
  const change = db
    .insert(apiKeys)
    .values(values)
    .returning({ ...visibleColumns, sealed_key: sql<string>`${sealed}::text`.as('sealed_key') })
  const rows = await commit(ctx, 'api_key.created', change, {}, { changes: createdMembers(KEY_RECORD) })
  const row = requireRow(rows, 'role_not_found')
  return { ...toWire(row), key: await openOwnAnswer(ctx, row.sealed_key, 'api_key') }
}

type ScopedRef = Ref & Scope
const activeKey = ({ key_id, ...scope }: ScopedRef | Placeholders<ScopedRef>) =>
  and(eq(apiKeys.id, key_id), isInScope(scope), isNull(apiKeys.revoked_at))

/** Revoked keys count as links of the tree: keys created with them may still be active. */
const keyStatement = prepareStatement((ref: Placeholders<ScopedRef>) => {
  const visibleKeys = sql`(select id, created_by, revoked_at from ${apiKeys} where ${isInScope(ref)})`
  const descendants = sql<string>`(
    with recursive tree as (
      select ${ref.key_id}::uuid as id
      union
      select child.id
      from tree
      join ${visibleKeys} child on child.created_by = tree.id)
    select count(*)
    from tree
    join ${visibleKeys} child on child.id = tree.id
    where child.id <> ${ref.key_id}::uuid and child.revoked_at is null)`
  return db
    .select({ ...visibleColumns, descendants: descendants.as('descendants') })
    .from(apiKeys)
    .where(activeKey(ref))
})

async function readKey(ctx: Ctx, { key_id }: Ref, scope: Scope) {
  const row = requireRow(await run(ctx, keyStatement({ key_id, ...scope })), 'key_not_found')
  return { ...toWire(row), descendants: Number(row.descendants) }
}

async function revokeKey(ctx: Ctx, { key_id }: Ref, scope: Scope) {
  const revocation = sql<Row>`
    select revoke_key_tree(visible.id)
    from (select ${apiKeys.id} from ${apiKeys} where ${activeKey({ key_id, ...scope })}) visible`
  requireRow(await run(ctx, revocation), 'key_not_found')
}

export const listWorkspaceKeys = verb('api-keys:read', (ctx, page: KeyPage) => listKeys(ctx, page, WORKSPACE))
export const readWorkspaceKey = verb('api-keys:read', (ctx, ref: Ref) => readKey(ctx, ref, WORKSPACE))
export const createWorkspaceKey = verb('api-keys:create', (ctx, input: NewKeyInput) =>
  createKey(ctx, input, sql`current_tenant()`, 'workspace'),
)
export const revokeWorkspaceKey = verb('api-keys:delete', (ctx, ref: Ref) => revokeKey(ctx, ref, WORKSPACE))

export const listOrganizationKeys = verb('organization:manage-keys', (ctx, page: KeyPage) =>
  listKeys(ctx, page, ORGANIZATION),
)
export const readOrganizationKey = verb('organization:manage-keys', (ctx, ref: Ref) => readKey(ctx, ref, ORGANIZATION))
export const createOrganizationKey = verb('organization:manage-keys', (ctx, input: NewKeyInput) =>
  createKey(ctx, input, sql`null::uuid`, 'key'),
)
export const revokeOrganizationKey = verb('organization:manage-keys', (ctx, ref: Ref) =>
  revokeKey(ctx, ref, ORGANIZATION),
)
