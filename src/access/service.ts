// Organisations and workspaces: what can happen to them.
import { and, eq, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb } from '../kernel/context.ts'
import { db, ours, run, textArray, touched, unless, unmoved } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { version } from '../kernel/routes.ts'
import { found, iso, supplied } from '../kernel/rows.ts'
import type { Page } from '../kernel/wire.ts'
import { organizations, workspaces } from '../tables.ts'
import type * as schema from './schema.ts'

type Ref = z.output<typeof schema.WorkspaceRef>

const organizationToWire = (row: typeof organizations.$inferSelect) => ({
  id: row.id,
  display_name: row.display_name,
  rbac_enabled: row.rbac_enabled,
  assume_s256: row.assume_s256,
  created_at: iso(row.created_at),
  updated_at: iso(row.updated_at),
  [version]: row.version,
})

const workspaceToWire = (row: typeof workspaces.$inferSelect) => ({
  id: row.id,
  organization_id: row.organization_id,
  display_name: row.display_name,
  require_if_match: row.require_if_match,
  created_at: iso(row.created_at),
  updated_at: iso(row.updated_at),
  [version]: row.version,
})

const current = eq(organizations.id, sql`current_organization()`)

export const readOrganization = verb('organization:read', async ctx => {
  const rows = await run(ctx, db.select().from(organizations).where(current))
  return organizationToWire(found(rows, 'organization_not_found'))
})

export const changeOrganization = verb(
  'organization:update',
  async (ctx, patch: z.output<typeof schema.OrganizationPatch>) => {
    const { display_name, rbac_enabled, assume_s256 } = patch
    const changes = supplied({ display_name, rbac_enabled, assume_s256 })
    const change = db
      .update(organizations)
      .set({ ...changes, ...(assume_s256 && { assume_s256: textArray(assume_s256) }), ...touched(organizations) })
      .where(and(current, unmoved(ctx, organizations)))
      .returning()
    return organizationToWire(
      found(await commit(ctx, 'organization.updated', change, changes), 'organization_not_found'),
    )
  },
)

export const listWorkspaces = verb('workspaces:read', async (ctx, page: Page) => {
  const { limit, offset } = bounds(page)
  const query = db
    .select()
    .from(workspaces)
    .where(and(ours(workspaces), beyond(workspaces, page)))
    .orderBy(...newestFirst(workspaces))
    .limit(limit)
    .offset(offset)
  return listed(await run(ctx, query), page, workspaceToWire)
})

/** A workspace key sees its own workspace only: row-level security says so, and for it this predicate says so too. */
const reachable = (id: string) =>
  and(eq(workspaces.id, id), ours(workspaces), sql`${workspaces.id} = coalesce(current_tenant(), ${workspaces.id})`)

/** An organisation key acts on a workspace from outside, where enter() does not know what that workspace demands. */
const demanded = ({ withoutIfMatch }: Ctx) =>
  withoutIfMatch ? unless('if_match_required', sql`not ${workspaces.require_if_match}`) : undefined

export const readWorkspace = verb('workspaces:read', async (ctx, { workspace_id }: Ref) => {
  const rows = await run(ctx, db.select().from(workspaces).where(reachable(workspace_id)))
  return workspaceToWire(found(rows, 'workspace_not_found'))
})

export const createWorkspace = verb('workspaces:create', async (ctx, input: z.output<typeof schema.NewWorkspace>) => {
  const { display_name, require_if_match } = input
  const values = { organization_id: sql`current_organization()`, display_name, require_if_match }
  const change = db.insert(workspaces).values(values).returning()
  return workspaceToWire(
    found(await commit(ctx, 'workspace.created', change, { display_name }), 'organization_not_found'),
  )
})

export const changeWorkspace = verb(
  'workspaces:update',
  async (ctx, { workspace_id, ...patch }: Ref & z.output<typeof schema.WorkspacePatch>) => {
    const changes = supplied({ display_name: patch.display_name, require_if_match: patch.require_if_match })
    const change = db
      .update(workspaces)
      .set({ ...changes, ...touched(workspaces) })
      .where(and(reachable(workspace_id), unmoved(ctx, workspaces), demanded(ctx)))
      .returning()
    return workspaceToWire(found(await commit(ctx, 'workspace.updated', change, changes), 'workspace_not_found'))
  },
)

export const deleteWorkspace = verb('workspaces:delete', async (ctx, { workspace_id }: Ref) => {
  const change = db
    .delete(workspaces)
    .where(and(reachable(workspace_id), unmoved(ctx, workspaces), demanded(ctx)))
    .returning()
  found(await commit(ctx, 'workspace.deleted', change), 'workspace_not_found')
})
