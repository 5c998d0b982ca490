// Tables of webhook deliveries and preview deployments.

import { sql } from 'drizzle-orm'
import { boolean, index, integer, json, pgTable, text, unique, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { followedKinds, previewKinds, previewStates } from '../../protocol/preview-kinds.ts'
import type { StoredProtection } from '../../protocol/protection.schema.ts'
import { deployments } from '../deployments/tables.ts'

/**
 * Webhook deliveries to process. `receiver` is the operator's App or one integration's own address. A delivery has no
 * tenant: processing it finds the deployments that it concerns.
 */
export const githostDeliveries = pgTable(
  'githost_deliveries',
  {
    id: idColumn(),
    receiver: text().notNull(),
    delivery_id: text().notNull(),
    event: json().notNull(),
    state: text({ enum: ['waiting', 'done', 'failed'] })
      .notNull()
      .default('waiting'),
    attempts: integer().notNull().default(1),
    /** Latest attempts in a row without an outcome. Counted before the work, so a crash counts too. */
    unfinished_attempts: integer().notNull().default(0),
    /** The end of the current worker's lease, or the time of the next attempt. */
    next_attempt_at: instantColumn().notNull(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('githost_deliveries_one').on(t.receiver, t.delivery_id),
    index('githost_deliveries_due').on(t.next_attempt_at).where(sql`state = 'waiting'`),
    index('githost_deliveries_age').on(t.created_at),
  ],
)

/** The time of the last query for a deployment's ref, so that older answers are ignored; and a ref that is gone. */
export const deploymentHeads = pgTable('deployment_heads', {
  deployment_id: uuid()
    .primaryKey()
    .references(() => deployments.id, { onDelete: 'cascade' }),
  ...parentTenantColumns(),
  queried_at: instantColumn().notNull(),
  gone_ref: text(),
})

/** The outbox of commit statuses: a commit that was pushed, with the revision that deploys it. */
export const commitStatuses = pgTable(
  'commit_statuses',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    sha: text().notNull(),
    revision_id: uuid().notNull(),
    /** The state of the revision that the host got last. */
    notified_state: text(),
    attempts: integer().notNull().default(0),
    next_attempt_at: createdAtColumn(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('commit_statuses_one').on(t.deployment_id, t.sha),
    index('commit_statuses_due').on(t.next_attempt_at),
    index('commit_statuses_age').on(t.created_at),
  ],
)

/** `from_deployment_id`: of a copy. Absent: the parent. */
export type PreviewDatabase = { mode: 'none' | 'empty' | 'copy'; from_deployment_id?: string | undefined }

/**
 * The branches that existed when the policy was set: how many got a preview, and how many are left to their next push.
 * `after` is the last one that was looked at, until all of them are `compared_at`.
 */
export type ExistingBranches = { compared_at: string | null; previews: number; left: number; after: string | null }

/**
 * A policy selects pull requests and branches that get a preview, and configures it. `secrets` and `hook_secret` are
 * sealed.
 */
export const previewPolicies = pgTable('preview_policies', {
  id: uuid()
    .primaryKey()
    .references(() => deployments.id, { onDelete: 'cascade' }),
  ...parentTenantColumns(),
  branches: text().array().notNull(),
  kinds: text({ enum: followedKinds }).array().notNull().default(['pull_requests']),
  ttl_seconds: integer().notNull(),
  max: integer().notNull(),
  forks: text({ enum: ['deny', 'approve'] }).notNull(),
  secrets: json().$type<{ name: string; sealed: string }[]>().notNull(),
  /** The parent's secrets that previews of branches and of requests get. */
  inherited_secrets: text().array().notNull().default([]),
  resource_spec: json().$type<Record<string, unknown>>(),
  /** The protection of new previews. Null: everyone may see them. */
  protection: json().$type<StoredProtection>(),
  /** Null: as the resources say. */
  database: json().$type<PreviewDatabase>(),
  /** Null for a policy that follows no branches, or was set before this was stored. */
  existing_branches: json().$type<ExistingBranches>(),
  on_create: text(),
  on_delete: text(),
  hook_secret: text(),
  ...versionedColumns(),
})

/** The source of a requested preview. */
export type PreviewRequest = {
  source: 'githost' | 'internal_source' | 'internal_container' | 'external_container'
  repo_ref?: string | undefined
  repo_commit_sha?: string | undefined
  source_tarball_path?: string | undefined
  image_uri?: string | undefined
  ttl_seconds?: number | undefined
  /** Absent in requests of an earlier release: that of the policy. */
  database?: PreviewDatabase | null | undefined
}

/**
 * A pull request or branch of a deployment with a policy, or a request. Without a number, its branch identifies it. The
 * host last got `notified_state`, in the comment `comment_id`.
 */
export const previews = pgTable(
  'previews',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    parent_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    kind: text({ enum: previewKinds }).notNull().default('pull_request'),
    /** The number of the pull request. */
    number: integer(),
    state: text({ enum: previewStates }).notNull(),
    deployment_id: uuid(),
    branch: text().notNull(),
    /** Null for a request without a commit. */
    head_sha: text(),
    request: json().$type<PreviewRequest>(),
    /** The reason that it could not be created. */
    problem: text(),
    /** The commit `head_sha`. Null for a pull request that last changed before it was stored. */
    commit: json().$type<{ sha: string; message: string | null; author: string | null }>(),
    fork: boolean().notNull(),
    approved_sha: text(),
    approved_by: uuid(),
    /** The reason why it ended. Null while it lives, and for one that ended before it was stored. */
    end_reason: text(),
    /** The host's time of the last accepted change of the pull request; of a branch, when the host was asked. */
    changed_at: instantColumn().notNull(),
    expires_at: instantColumn().notNull(),
    notified_state: text(),
    comment_id: text(),
    /** The commit whose status at the host is `pending`. */
    pending_sha: text(),
    notify_attempts: integer().notNull().default(0),
    next_notify_at: createdAtColumn(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('previews_one').on(t.parent_id, t.number),
    uniqueIndex('previews_of_branch').on(t.parent_id, t.branch).where(sql`number is null`),
    index('previews_child').on(t.deployment_id),
    index('previews_of_workspace').on(t.tenant_id, ...newestFirstColumns(t)),
    index('previews_page').on(t.parent_id, ...newestFirstColumns(t)),
    index('previews_expiry').on(t.expires_at).where(sql`state <> 'ended'`),
    index('previews_ended').on(t.updated_at).where(sql`state = 'ended'`),
  ],
)

/** The outbox of a policy's hooks. */
export const previewHooks = pgTable(
  'preview_hooks',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    preview_id: uuid()
      .notNull()
      .references(() => previews.id, { onDelete: 'cascade' }),
    url: text().notNull(),
    /** The parent deployment. The hook's secret is sealed under its id. */
    parent_id: uuid().notNull(),
    secret: text().notNull(),
    body: json().notNull(),
    attempts: integer().notNull().default(0),
    next_attempt_at: createdAtColumn(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [index('preview_hooks_due').on(t.next_attempt_at), index('preview_hooks_organization').on(t.organization_id)],
)
