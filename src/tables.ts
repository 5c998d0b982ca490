// Every table. Property names are column names, as on the wire; unique constraints are named for the error they mean.
import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  foreignKey,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uuid,
} from 'drizzle-orm/pg-core'

const instant = () => timestamp({ withTimezone: true, mode: 'string' })
const id = () => uuid().primaryKey().defaultRandom()
const created_at = () => instant().notNull().default(sql`clock()`)
/** A resource that is changed in place: its version is its ETag. */
const changing = () => ({ version: integer().notNull().default(1), created_at: created_at(), updated_at: created_at() })

export const organizations = pgTable('organizations', {
  id: id(),
  display_name: text().notNull(),
  rbac_enabled: boolean().notNull().default(false),
  ...changing(),
})

export const workspaces = pgTable(
  'workspaces',
  {
    id: id(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    display_name: text().notNull(),
    require_if_match: boolean().notNull().default(false),
    ...changing(),
  },
  t => [unique('workspace_name_taken').on(t.organization_id, t.display_name)],
)

/** Built-in roles have no organisation and are everyone's. */
export const roles = pgTable(
  'roles',
  {
    id: id(),
    organization_id: uuid().references(() => organizations.id, { onDelete: 'cascade' }),
    scope: text({ enum: ['workspace', 'organization'] }).notNull(),
    display_name: text().notNull(),
    description: text().notNull().default(''),
    permissions: text().array().notNull(),
    ...changing(),
  },
  t => [
    unique('role_name_taken').on(t.organization_id, t.display_name).nullsNotDistinct(),
    check('role_scope', sql`${t.scope} in ('workspace', 'organization')`),
  ],
)

export const members = pgTable(
  'members',
  {
    id: id(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    email: text().notNull(),
    full_name: text(),
    role_id: uuid().notNull(),
    ...changing(),
  },
  t => [
    unique('member_exists').on(t.organization_id, t.email),
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
  ],
)

export const workspaceMembers = pgTable(
  'workspace_members',
  {
    id: id(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    member_id: uuid()
      .notNull()
      .references(() => members.id, { onDelete: 'cascade' }),
    role_id: uuid().notNull(),
    ...changing(),
  },
  t => [
    unique('workspace_member_exists').on(t.tenant_id, t.member_id),
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('workspace_members_member').on(t.member_id),
  ],
)

/** A key without a workspace is an organisation key. */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: id(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    tenant_id: uuid().references(() => workspaces.id, { onDelete: 'cascade' }),
    description: text().notNull(),
    hint: text().notNull(),
    key_hash: text().notNull().unique('api_keys_hash'),
    role_id: uuid().notNull(),
    permissions: text().array(),
    expires_at: instant(),
    revoked_at: instant(),
    last_used_at: instant(),
    created_by: uuid(),
    created_at: created_at(),
  },
  t => [
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('api_keys_page').on(t.organization_id, t.tenant_id, t.created_at.desc(), t.id.desc()),
  ],
)

/** One counter a scope (a workspace, or an organisation as a whole): it gives events their order. */
export const journals = pgTable('journals', {
  scope_id: uuid().primaryKey(),
  organization_id: uuid().notNull(),
  seq: bigint({ mode: 'number' }).notNull(),
})

/** Append-only: the app's role may insert and select, nothing else. */
export const events = pgTable(
  'events',
  {
    scope_id: uuid().notNull(),
    seq: bigint({ mode: 'number' }).notNull(),
    organization_id: uuid().notNull(),
    tenant_id: uuid(),
    type: text().notNull(),
    subject_id: uuid().notNull(),
    actor_kind: text().notNull(),
    actor_id: uuid(),
    request_id: text().notNull(),
    data: json().notNull(),
    created_at: created_at(),
  },
  t => [primaryKey({ columns: [t.scope_id, t.seq] })],
)

export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    actor_id: uuid().notNull(),
    key: text().notNull(),
    fingerprint: text().notNull(),
    result: json().notNull(),
    created_at: created_at(),
  },
  t => [primaryKey({ columns: [t.actor_id, t.key] }), index('idempotency_keys_age').on(t.created_at)],
)
