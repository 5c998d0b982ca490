// Tables of OAuth providers, flows and tokens.

import { sql } from 'drizzle-orm'
import { boolean, index, integer, json, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { organizations, workspaces } from './access.ts'
import { createdAtColumn, idColumn, instantColumn, newestFirstColumns, versionedColumns } from './columns.ts'

/** How a provider's client came to be. */
export type Registration = 'given' | 'metadata_document' | 'dynamic'

/**
 * An OAuth provider of an organisation, and what was learnt of its servers. Sealed members are bound to the row's id. `redirect_uri` is
 * the one that was registered; `resource` and `issuer` are kept exactly as the servers wrote them.
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
    /** The server says that its answers carry `iss`. */
    issuer_in_answers: boolean().notNull().default(false),
    resource: text(),
    scopes: text().array().notNull().default(sql`'{}'`),
    /** What discovery found remarkable, and every fetch that it made: without bodies, without secrets. */
    warnings: json().notNull().default(sql`'[]'`),
    trace: json().notNull().default(sql`'[]'`),
    health: text().notNull().default('healthy'),
    health_detail: text(),
    checked_at: createdAtColumn(),
    /** The workspace that may change it while no other is connected through it; null: only the organization. */
    made_by_workspace: uuid().references(() => workspaces.id, { onDelete: 'set null' }),
    /** The endpoints that `client_secret` was given for. A trigger keeps them: the secret goes to no other origin. */
    client_secret_urls: text().array().notNull().default(sql`'{}'`),
    ...versionedColumns(),
  },
  t => [
    unique('provider_id_conflict').on(t.organization_id, t.provider_id),
    index('oauth_providers_checked').on(t.checked_at),
    index('oauth_providers_made_by_workspace').on(t.made_by_workspace),
  ],
)

/** A provider_id that is being registered upstream: nothing else may take it meanwhile. */
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

/** A person on the way to a provider and back. The state is known by its hash and works once. */
export const oauthFlows = pgTable(
  'oauth_flows',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    provider_id: uuid()
      .notNull()
      .references(() => oauthProviders.id, { onDelete: 'cascade' }),
    user_id: text().notNull(),
    scopes: text().array().notNull(),
    state_hash: text().notNull().unique('oauth_flows_state'),
    /** The state and the PKCE verifier, sealed. */
    verifier: text(),
    /** What the provider was when it began: its answer goes to no other server. */
    bound_to: text().notNull(),
    status: text({ enum: ['pending', 'answered', 'completed', 'failed'] })
      .notNull()
      .default('pending'),
    /** A code of ours that says why it failed; never a server's words. */
    failure: text(),
    expires_at: instantColumn().notNull(),
    created_at: createdAtColumn(),
  },
  t => [index('oauth_flows_expiry').on(t.expires_at)],
)

/** What a person granted: sealed tokens, replaced under a lease and by generation, so that a rotating server is asked once. */
export const oauthTokens = pgTable(
  'oauth_tokens',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    provider_id: uuid()
      .notNull()
      .references(() => oauthProviders.id, { onDelete: 'cascade' }),
    user_id: text().notNull(),
    scopes: text().array().notNull(),
    access_token: text().notNull(),
    refresh_token: text(),
    token_type: text().notNull(),
    /** What the provider was when it gave them: they go to no other server. */
    bound_to: text().notNull(),
    expires_at: instantColumn(),
    generation: integer().notNull().default(1),
    /** Whoever refreshes it holds it until then. */
    leased_until: instantColumn(),
    /** The server no longer takes it: the person must connect again. */
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
