// Tables of git host integrations.

import { sql } from 'drizzle-orm'
import { index, json, pgTable, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'

export const githosts = ['github', 'gitea'] as const

export const integrationStates = ['active', 'suspended', 'revoked'] as const

/**
 * A workspace's connection to a git host: an App's installation, or an account with an access token. Without `app_id`
 * and `credentials` it is an installation of the operator's own App. `credentials` is what the workspace supplied, and
 * `token` the short-lived token that the host issued last. Both are sealed and bound to the account.
 */
export const integrations = pgTable(
  'integrations',
  {
    id: idColumn(),
    ...tenantColumns(),
    host: text({ enum: githosts }).notNull(),
    base_url: text().notNull(),
    app_id: text(),
    installation_id: text().notNull(),
    /** The host's id of the account, which survives a new installation. `name` is the account's name. */
    account_id: text().notNull(),
    name: text().notNull(),
    state: text({ enum: integrationStates }).notNull().default('active'),
    credentials: text(),
    token: text(),
    token_expires_at: instantColumn(),
    created_by: uuid(),
    ...versionedColumns(),
  },
  t => [
    // An installation belongs to one workspace until its host revokes it. Several workspaces may use one account.
    uniqueIndex('integration_taken')
      .on(t.tenant_id, t.host, t.base_url, t.installation_id)
      .where(sql`state <> 'revoked'`),
    uniqueIndex('integration_claimed')
      .on(t.base_url, t.installation_id)
      .where(sql`host = 'github' and state <> 'revoked'`),
    index('integrations_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

/** The repositories that the host listed last, by page with ETags for conditional requests. */
export const integrationListings = pgTable('integration_listings', {
  integration_id: uuid()
    .primaryKey()
    .references(() => integrations.id, { onDelete: 'cascade' }),
  ...parentTenantColumns(),
  pages: json().notNull(),
  fetched_at: instantColumn().notNull(),
})

/** An installation of the operator's App that has begun. The person's state parameter names it and works once. */
export const integrationInstalls = pgTable(
  'integration_installs',
  {
    id: idColumn(),
    ...tenantColumns(),
    actor_id: uuid(),
    expires_at: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [index('integration_installs_expiry').on(t.expires_at)],
)
