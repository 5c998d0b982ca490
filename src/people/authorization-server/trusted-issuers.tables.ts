// Tables of keyless CI: the issuers that a workspace trusts, and the tokens that were exchanged.
import { foreignKey, index, integer, jsonb, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { idColumn, instantColumn, newestFirstColumns, versionedColumns } from '../../kernel/db/columns.ts'
import { roles, tenantColumns, workspaces } from '../access/tables.ts'

/** Tokens of this issuer whose audience, subject and claims match are exchanged for keys with the role. */
export const trustedIssuers = pgTable(
  'trusted_issuers',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    issuer: text().notNull(),
    audience: text().notNull(),
    subject: text().notNull(),
    claims: jsonb().$type<Record<string, string>>().notNull().default({}),
    role_id: uuid().notNull(),
    key_minutes: integer().notNull().default(15),
    expires_at: instantColumn(),
    /** The key that granted the role. The grant ends with that key. */
    granted_by: uuid(),
    last_used_at: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('trusted_issuer_exists').on(t.tenant_id, t.name),
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('trusted_issuers_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('trusted_issuers_role').on(t.role_id),
  ],
)

/** Written by exchange_token() only. */
export const exchangedTokens = pgTable(
  'exchanged_tokens',
  {
    token_hash: text().primaryKey(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    expires_at: instantColumn().notNull(),
  },
  t => [index('exchanged_tokens_tenant').on(t.tenant_id), index('exchanged_tokens_age').on(t.expires_at)],
)
