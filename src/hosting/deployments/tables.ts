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
import {
  actorNameColumn,
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import type { StoredProtection } from '../../protocol/protection.schema.ts'
import type { ProcessHealth } from '../../protocol/report.schema.ts'
import type { RequestLogs } from '../../protocol/request-logs.schema.ts'
import type { Part } from '../../protocol/resources.schema.ts'
import type { RevisionRollout, StoredRollout } from '../../protocol/rollout.schema.ts'
import type { ReportedTraffic, StoredTraffic } from '../../protocol/traffic.schema.ts'
import { listeners } from '../listeners/tables.ts'

/** Names the sealed version of a secret. */
export type SecretVersion = { name: string; version: number }

/** A state that a revision has been in. */
export type RevisionState = { status: string; since: string }

/**
 * The hold of a rollback or of a failed rollout on automatic deploys: when and by which revision it began, from which
 * commit, and what ends it.
 */
export type Hold = {
  since: string
  revision_id: string
  from_commit: string | null
  until: 'released' | 'newer_commit'
  /** Absent: a rollback. */
  reason?: 'rollout_failed'
}

/** `kind` is absent in previews of an earlier release, which are of pull requests. */
export type Preview = {
  kind?: 'pull_request' | 'branch' | 'request'
  number: number | null
  branch: string
  head_sha: string | null
  expires_at: string
  /** Its database begins as a copy. `copied_at`: null until that is complete. */
  database_copy?: { from_deployment_id: string; from_name: string; copied_at: string | null }
}

/** `pending`: how many the journal lacks. */
export type StoredIncident = { kind: string; count: number; last_at: string; message: string | null; pending: number }

/** One key for all spellings of a repository's URL. */
export const repositoryKey = (url: SQL): SQL =>
  sql`regexp_replace(regexp_replace(lower(${url}), '^https?://', ''), '/*(\\.git)?/*$', '')`

/**
 * The desired state of a deployment in one row: its configuration, the versions of its secrets, and its revision queue
 * (one in flight, at most one waiting). So a patch decides everything on one locked row.
 */
export const deployments = pgTable(
  'deployments',
  {
    id: idColumn(),
    ...tenantColumns(),
    name: text().notNull(),
    name_fold: text().notNull().generatedAlwaysAs(sql`lower(name)`),
    source: text().notNull(),
    deployment_type: text().notNull(),
    status: text().notNull(),
    image_version: text(),
    tag_value_ids: uuid().array().notNull().default(sql`'{}'`),
    source_config: json().notNull(),
    source_revision_config: json().notNull(),
    /**
     * Parts, such as `queue`, whose members were stored before the engine of their listener ran them. They act once
     * they are written again.
     */
    dormant_parts: text().array().$type<Part[]>(),
    secrets: json().$type<SecretVersion[]>().notNull(),
    secret_references: json(),
    /** Numbers the desired state. `acknowledged` is the newest one that the data plane has confirmed. */
    generation: integer().notNull().default(1),
    acknowledged: integer().notNull().default(0),
    remote_reconciled: boolean().notNull().default(false),
    revisions: integer().notNull().default(1),
    latest_revision_id: uuid(),
    active_revision_id: uuid(),
    in_flight_revision_id: uuid(),
    waiting_revision_id: uuid(),
    /** Set by a rollback or a failed rollout. Pushes create no revision while it is set. */
    hold: json().$type<Hold>(),
    /** Set for previews. No foreign key: the sweep deletes the previews of a deleted parent. */
    parent_deployment_id: uuid(),
    preview: json().$type<Preview>(),
    /** Pushes find deployments by it. */
    repo_key: text().generatedAlwaysAs(repositoryKey(sql`source_config ->> 'repo_url'`)),
    deleting_at: instantColumn(),
    /** The stores that `?clear=` took away, for the agent to remove. Written by `keep_cleared_stores()`, a trigger. */
    cleared_stores: text().array(),
    /** A label of the files that declare it. It grants nothing. */
    owner: text(),
    /** Null: everyone may see it, and no path is an exception. */
    protection: json().$type<StoredProtection>(),
    /** Null: the default. */
    request_logs: json().$type<RequestLogs>(),
    /** Null: nothing is split. Written by drizzle/functions/traffic.sql. */
    traffic: json().$type<StoredTraffic>(),
    /** The share that its agent gives the revision beside the one that serves. */
    applied_traffic: json().$type<ReportedTraffic>(),
    /** The steps of later revisions. Null: none. Written by drizzle/functions/rollouts.sql, also what belongs to it. */
    rollout: json().$type<StoredRollout>(),
    /** Sealed: it signs the questions to the webhook of the rollout. */
    rollout_secret: text(),
    /** When the control plane looks at the rollout of the revision in flight. Null: its agent alone judges it. */
    rollout_due_at: instantColumn(),
    /** Its trace keys of other versions are refused. */
    trace_key_version: integer().notNull().default(1),
    /** Null until a listener of the platform takes the deployment. */
    listener_id: uuid(),
    /** Reported by the agent. */
    url: text(),
    local_url: text(),
    healthy: boolean(),
    /** The health of what serves, in the words of the agent. Null: an agent of an earlier release reports none. */
    reported_health: text(),
    health_reason: text(),
    /** The health of each process type, if there are others than `web`. */
    health_processes: json().$type<ProcessHealth[]>(),
    /** Written by the trigger function `follow_health()`. Null: not known, because the listener is silent. */
    health: text(),
    health_since: instantColumn(),
    /** The times of its last changes, which show whether it flaps. Written by the same trigger. */
    health_changes: json().$type<string[]>(),
    /** The health that the journal has. The sweep follows `health`. */
    recorded_health: text(),
    /** Unused since 0.2.0. */
    recorded_healthy: boolean(),
    /** Restarts, out-of-memory kills and full disks: totals of the agent, and how many the journal lacks. */
    incidents: json().$type<StoredIncident[]>(),
    /** When the journal gets those that it lacks. */
    incidents_due: instantColumn(),
    incidents_recorded_at: instantColumn(),
    last_request_at: instantColumn(),
    /** Parsed from custom_url by the trigger function `claim_custom_host()`. Null while the deployment is deleted. */
    custom_host: text(),
    custom_path: text(),
    ...versionedColumns(),
  },
  t => [
    index('deployments_custom_host').on(t.custom_host).where(sql`custom_host is not null`),
    // The parent never changes, so this index leaves updates heap-only.
    index('deployments_previews').on(t.parent_deployment_id).where(sql`parent_deployment_id is not null`),
    index('deployments_repository').on(t.repo_key).where(sql`repo_key is not null`),
    foreignKey({ name: 'listener_in_use', columns: [t.listener_id], foreignColumns: [listeners.id] }),
    // Partial, so the planner does not use it for the lists of a workspace.
    index('deployments_served').on(t.listener_id, t.tenant_id).where(sql`listener_id is not null`),
    index('deployments_unserved').on(t.id).where(sql`listener_id is null`),
    // The sweep reads it when a silent listener is back.
    index('deployments_unknown').on(t.listener_id).where(isUnknownStatus(sql`status`)),
    index('deployments_health_unjournaled').on(t.id).where(isHealthUnrecorded(sql`health`, sql`recorded_health`)),
    index('deployments_rollout_due').on(t.rollout_due_at).where(sql`rollout_due_at is not null`),
    index('deployments_incidents_due').on(t.incidents_due).where(sql`incidents_due is not null`),
    // The sweep reads it. A BRIN index leaves updates heap-only.
    index('deployments_idle').using('brin', t.updated_at),
    index('deployments_owner')
      .on(t.tenant_id, t.owner, ...newestFirstColumns(t))
      .where(sql`owner is not null`),
    // Pages without a filter read it. The covering index with the filters is five times as wide. It is written in the
    // migration, because drizzle has no `include`.
    index('deployments_page').on(t.tenant_id, ...newestFirstColumns(t)),
    uniqueIndex('deployment_name_taken').on(t.tenant_id, t.name).where(sql`deleting_at is null`),
  ],
)

/** The workspace that owns a host of custom URLs. Only SQL functions write it, such as `claim_custom_host()`. */
export const customHosts = pgTable(
  'custom_hosts',
  {
    id: idColumn(),
    host: text().notNull().unique('custom_host_taken'),
    ...tenantColumns(),
    /** Null until the workspace has proved the host by DNS. */
    verified_at: instantColumn(),
    /** The agent that serves it reports both. */
    certificate_failed_at: instantColumn(),
    unreachable_since: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [index('custom_hosts_page').on(t.tenant_id, ...newestFirstColumns(t))],
)

export const hostLabelKinds = ['deployment', 'branch', 'commit', 'revision'] as const

/**
 * The first labels of hosts below the domain of a listener's agent. Only `claim_host_label()` writes it, in
 * drizzle/functions/host-labels.sql.
 */
export const hostLabels = pgTable(
  'host_labels',
  {
    listener_id: uuid()
      .notNull()
      .references(() => listeners.id, { onDelete: 'cascade' }),
    label: text().notNull(),
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    kind: text({ enum: hostLabelKinds }).notNull(),
    /** The revision that serves at the label of a commit, or of a name of its own. */
    revision_id: uuid(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.listener_id, t.label] }), index('host_labels_deployment').on(t.deployment_id)],
)

