// Tables of webhook deliveries and preview deployments.

import { sql } from 'drizzle-orm'
import { boolean, index, integer, json, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, idColumn, instantColumn, newestFirstColumns, versionedColumns } from './columns.ts'
import { deployments } from './deployments.ts'

/**
 * What git hosts delivered and there is something to do about. `receiver` is where it came in: the operator's App, or an integration's own
 * address. It is nobody's until the work finds whom it concerns.
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
    /**
     * The latest attempts that began and reported no outcome: counted before the work, so that it counts when the
     * worker dies.
     */
    unfinished_attempts: integer().notNull().default(0),
    /** Whoever works on it holds it until then; after that it is anyone's again. */
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

/** When the host was last asked where a deployment's ref is, so that an answer that is older counts no more; and a ref that is gone. */
export const deploymentHeads = pgTable('deployment_heads', {
  deployment_id: uuid()
    .primaryKey()
    .references(() => deployments.id, { onDelete: 'cascade' }),
  organization_id: uuid().notNull(),
  tenant_id: uuid().notNull(),
  asked_at: instantColumn().notNull(),
  gone_ref: text(),
})

/** Which pull requests of a deployment's repository get a preview, and what it is made of. `secrets` and `hook_secret` are sealed. */
export const previewPolicies = pgTable('preview_policies', {
  id: uuid()
    .primaryKey()
    .references(() => deployments.id, { onDelete: 'cascade' }),
  organization_id: uuid().notNull(),
  tenant_id: uuid().notNull(),
  branches: text().array().notNull(),
  ttl_seconds: integer().notNull(),
  max: integer().notNull(),
  forks: text({ enum: ['deny', 'approve'] }).notNull(),
  secrets: json().$type<{ name: string; sealed: string }[]>().notNull(),
  resource_spec: json().$type<Record<string, unknown>>(),
  on_create: text(),
  on_delete: text(),
  hook_secret: text(),
  ...versionedColumns(),
})

export const previewStates = ['pending', 'awaiting_approval', 'denied', 'full', 'live', 'ended'] as const

/** A pull request of a deployment with a policy. `told` is what its host was last told of it, `comment_id` where. */
export const previews = pgTable(
  'previews',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    parent_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    number: integer().notNull(),
    state: text({ enum: previewStates }).notNull(),
    deployment_id: uuid(),
    branch: text().notNull(),
    head_sha: text().notNull(),
    fork: boolean().notNull(),
    approved_sha: text(),
    approved_by: uuid(),
    /** When the host changed the pull request, as the last delivery that counted had it. */
    changed_at: instantColumn().notNull(),
    expires_at: instantColumn().notNull(),
    told: text(),
    comment_id: text(),
    tell_attempts: integer().notNull().default(0),
    tell_next_at: createdAtColumn(),
    created_at: createdAtColumn(),
    updated_at: createdAtColumn(),
  },
  t => [
    unique('previews_one').on(t.parent_id, t.number),
    index('previews_child').on(t.deployment_id),
    index('previews_page').on(t.parent_id, ...newestFirstColumns(t)),
    index('previews_expiry').on(t.expires_at).where(sql`state <> 'ended'`),
  ],
)

/** What a policy's hooks are still to be told. */
export const previewHooks = pgTable(
  'preview_hooks',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    preview_id: uuid()
      .notNull()
      .references(() => previews.id, { onDelete: 'cascade' }),
    url: text().notNull(),
    /** The parent's, under which the hook's secret is sealed. */
    parent_id: uuid().notNull(),
    secret: text().notNull(),
    body: json().notNull(),
    attempts: integer().notNull().default(0),
    next_attempt_at: createdAtColumn(),
    error: text(),
    created_at: createdAtColumn(),
  },
  t => [index('preview_hooks_due').on(t.next_attempt_at)],
)
