// Tables of git host integrations.

import { sql } from 'drizzle-orm'
import { index, json, pgTable, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { workspaces } from './access.ts'
import { createdAtColumn, idColumn, instantColumn, newestFirstColumns, versionedColumns } from './columns.ts'

/** Which git host an integration is with, and what the host last said of it. */
export const githosts = ['github', 'gitea'] as const

export const integrationStates = ['active', 'suspended', 'revoked'] as const

/**
 * A git host as a workspace is connected to it: an App's installation, or an account with its access token. Without `app_id` and
 * `credentials` it is an installation of the operator's own App. `credentials` is what the host was proved with and `token` what it last
 * gave for a while, each sealed and bound to the account.
 */
export const integrations = pgTable(
  'integrations',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    host: text({ enum: githosts }).notNull(),
    base_url: text().notNull(),
    app_id: text(),
    installation_id: text().notNull(),
    /** The account that it is of, by the host's id, which a new installation keeps; `name` is what the account is called. */
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
    // An installation is one workspace's, until its host has revoked it; an account may serve several, each with a token of its own.
    uniqueIndex('integration_taken')
      .on(t.tenant_id, t.host, t.base_url, t.installation_id)
      .where(sql`state <> 'revoked'`),
    uniqueIndex('integration_claimed')
      .on(t.base_url, t.installation_id)
      .where(sql`host = 'github' and state <> 'revoked'`),
    index('integrations_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

/** What an integration's host last listed, page by page with the ETags: asked again, it need only say that nothing changed. */
export const integrationListings = pgTable('integration_listings', {
  integration_id: uuid()
    .primaryKey()
    .references(() => integrations.id, { onDelete: 'cascade' }),
  organization_id: uuid().notNull(),
  tenant_id: uuid().notNull(),
  pages: json().notNull(),
  fetched_at: instantColumn().notNull(),
})

/** Somebody on the way to install the operator's App: the state that they carry names it and works once. */
export const integrationInstalls = pgTable(
  'integration_installs',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    actor_id: uuid(),
    expires_at: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [index('integration_installs_expiry').on(t.expires_at)],
)
