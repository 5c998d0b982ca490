// Tables of access policies.
import { sql } from 'drizzle-orm'
import { check, foreignKey, index, integer, jsonb, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, idColumn, newestFirstColumns } from '../../kernel/db/columns.ts'
import { organizations, roles } from './tables.ts'

const EFFECTS = ['allow', 'deny'] as const

export const accessPolicies = pgTable(
  'access_policies',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    description: text(),
    effect: text({ enum: EFFECTS }).notNull(),
    /** `ConditionGroup[]`, as the caller sent them. */
    condition_groups: jsonb().notNull(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    check('access_policy_effect', sql`${t.effect} in ('allow', 'deny')`),
    index('access_policies_page').on(t.organization_id, ...newestFirstColumns(t)),
  ],
)

export const roleAccessPolicies = pgTable(
  'role_access_policies',
  {
    organization_id: uuid().notNull(),
    access_policy_id: uuid()
      .notNull()
      .references(() => accessPolicies.id, { onDelete: 'cascade' }),
    role_id: uuid()
      .notNull()
      .references(() => roles.id, { onDelete: 'cascade' }),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.access_policy_id, t.role_id] }), index('role_access_policies_role').on(t.role_id)],
)

/** One row for each condition group and role, written by a trigger. `enter_by_key()` looks them up. */
export const accessRules = pgTable(
  'access_rules',
  {
    organization_id: uuid().notNull(),
    role_id: uuid().notNull(),
    access_policy_id: uuid().notNull(),
    place: integer().notNull(),
    effect: text({ enum: EFFECTS }).notNull(),
    permission: text().notNull(),
    conditions: jsonb().notNull(),
  },
  t => [
    primaryKey({ columns: [t.access_policy_id, t.role_id, t.place] }),
    foreignKey({
      name: 'access_rules_access_policy_id_role_id_fk',
      columns: [t.access_policy_id, t.role_id],
      foreignColumns: [roleAccessPolicies.access_policy_id, roleAccessPolicies.role_id],
    }).onDelete('cascade'),
    index('access_rules_role').on(t.role_id, t.organization_id, t.permission),
  ],
)
