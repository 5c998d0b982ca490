// Roles: built-in ones are everyone's, custom ones an organisation's.
import { and, eq, isNull, or, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import { db, ours, run, textArray, touched, unless, unmoved } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { permissionNames, permissionsBeyondWorkspace } from '../kernel/permissions.ts'
import { version } from '../kernel/routes.ts'
import { found, iso, supplied } from '../kernel/rows.ts'
import type { Page } from '../kernel/wire.ts'
import { roles } from '../tables.ts'
import { isBuiltIn } from './built-in.ts'
import type * as schema from './schema.ts'

type Ref = z.output<typeof schema.RoleRef>

const toWire = (row: typeof roles.$inferSelect) => ({
  id: row.id,
  organization_id: row.organization_id,
  scope: row.scope,
  display_name: row.display_name,
  description: row.description,
  permissions: row.permissions,
  created_at: iso(row.created_at),
  updated_at: iso(row.updated_at),
  [version]: row.version,
})

const visible = or(isNull(roles.organization_id), ours(roles))
const grantable = (names: string[]) => sql`grantable(${textArray(names)})`

export const listPermissions = verb('organization:read', async ctx => {
  await run(ctx, sql`select 1`)
  const scopeOf = (name: (typeof permissionNames)[number]) =>
    permissionsBeyondWorkspace.includes(name) ? ('organization' as const) : ('workspace' as const)
  return { resources: permissionNames.map(name => ({ name, scope: scopeOf(name) })) }
})

export const listRoles = verb('organization:read', async (ctx, page: Page) => {
  const { limit, offset } = bounds(page)
  const query = db
    .select()
    .from(roles)
    .where(and(visible, beyond(roles, page)))
    .orderBy(...newestFirst(roles))
    .limit(limit)
    .offset(offset)
  return listed(await run(ctx, query), page, toWire)
})

export const readRole = verb('organization:read', async (ctx, { role_id }: Ref) => {
  const rows = await run(
    ctx,
    db
      .select()
      .from(roles)
      .where(and(eq(roles.id, role_id), visible)),
  )
  return toWire(found(rows, 'role_not_found'))
})

export const createRole = verb('organization:manage-roles', async (ctx, input: z.output<typeof schema.NewRole>) => {
  const { scope, display_name, description, permissions } = input
  const values = {
    organization_id: sql`current_organization()`,
    scope,
    display_name,
    description,
    permissions: grantable(permissions),
  }
  const change = db.insert(roles).values(values).returning()
  return toWire(found(await commit(ctx, 'role.created', change, { display_name, permissions }), 'role_not_found'))
})

/** Widening a role widens whoever has it, the caller perhaps among them: nobody hands on what they lack. */
export const changeRole = verb(
  'organization:manage-roles',
  async (ctx, { role_id, ...patch }: Ref & z.output<typeof schema.RolePatch>) => {
    const { display_name, description, permissions } = patch
    const changes = supplied({ display_name, description, permissions })
    const within = sql`${roles.scope} = 'organization' or not ${textArray(permissions ?? [])} && ${textArray(permissionsBeyondWorkspace)}`
    const change = db
      .update(roles)
      .set({ ...changes, ...(permissions && { permissions: grantable(permissions) }), ...touched(roles) })
      .where(and(custom(role_id), unless('permission_beyond_scope', within), unmoved(ctx, roles)))
      .returning()
    return toWire(found(await commit(ctx, 'role.updated', change, changes), absent(role_id)))
  },
)

export const deleteRole = verb('organization:manage-roles', async (ctx, { role_id }: Ref) => {
  const change = db
    .delete(roles)
    .where(and(custom(role_id), unmoved(ctx, roles)))
    .returning()
  found(await commit(ctx, 'role.deleted', change), absent(role_id))
})

/** The policies show built-in roles and let nobody change them. */
const custom = (id: string) => and(eq(roles.id, id), ours(roles))
const absent = (id: string) => (isBuiltIn(id) ? 'role_built_in' : 'role_not_found')
