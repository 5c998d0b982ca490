// The table of API keys.
import { sql } from 'drizzle-orm'
import { boolean, foreignKey, index, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { listeners } from '../../hosting/listeners/tables.ts'
import { createdAtColumn, idColumn, instantColumn, newestFirstColumns } from '../../kernel/db/columns.ts'
import { members, organizations, roles, workspaces } from './tables.ts'

/** A key without a workspace is an organization key. A key with a listener belongs to its agent. */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    tenant_id: uuid().references(() => workspaces.id, { onDelete: 'cascade' }),
    listener_id: uuid().references(() => listeners.id, { onDelete: 'cascade' }),
    description: text().notNull(),
    hint: text().notNull(),
    key_hash: text().notNull().unique('api_keys_hash'),
    role_id: uuid().notNull(),
    permissions: text().array(),
    expires_at: instantColumn(),
    revoked_at: instantColumn(),
    last_used_at: instantColumn(),
    created_by: uuid(),
    /** The person whose rights bound those of the key, in each request: see `bound_key_permissions()`. */
    member_id: uuid().references(() => members.id, { onDelete: 'cascade' }),
    /** A verified session of the member has approved the key. */
    is_verified: boolean().notNull().default(false),
    /** The issuer of the token that `exchange_token()` exchanged for the key. The issuer may be gone. */
    trusted_issuer_id: uuid(),
    /** Keys with the same budget share one rate limit. The trigger `inherit_budget` sets it. */
    budget_id: uuid(),
    created_at: createdAtColumn(),
  },
  t => [
    foreignKey({ name: 'role_in_use', columns: [t.role_id], foreignColumns: [roles.id] }),
    index('api_keys_made_by').on(t.created_by, ...newestFirstColumns(t)),
    index('api_keys_page').on(t.organization_id, ...newestFirstColumns(t)),
    index('api_keys_page_of_workspace').on(t.tenant_id, ...newestFirstColumns(t)),
    index('api_keys_role').on(t.role_id),
    index('api_keys_member').on(t.member_id),
    index('api_keys_exchanged').on(t.trusted_issuer_id, t.expires_at).where(sql`trusted_issuer_id is not null`),
    index('api_keys_exchanged_ended').on(t.expires_at).where(sql`trusted_issuer_id is not null`),
    index('api_keys_ended')
      .on(sql`least(revoked_at, expires_at)`)
      .where(sql`least(revoked_at, expires_at) is not null`),
  ],
)
