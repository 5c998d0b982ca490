// Tables of deployments, their revisions, secrets and custom hosts.

import { type SQL, sql } from 'drizzle-orm'
import {
  boolean,
  foreignKey,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'
import { workspaces } from './access.ts'
import {
  actorNameColumn,
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  versionedColumns,
} from './columns.ts'
import { listeners } from './listeners.ts'

/** A secret that is wanted, by the version that is sealed. */
export type SecretVersion = { name: string; version: number }

/** Since when and by which revision automatic deploys are held, which commit was left, and what ends it. */
export type Hold = {
  since: string
  revision_id: string
  from_commit: string | null
  until: 'released' | 'newer_commit'
}

/** Which pull request a preview is of, and until when it stays. */
export type Preview = { number: number; branch: string; head_sha: string; expires_at: string }

/**
 * What is wanted of a deployment, on one row: its configuration, the versions of its secrets, and the queue of its revisions, of which
 * one is in flight and at most one waits. So whatever a patch decides, it decides on a row that it holds.
 */
export const deployments = pgTable(
  'deployments',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    name_fold: text().notNull().generatedAlwaysAs(sql`lower(name)`),
    source: text().notNull(),
    deployment_type: text().notNull(),
    status: text().notNull(),
    image_version: text(),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    source_config: json().notNull(),
    source_revision_config: json().notNull(),
    secrets: json().$type<SecretVersion[]>().notNull(),
    secret_references: json(),
    /** Counts what is wanted and what the data plane has acknowledged of it. */
    generation: integer().notNull().default(1),
    acknowledged: integer().notNull().default(0),
    remote_reconciled: boolean().notNull().default(false),
    revisions: integer().notNull().default(1),
    latest_revision_id: uuid(),
    active_revision_id: uuid(),
    in_flight_revision_id: uuid(),
    waiting_revision_id: uuid(),
    /** Set by a rollback: pushes make no revision while it stands. */
    hold: json().$type<Hold>(),
    /** A preview's: whose it is, and of what. No foreign key: a parent that goes takes its previews along by the sweep. */
    parent_deployment_id: uuid(),
    preview: json().$type<Preview>(),
    /** The repository in one spelling, for pushes to find it; `repoKey` says the same. */
    repo_key: text().generatedAlwaysAs(
      sql`regexp_replace(regexp_replace(lower(source_config ->> 'repo_url'), '^https?://', ''), '/*(\\.git)?/*$', '')`,
    ),
    deleting_at: instantColumn(),
    /** Who runs it; null until a listener of the platform has taken it up. */
    listener_id: uuid(),
    /** What its agent says of it: where it answers, how it fares, when it was last used. */
    url: text(),
    healthy: boolean(),
    last_request_at: instantColumn(),
    /** Of its custom_url, as the trigger `custom_host_claim` writes them; null while it is being deleted. */
    custom_host: text(),
    custom_path: text(),
    ...versionedColumns(),
  },
  t => [
    index('deployments_custom_host').on(t.custom_host).where(sql`custom_host is not null`),
    // What it is of cannot be changed, so that it keeps no update from being heap-only.
    index('deployments_previews').on(t.parent_deployment_id).where(sql`parent_deployment_id is not null`),
    index('deployments_repository').on(t.repo_key).where(sql`repo_key is not null`),
    foreignKey({ name: 'listener_in_use', columns: [t.listener_id], foreignColumns: [listeners.id] }),
    // Partial, so that no list of a workspace is tempted to skip through it.
    index('deployments_served').on(t.listener_id, t.tenant_id).where(sql`listener_id is not null`),
    index('deployments_unserved').on(t.id).where(sql`listener_id is null`),
    // For the sweep: those to look at again once their listener is heard of.
    index('deployments_unheard').on(t.listener_id).where(isUnknownStatus(sql`status`)),
    // For the sweep. A BRIN index leaves updates heap-only.
    index('deployments_idle').using('brin', t.updated_at),
    // Finds a page that nothing narrows; the one that carries the filters is five times as wide. That one stands in the migration:
    // drizzle cannot say `include`.
    index('deployments_page').on(t.tenant_id, ...newestFirstColumns(t)),
    uniqueIndex('deployment_name_taken').on(t.tenant_id, t.name).where(sql`deleting_at is null`),
  ],
)

/** The workspace that owns a host of custom URLs. Only SQL functions write it, such as `custom_host_claim()`. */
export const customHosts = pgTable(
  'custom_hosts',
  {
    id: idColumn(),
    host: text().notNull().unique('custom_host_taken'),
    organization_id: uuid().notNull(),
    tenant_id: uuid()
      .notNull()
      .references(() => workspaces.id, { onDelete: 'cascade' }),
    /** Null: claimed, and not proved by DNS. */
    verified_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [index('custom_hosts_page').on(t.tenant_id, ...newestFirstColumns(t))],
)

/** The states of a revision that have a deadline: what the sweep asks of, and what its index holds. */
export const isPendingStatus = (status: SQL): SQL =>
  sql`${status} in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')`

/** Spelt so that it answers the sweep alone: a list that asks for one status would read those of all workspaces by it. */
export const isUnknownStatus = (status: SQL) => sql`${status} || '' = 'UNKNOWN'`

export const revisions = pgTable(
  'revisions',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    number: integer().notNull(),
    source: text().notNull(),
    source_config: json().notNull(),
    source_revision_config: json().notNull(),
    secrets: json().$type<SecretVersion[]>().notNull(),
    secret_references: json(),
    status: text().notNull(),
    status_message: text(),
    /** Since when it is in its state: silence past the state's deadline is a failure. */
    status_since: createdAtColumn(),
    reasons: text().array().notNull(),
    from_revision_id: uuid(),
    commit: json(),
    actor_kind: text().notNull(),
    actor_id: uuid(),
    actor_name: actorNameColumn(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('revisions_number').on(t.deployment_id, t.number),
    index('revisions_page').on(t.deployment_id, ...newestFirstColumns(t)),
    index('revisions_pending').on(t.status_since).where(isPendingStatus(sql`status`)),
  ],
)

/** Sealed values, each version once; a revision pins the versions that it runs with. */
export const deploymentSecrets = pgTable(
  'deployment_secrets',
  {
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    version: integer().notNull(),
    sealed: text().notNull(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.deployment_id, t.name, t.version] })],
)
