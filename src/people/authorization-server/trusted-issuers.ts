// Creates, reads, changes and deletes the issuers whose tokens a workspace exchanges for keys.
//
// To trust an issuer takes the permission to create keys: it is a key whose secret the CI has. So the caller must have
// the permissions of its role, and it ends with the key that granted it.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inTenant, lockRows, type Row, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { requireAllowedUrl } from '../../kernel/http/guarded-fetch.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { NamedPage } from '../../protocol/wire.ts'
import { apiKeys } from '../access/api-keys.tables.ts'
import type * as schema from './trusted-issuers.schema.ts'
import { trustedIssuers } from './trusted-issuers.tables.ts'

type Ref = z.output<typeof schema.TrustedIssuerRef>

const visibleColumns = {
  ...getTableColumns(trustedIssuers),
  is_ended: sql<boolean>`is_grant_ended(${trustedIssuers.granted_by}, ${trustedIssuers.expires_at})`.as('is_ended'),
}
type TrustedIssuerRow = typeof trustedIssuers.$inferSelect & { is_ended: boolean }

const toWire = (row: TrustedIssuerRow): schema.TrustedIssuer & { [etagVersion]: number } => ({
  id: row.id,
  name: row.name,
  issuer: row.issuer,
  audience: row.audience,
  subject: row.subject,
  claims: row.claims,
  role_id: row.role_id,
  key_minutes: row.key_minutes,
  expires_at: toIsoTime(row.expires_at),
  granted_by: row.granted_by,
  state: row.is_ended ? 'ended' : 'active',
  last_used_at: toIsoTime(row.last_used_at),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const RECORD = recordColumns(trustedIssuers, [
  'name',
  'issuer',
  'audience',
  'subject',
  'claims',
  'role_id',
  'key_minutes',
  'expires_at',
  'granted_by',
])

const isTrustedIssuer = ({ trusted_issuer_id }: Ref | Placeholders<Ref>): SQL =>
  and(eq(trustedIssuers.id, trusted_issuer_id), inTenant(trustedIssuers))!

const GRANTING_KEY = sql`granting_key()`

const pageStatement = prepareStatement((page: Placeholders<NamedPage>) =>
  db
    .select(visibleColumns)
    .from(trustedIssuers)
    .where(and(inTenant(trustedIssuers), hasName(trustedIssuers.name, page), afterCursor(trustedIssuers, page)))
    .orderBy(...newestFirst(trustedIssuers))
    .limit(page.limit)
    .offset(page.offset),
)

export const listTrustedIssuers = verb('api-keys:read', (ctx, page: NamedPage) =>
  readPage(ctx, pageStatement, page, toWire),
)

const trustedIssuerStatement = prepareStatement((ref: Placeholders<Ref>) =>
  db.select(visibleColumns).from(trustedIssuers).where(isTrustedIssuer(ref)),
)

export const readTrustedIssuer = verb('api-keys:read', async (ctx, { trusted_issuer_id }: Ref) => {
  const rows = await run(ctx, trustedIssuerStatement({ trusted_issuer_id }))
  return toWire(requireRow(rows, 'trusted_issuer_not_found'))
})

export const createTrustedIssuer = verb(
  'workspaces:manage-keys',
  async (ctx, { audience, role_id, expires_at, ...input }: schema.NewTrustedIssuer) => {
    requireAllowedUrl(ctx.config, ctx.origin, input.issuer)
    const values = {
      ...input,
      organization_id: sql`current_organization()`,
      tenant_id: sql`current_tenant()`,
      audience: audience ?? ctx.origin,
      role_id: sql`require_grantable_role(${role_id}::uuid, 'workspace')`,
      expires_at: sql`new_key_expiry(${expires_at ?? null}::timestamptz)`,
      granted_by: GRANTING_KEY,
    }
    const change = db.insert(trustedIssuers).values(values).returning(visibleColumns)
    const rows = await commit(ctx, 'trusted_issuer.created', change, {}, { changes: createdMembers(RECORD) })
    return toWire(requireRow(rows, 'role_not_found'))
  },
)

/** A caller who can change the trust can also create it, so the grant is the caller's from then on. */
function grantAgain({ role_id, expires_at }: schema.TrustedIssuerPatch) {
  const role = sql`coalesce(${role_id ?? null}::uuid, ${trustedIssuers.role_id})`
  const end = expires_at ? sql`new_key_expiry(${expires_at}::timestamptz)` : trustedIssuers.expires_at
  return {
    role_id: sql`require_grantable_role(${role}, 'workspace')`,
    expires_at: sql`least(${end}, (maker_key()).expires_at)`,
    granted_by: GRANTING_KEY,
  }
}

export const changeTrustedIssuer = verb(
  'workspaces:manage-keys',
  async (ctx, { trusted_issuer_id, ...input }: Ref & schema.TrustedIssuerPatch) => {
    if (input.issuer != null) requireAllowedUrl(ctx.config, ctx.origin, input.issuer)
    const given = withoutNulls(input)
    const isGrant = Object.keys(given).some(member => member !== 'name')
    const ref = isTrustedIssuer({ trusted_issuer_id })
    const change = db
      .update(trustedIssuers)
      .set({ ...given, ...(isGrant && grantAgain(input)), ...bumpVersion(trustedIssuers) })
      .where(and(ref, versionMatches(ctx, trustedIssuers)))
      .returning(visibleColumns)
    const parts = { lock: lockRows(trustedIssuers, ref), changes: changedMembers(trustedIssuers, RECORD) }
    const data = { supplied: Object.keys(given) }
    const rows = await commit(ctx, 'trusted_issuer.updated', change, data, parts)
    return toWire(requireRow(rows, 'trusted_issuer_not_found'))
  },
)

/** Deletes the keys that its tokens were exchanged for, too. */
export const deleteTrustedIssuer = verb('api-keys:delete', async (ctx: Ctx, params: Ref) => {
  const ref = isTrustedIssuer(params)
  // Locks keys in the order of their ids, as a revocation of the key that granted the role does.
  const keys = sql<Row>`
    select
    from ${apiKeys} a
    where a.id in (
      with recursive tree as (
        select made.id
        from ${apiKeys} made
        join ${trustedIssuers} on ${trustedIssuers.id} = made.trusted_issuer_id
        where ${ref} and made.tenant_id = current_tenant() and made.revoked_at is null and made.expires_at > clock()
        union
        select made.id
        from ${apiKeys} made
        join tree on made.created_by = tree.id
      )
      select id from tree
    )
    order by a.id
    for no key update`
  const change = db
    .delete(trustedIssuers)
    .where(and(ref, versionMatches(ctx, trustedIssuers)))
    .returning()
  const revocation = sql<Row>`
    select revoke_key_tree(exchanged.id)
    from (
      select a.id
      from ${apiKeys} a
      join ${trustedIssuers} on ${trustedIssuers.id} = a.trusted_issuer_id
      where ${ref} and a.tenant_id = current_tenant() and a.revoked_at is null and a.expires_at > clock()
    ) exchanged`
  const parts = { lock: [lockRows(trustedIssuers, ref), keys, revocation], changes: deletedMembers(RECORD) }
  requireRow(await commit(ctx, 'trusted_issuer.deleted', change, {}, parts), 'trusted_issuer_not_found')
})
