// Tables of OAuth providers, flows and tokens.

import { sql } from 'drizzle-orm'
import { boolean, index, integer, json, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { organizations, tenantColumns, workspaces } from '../../people/access/tables.ts'

export type Registration = 'given' | 'metadata_document' | 'dynamic'

/**
 * An OAuth provider of an organization and its servers' metadata. Secrets are sealed and bound to the provider_id.
 * `redirect_uri` is the registered one. `resource` and `issuer` are stored exactly as the servers sent them.
 */
export const oauthProviders = pgTable(
  'oauth_providers',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    provider_id: text().notNull(),
    name: text().notNull(),
    client_id: text().notNull(),
    client_secret: text(),
    client_secret_expires_at: instantColumn(),
    auth_url: text().notNull(),
    token_url: text().notNull(),
    revocation_url: text(),
    uses_pkce: boolean().notNull(),
    code_challenge_method: text(),
    provider_type: text(),
    mcp_server_url: text(),
    token_endpoint_auth_method: text().notNull(),
    registration: text().$type<Registration>().notNull(),
    registration_client_uri: text(),
    registration_access_token: text(),
    redirect_uri: text().notNull(),
    issuer: text(),
    /** The server announces that its authorization responses contain `iss`. */
    issuer_in_answers: boolean().notNull().default(false),
    resource: text(),
    scopes: text().array().notNull().default(sql`'{}'`),
    /** Warnings of discovery and every fetch that it made, without bodies and secrets. */
    warnings: json().notNull().default(sql`'[]'`),
    trace: json().notNull().default(sql`'[]'`),
    health: text().notNull().default('healthy'),
    health_detail: text(),
    checked_at: createdAtColumn(),
    /** May change the provider while no other workspace is connected through it. Null: only the organization may. */
    made_by_workspace: uuid().references(() => workspaces.id, { onDelete: 'set null' }),
    /** The endpoints that `client_secret` was issued for, set by a trigger. The secret is sent to no other origin. */
    client_secret_urls: text().array().notNull().default(sql`'{}'`),
    owner: text(),
    ...versionedColumns(),
  },
  t => [
    unique('provider_id_conflict').on(t.organization_id, t.provider_id),
    index('oauth_providers_checked').on(t.checked_at),
    index('oauth_providers_made_by_workspace').on(t.made_by_workspace),
  ],
)

/** Reserves a provider_id while its client is registered upstream. */
export const oauthReservations = pgTable(
  'oauth_reservations',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    provider_id: text().notNull(),
    expires_at: instantColumn().notNull(),
  },
  t => [unique('oauth_reservations_one').on(t.organization_id, t.provider_id)],
)

/** An authorization in progress. The state is stored as a hash and works once. */
export const oauthFlows = pgTable(
  'oauth_flows',
  {
    id: idColumn(),
    ...tenantColumns(),
    provider_id: uuid()
      .notNull()
      .references(() => oauthProviders.id, { onDelete: 'cascade' }),
    user_id: text().notNull(),
    scopes: text().array().notNull(),
    state_hash: text().notNull().unique('oauth_flows_state'),
    /** The state and the PKCE verifier, sealed. */
    verifier: text(),
    /** `oauth_binding()` of the provider at the start. The code is sent only while it is the same. */
    bound_to: text().notNull(),
    status: text({ enum: ['pending', 'answered', 'completed', 'failed'] })
      .notNull()
      .default('pending'),
    /** One of Slipway's codes, never text from a server. */
    failure: text(),
    expires_at: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [index('oauth_flows_expiry').on(t.expires_at)],
)

/** Sealed tokens. A refresh needs the lease and the current generation, so a rotating server sees one refresh. */
export const oauthTokens = pgTable(
  'oauth_tokens',
  {
    id: idColumn(),
    ...tenantColumns(),
    provider_id: uuid()
      .notNull()
      .references(() => oauthProviders.id, { onDelete: 'cascade' }),
    user_id: text().notNull(),
    scopes: text().array().notNull(),
    access_token: text().notNull(),
    refresh_token: text(),
    token_type: text().notNull(),
    /** `oauth_binding()` of the provider at the grant. Tokens are sent only while it is the same. */
    bound_to: text().notNull(),
    expires_at: instantColumn(),
    generation: integer().notNull().default(1),
    /** The end of the lease of a refresh. */
    leased_until: instantColumn(),
    /** The server rejects the grant: the person must connect again. */
    revoked_at: instantColumn(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('oauth_tokens_one').on(t.tenant_id, t.provider_id, t.user_id),
    index('oauth_tokens_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('oauth_tokens_provider').on(t.provider_id),
  ],
)