/** Revision states with a deadline. The sweep and its index use the same condition. */
export const isPendingStatus = (status: SQL): SQL =>
  sql`${status} in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')`

/** The sweep and its index use the same condition. Nothing recorded counts as healthy. */
export const isHealthUnrecorded = (health: SQL, recorded: SQL): SQL =>
  sql`${health} in ('healthy', 'degraded', 'crash_looping', 'unhealthy')
    and ${health} <> coalesce(${recorded}, 'healthy')`

/** Only the sweep uses it. With a plain comparison the planner would use its index for lists filtered by status. */
export const isUnknownStatus = (status: SQL) => sql`${status} || '' = 'UNKNOWN'`

export const revisions = pgTable(
  'revisions',
  {
    id: idColumn(),
    ...parentTenantColumns(),
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
    /** Silence past the deadline of a state is a failure. */
    status_since: createdAtColumn(),
    /** Written by triggers alone. Null if the revision last moved before it was recorded. */
    states: json().$type<RevisionState[]>(),
    reasons: text().array().notNull(),
    from_revision_id: uuid(),
    commit: json(),
    build_plan: json(),
    /** Null: it got its traffic without steps, or not yet. */
    rollout: json().$type<RevisionRollout>(),
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
    index('revisions_pending_of_organization').on(t.organization_id).where(isPendingStatus(sql`status`)),
  ],
)

/** Holds sealed values, one row for each version. A revision pins the versions that it runs with. */
export const deploymentSecrets = pgTable(
  'deployment_secrets',
  {
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    version: integer().notNull(),
    sealed: text().notNull(),
    /** The fingerprint of the value by `Sealer.fingerprints`. Null if it was stored before there were fingerprints. */
    fingerprint: text(),
    created_at: createdAtColumn(),
  },
  t => [primaryKey({ columns: [t.deployment_id, t.name, t.version] })],
)
