// Organizations and workspaces: read, create, change, delete.
import { and, eq, getTableColumns, type Placeholder, sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Config } from '../../env.ts'
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
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { NamedPage } from '../../protocol/wire.ts'
import type * as schema from './schema.ts'
import { organizations, workspaces } from './tables.ts'

type Ref = z.output<typeof schema.WorkspaceRef>

const organizationColumns = {
  ...getTableColumns(organizations),
  permissions: sql<string[]>`to_json(array(select unnest(actor_permissions()) order by 1))`
    .mapWith((text: string) => JSON.parse(text) as string[])
    .as('permissions'),
}
type OrganizationRow = typeof organizations.$inferSelect & { permissions?: string[] }

const organizationToWire = ({ abac, auditLogs, oidc }: Config, row: OrganizationRow) => ({
  id: row.id,
  display_name: row.display_name,
  rbac_enabled: row.rbac_enabled,
  assume_s256: row.assume_s256,
  config: { can_use_rbac: true, can_use_abac: abac, can_use_audit_logs: auditLogs },
  // An answer that the previous release stored has none.
  permissions: row.permissions ?? [],
  tier: null,
  is_personal: false as const,
  disabled: false as const,
  sso_only: false as const,
  jit_provisioning_enabled: oidc?.domains.some(([, organization]) => organization === row.id) ?? false,
  invites_enabled: true as const,
  public_sharing_disabled: false as const,
  pat_creation_disabled: false as const,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const workspaceToWire = (row: typeof workspaces.$inferSelect) => ({
  id: row.id,
  organization_id: row.organization_id,
  display_name: row.display_name,
  require_if_match: row.require_if_match,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const ORGANIZATION_RECORD = recordColumns(organizations, ['display_name', 'rbac_enabled', 'assume_s256'])
const WORKSPACE_RECORD = recordColumns(workspaces, ['display_name', 'require_if_match'])

const currentOrganization = eq(organizations.id, sql`current_organization()`)

const organizationStatement = prepareStatement(() =>
  db.select(organizationColumns).from(organizations).where(currentOrganization),
)

export const readOrganization = verb('organization:read', async ctx =>
  organizationToWire(ctx.config, requireRow(await run(ctx, organizationStatement({})), 'organization_not_found')),
)

export const changeOrganization = verb(
  'organization:update',
  async (ctx, patch: z.output<typeof schema.OrganizationPatch>) => {
    const { display_name, rbac_enabled, assume_s256 } = patch
    const changes = withoutNulls({ display_name, rbac_enabled, assume_s256 })
    const change = db
      .update(organizations)
      .set({ ...changes, ...(assume_s256 && { assume_s256: textArray(assume_s256) }), ...bumpVersion(organizations) })
      .where(and(currentOrganization, versionMatches(ctx, organizations)))
      .returning(organizationColumns)
    const parts = {
      lock: lockRows(organizations, currentOrganization),
      changes: changedMembers(organizations, ORGANIZATION_RECORD),
    }
    const rows = await commit(ctx, 'organization.updated', change, {}, parts)
    return organizationToWire(ctx.config, requireRow(rows, 'organization_not_found'))
  },
)

const pageStatement = prepareStatement((page: Placeholders<NamedPage>) =>
  db
    .select()
    .from(workspaces)
    .where(and(inOrganization(workspaces), hasName(workspaces.display_name, page), afterCursor(workspaces, page)))
    .orderBy(...newestFirst(workspaces))
    .limit(page.limit)
    .offset(page.offset),
)

export const listWorkspaces = verb('workspaces:read', (ctx, page: NamedPage) =>
  readPage(ctx, pageStatement, page, workspaceToWire),
)

/** A workspace key sees its own workspace only. Row-level security enforces the same. */
const reachableWorkspace = (id: string | Placeholder) =>
  and(
    eq(workspaces.id, id),
    inOrganization(workspaces),
    sql`${workspaces.id} = coalesce(current_tenant(), ${workspaces.id})`,
  )

/** An organization key has no current workspace, so enter_by_key() cannot check whether this one requires If-Match. */
const requireIfMatchHeader = ({ withoutIfMatch }: Ctx) =>
  withoutIfMatch ? refuseUnless('if_match_required', sql`not ${workspaces.require_if_match}`) : undefined

const workspaceStatement = prepareStatement(({ workspace_id }: Placeholders<Ref>) =>
  db.select().from(workspaces).where(reachableWorkspace(workspace_id)),
)

export const readWorkspace = verb('workspaces:read', async (ctx, { workspace_id }: Ref) =>
  workspaceToWire(requireRow(await run(ctx, workspaceStatement({ workspace_id })), 'workspace_not_found')),
)

export const createWorkspace = verb('workspaces:create', async (ctx, input: z.output<typeof schema.NewWorkspace>) => {
  const { display_name, require_if_match } = input
  const values = { organization_id: sql`current_organization()`, display_name, require_if_match }
  const change = db.insert(workspaces).values(values).returning()
  const parts = { changes: createdMembers(WORKSPACE_RECORD) }
  return workspaceToWire(
    requireRow(await commit(ctx, 'workspace.created', change, {}, parts), 'organization_not_found'),
  )
})

export const changeWorkspace = verb(
  'workspaces:update',
  async (ctx, { workspace_id, ...patch }: Ref & z.output<typeof schema.WorkspacePatch>) => {
    const changes = withoutNulls({ display_name: patch.display_name, require_if_match: patch.require_if_match })
    const change = db
      .update(workspaces)
      .set({ ...changes, ...bumpVersion(workspaces) })
      .where(and(reachableWorkspace(workspace_id), versionMatches(ctx, workspaces), requireIfMatchHeader(ctx)))
      .returning()
    const parts = {
      lock: lockRows(workspaces, reachableWorkspace(workspace_id)),
      changes: changedMembers(workspaces, WORKSPACE_RECORD),
    }
    return workspaceToWire(requireRow(await commit(ctx, 'workspace.updated', change, {}, parts), 'workspace_not_found'))
  },
)

export const deleteWorkspace = verb('workspaces:delete', async (ctx, { workspace_id }: Ref) => {
  const change = db
    .delete(workspaces)
    .where(and(reachableWorkspace(workspace_id), versionMatches(ctx, workspaces), requireIfMatchHeader(ctx)))
    .returning()
  const parts = { changes: deletedMembers(WORKSPACE_RECORD) }
  requireRow(await commit(ctx, 'workspace.deleted', change, {}, parts), 'workspace_not_found')
})
