// Tables of organizations, workspaces, roles and members.

import { sql } from 'drizzle-orm'
import { boolean, check, foreignKey, index, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { idColumn, instantColumn, newestFirstColumns, versionedColumns } from '../../kernel/db/columns.ts'

export const organizations = pgTable('organizations', {
  id: idColumn(),
  display_name: text().notNull(),
  rbac_enabled: boolean().notNull().default(false),
  /** Hosts of authorization servers that support PKCE with S256 without announcing it. */
  assume_s256: text().array().notNull().default(sql`'{}'`),
  ...versionedColumns(),
})

export const workspaces = pgTable(
  'workspaces',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    display_name: text().notNull(),
    require_if_match: boolean().notNull().default(false),
    /** When its first Admin got a channel, which is made once, or when it had one of another kind. */
    owner_channel_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('workspace_name_taken').on(t.organization_id, t.display_name),
    index('workspaces_page').on(t.organization_id, ...newestFirstColumns(t)),
    index('workspaces_without_owner_channel').on(t.created_at).where(sql`owner_channel_at is null`),
  ],
)

/** The tenant of a row that is deleted with its workspace. */
export const tenantColumns = () => ({
  organization_id: uuid().notNull(),
  tenant_id: uuid()
    .notNull()
    .references(() => workspaces.id, { onDelete: 'cascade' }),
})

/** Built-in roles have no organization. Every organization can use them. */
export const roles = pgTable(
  'roles',
  {
    id: idColumn(),
    organization_id: uuid().references(() => organizations.id, { onDelete: 'cascade' }),
    scope: text({ enum: ['workspace', 'organization'] }).notNull(),
    display_name: text().notNull(),
    description: text().notNull().default(''),
    permissions: text().array().notNull(),
    owner: text(),
    ...versionedColumns(),
  },
  t => [
    unique('role_name_taken').on(t.organization_id, t.display_name).nullsNotDistinct(),
    check('role_scope', sql`${t.scope} in ('workspace', 'organization')`),
  ],
)

export const members = pgTable(
  'members',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    email: text().notNull(),
    full_name: text(),
    role_id: uuid().notNull(),
    ...versionedColumns(),
  },
  t => [
    unique('member_exists').on(t.organization_id, t.email),
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('members_page').on(t.organization_id, ...newestFirstColumns(t)),
    index('members_role').on(t.role_id),
  ],
)

export const workspaceMembers = pgTable(
  'workspace_members',
  {
    id: idColumn(),
    ...tenantColumns(),
    member_id: uuid()
      .notNull()
      .references(() => members.id, { onDelete: 'cascade' }),
    role_id: uuid().notNull(),
    ...versionedColumns(),
  },
  t => [
    unique('workspace_member_exists').on(t.tenant_id, t.member_id),
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('workspace_members_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('workspace_members_member').on(t.member_id),
    index('workspace_members_role').on(t.role_id),
  ],
)
