// Tables of sessions, of the links that open one, of identities at the operator's identity provider, and of devices
// that ask for a key.
import { sql } from 'drizzle-orm'
import { boolean, index, integer, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, idColumn, instantColumn, newestFirstColumns } from '../../kernel/db/columns.ts'
import { apiKeys } from '../access/api-keys.tables.ts'
import { members, organizations, workspaces } from '../access/tables.ts'

/** A session has the rights of its member, or those of the key that it was exchanged for. */
export const sessions = pgTable(
  'sessions',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    member_id: uuid().references(() => members.id, { onDelete: 'cascade' }),
    key_id: uuid().references(() => apiKeys.id, { onDelete: 'cascade' }),
    owner_id: uuid().notNull().generatedAlwaysAs(sql`coalesce(key_id, member_id)`),
    token_hash: text().notNull().unique('sessions_token_hash'),
    method: text().notNull(),
    /** The hash of the key, or of the token of the session, that made its sign-in link and ends it. */
    made_by: text(),
    /** The identity provider, or a link of the operator, has shown that the person has the address of the member. */
    is_verified: boolean().notNull().default(false),
    client_address: text(),
    user_agent: text(),
    created_at: createdAtColumn(),
    /** Accurate to the minute. */
    last_seen_at: instantColumn().notNull().default(sql`clock()`),
    expires_at: instantColumn().notNull().default(sql`clock() + interval '30 days'`),
    revoked_at: instantColumn(),
  },
  t => [
    index('sessions_page').on(t.owner_id, ...newestFirstColumns(t)),
    index('sessions_member').on(t.member_id),
    index('sessions_key').on(t.key_id),
    index('sessions_organization').on(t.organization_id),
    index('sessions_age').on(t.expires_at),
  ],
)

export const signInLinks = pgTable(
  'sign_in_links',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    member_id: uuid()
      .notNull()
      .references(() => members.id, { onDelete: 'cascade' }),
    token_hash: text().notNull().unique('sign_in_links_token_hash'),
    made_by: text().default(sql`own_credential()`),
    expires_at: instantColumn().notNull().default(sql`clock() + interval '15 minutes'`),
    used_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [
    index('sign_in_links_organization').on(t.organization_id),
    index('sign_in_links_member').on(t.member_id),
    index('sign_in_links_age').on(t.expires_at),
  ],
)

/** Written by sign_in_by_identity() only. */
export const identities = pgTable(
  'identities',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    member_id: uuid()
      .notNull()
      .references(() => members.id, { onDelete: 'cascade' }),
    issuer: text().notNull(),
    subject: text().notNull(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('identities_subject').on(t.issuer, t.subject, t.organization_id),
    unique('identities_member').on(t.member_id, t.issuer),
    index('identities_organization').on(t.organization_id),
  ],
)

/** A device that asks for a key. Members reach it through functions of the database only. */
export const deviceRequests = pgTable(
  'device_requests',
  {
    id: idColumn(),
    device_code_hash: text().notNull().unique('device_requests_device_code'),
    user_code: text().notNull().unique('device_requests_user_code'),
    device_name: text(),
    /** First those that the device asks for (null: any), then those that the member has granted. */
    permissions: text().array(),
    client_address: text(),
    client_network: text(),
    user_agent: text(),
    interval_seconds: integer().notNull().default(5),
    polled_at: instantColumn(),
    organization_id: uuid().references(() => organizations.id, { onDelete: 'cascade' }),
    member_id: uuid().references(() => members.id, { onDelete: 'cascade' }),
    tenant_id: uuid().references(() => workspaces.id, { onDelete: 'cascade' }),
    role_id: uuid(),
    decided_at: instantColumn(),
    /** The key by whose link the member had signed in. A trigger sets it. */
    made_by_key: uuid(),
    /** The session that approved it was verified. */
    is_verified: boolean().notNull().default(false),
    created_at: createdAtColumn(),
    expires_at: instantColumn().notNull().default(sql`clock() + interval '10 minutes'`),
  },
  t => [
    index('device_requests_organization').on(t.organization_id),
    index('device_requests_member').on(t.member_id),
    index('device_requests_tenant').on(t.tenant_id),
    index('device_requests_network').on(t.client_network),
    index('device_requests_age').on(t.expires_at),
  ],
)
