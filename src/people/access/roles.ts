// Roles: the built-in ones of every organization, and the custom ones of one.
import { and, eq, isNull, or, sql } from 'drizzle-orm'
import type * as z from 'zod'
import {
  bumpVersion,
  db,
  inOrganization,
  lockRows,
  refuseUnless,
  run,
  textArray,
  versionMatches,
} from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, hasName, hasOwner, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { organizationPermissions, permissionNames } from '../../kernel/permissions.ts'
import type { NamedPage, OwnedBy } from '../../protocol/wire.ts'
import { isBuiltInRole } from './built-in-roles.ts'
import type * as schema from './schema.ts'
import { roles } from './tables.ts'

type Ref = z.output<typeof schema.RoleRef>

const toWire = (row: typeof roles.$inferSelect) => ({
  id: row.id,
  organization_id: row.organization_id,
  scope: row.scope,
  display_name: row.display_name,
  description: row.description,
  permissions: row.permissions,
  owner: row.owner,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const ROLE_RECORD = recordColumns(roles, ['scope', 'display_name', 'description', 'permissions', 'owner'])

const visibleRoles = or(isNull(roles.organization_id), inOrganization(roles))
const grantablePermissions = (names: string[]) => sql`require_grantable_permissions(${textArray(names)})`

export const listPermissions = verb('organization:read', async ctx => {
  await run(ctx, sql`select 1`)
  const scopeOf = (name: (typeof permissionNames)[number]) =>
    organizationPermissions.includes(name) ? ('organization' as const) : ('workspace' as const)
  return { resources: permissionNames.map(name => ({ name, scope: scopeOf(name) })) }
})

const pageStatement = prepareStatement((page: Placeholders<NamedPage & OwnedBy>) =>
  db
    .select()
    .from(roles)
    .where(and(visibleRoles, hasName(roles.display_name, page), hasOwner(roles.owner, page), afterCursor(roles, page)))
    .orderBy(...newestFirst(roles))
    .limit(page.limit)
    .offset(page.offset),
)

export const listRoles = verb('organization:read', (ctx, page: NamedPage & OwnedBy) =>
  readPage(ctx, pageStatement, page, toWire),
)

const roleStatement = prepareStatement(({ role_id }: Placeholders<Ref>) =>
  db
    .select()
    .from(roles)
    .where(and(eq(roles.id, role_id), visibleRoles)),
)

export const readRole = verb('organization:read', async (ctx, { role_id }: Ref) =>
  toWire(requireRow(await run(ctx, roleStatement({ role_id })), 'role_not_found')),
)

export const createRole = verb('organization:manage-roles', async (ctx, input: z.output<typeof schema.NewRole>) => {
  const { scope, display_name, description, permissions, owner } = input
  const values = {
    organization_id: sql`current_organization()`,
    scope,
    display_name,
    description,
    permissions: grantablePermissions(permissions),
    owner: owner ?? null,
  }
  const change = db.insert(roles).values(values).returning()
  const parts = { changes: createdMembers(ROLE_RECORD) }
  return toWire(requireRow(await commit(ctx, 'role.created', change, {}, parts), 'role_not_found'))
})

/** A role with more permissions gives them to everyone who has it, so the caller must have them already. */
export const changeRole = verb(
  'organization:manage-roles',
  async (ctx, { role_id, ...patch }: Ref & z.output<typeof schema.RolePatch>) => {
    const { display_name, description, permissions, owner } = patch
    const changes = withoutNulls({ display_name, description, permissions })
    const isWithinScope = sql`${roles.scope} = 'organization'
      or not ${textArray(permissions ?? [])} && ${textArray(organizationPermissions)}`
    const change = db
      .update(roles)
      .set({
        ...changes,
        ...(permissions && { permissions: grantablePermissions(permissions) }),
        ...(owner != null && { owner: owner || null }),
        ...bumpVersion(roles),
      })
      .where(
        and(customRole(role_id), refuseUnless('permission_beyond_scope', isWithinScope), versionMatches(ctx, roles)),
      )
      .returning()
    const parts = { lock: lockRows(roles, customRole(role_id)), changes: changedMembers(roles, ROLE_RECORD) }
    return toWire(requireRow(await commit(ctx, 'role.updated', change, {}, parts), missingRoleCode(role_id)))
  },
)

export const deleteRole = verb('organization:manage-roles', async (ctx, { role_id }: Ref) => {
  const change = db
    .delete(roles)
    .where(and(customRole(role_id), versionMatches(ctx, roles)))
    .returning()
  const parts = { changes: deletedMembers(ROLE_RECORD) }
  requireRow(await commit(ctx, 'role.deleted', change, {}, parts), missingRoleCode(role_id))
})

/** Row-level security shows built-in roles and does not let anyone change them. */
const customRole = (id: string) => and(eq(roles.id, id), inOrganization(roles))
const missingRoleCode = (id: string) => (isBuiltInRole(id) ? 'role_built_in' : 'role_not_found')
