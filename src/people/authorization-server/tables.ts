// The table of programs that people connect by OAuth. Members reach it through functions of the database only.

import { sql } from 'drizzle-orm'
import { index, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, idColumn, instantColumn } from '../../kernel/db/columns.ts'
import { apiKeys } from '../access/api-keys.tables.ts'
import { members, organizations, workspaces } from '../access/tables.ts'

/** First an authorization code. Once that is redeemed, a connected client with its key. */
export const oauthGrants = pgTable(
  'oauth_grants',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    member_id: uuid()
      .notNull()
      .references(() => members.id, { onDelete: 'cascade' }),
    role_id: uuid().notNull(),
    permissions: text().array().notNull(),
    client_id: text().notNull(),
    client_name: text().notNull(),
    redirect_uri: text().notNull(),
    resource: text().notNull(),
    code_hash: text().notNull().unique('oauth_grants_code'),
    code_challenge: text().notNull(),
    key_id: uuid()
      .unique('oauth_grants_key')
      .references(() => apiKeys.id, { onDelete: 'cascade' }),
    /** A hash of the common part of all refresh tokens of the client. It tells an old one from one that never was. */
    token_family: text(),
    refresh_hash: text(),
    previous_refresh_hash: text(),
    refreshed_at: instantColumn(),
    /** The key by whose link the member had signed in. A trigger sets it. */
    made_by_key: uuid(),
    created_at: createdAtColumn(),
    expires_at: instantColumn().notNull().default(sql`clock() + interval '5 minutes'`),
  },
  t => [
    unique('oauth_grants_token_family').on(t.token_family),
    index('oauth_grants_organization').on(t.organization_id),
    index('oauth_grants_tenant').on(t.tenant_id),
    index('oauth_grants_member').on(t.member_id, t.tenant_id),
    index('oauth_grants_age').on(t.expires_at),
  ],
)
