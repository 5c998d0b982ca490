// Tables of git host integrations.

import { sql } from 'drizzle-orm'
import { bigint, index, integer, json, pgTable, text, unique, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
  versionedColumns,
} from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import { hostNames } from '../../protocol/host-kinds.ts'
import type { SshProblemCode } from '../../protocol/repository-looks.schema.ts'

export const integrationStates = ['active', 'suspended', 'revoked'] as const

/** `message` is the host's own sentence, about what of the work it has refused. */
export type IntegrationProblem = {
  code: 'token_refused' | 'access_refused' | SshProblemCode
  work: 'repository' | 'webhook' | 'notification' | 'deployment'
  message: string
  since: string
}

/** Keys of a repository by SSH. `keys`: the one in use, then one that takes its place once the host has accepted it. */
export type SshAccess = {
  keys: { public_key: string; fingerprint: string }[]
  /** The pinned keys of the host. Empty until an agent has seen one. */
  host_keys: string[]
  /** The key that the host showed instead of a pinned one. */
  refused_host_key: string | null
  /** Null until an agent has read the repository. */
  verified_at: string | null
}

/** The refs as an agent saw them, each `<commit> <name>`, or the reason why it could not. */
export type SeenRefs = {
  default_branch: string | null
  refs: string[]
  digest: string
  /** There were too many: one that is not among them may exist. */
  is_cut?: boolean
  problem: { code: SshProblemCode; message: string } | null
}

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
    host: text({ enum: hostNames }).notNull(),
    base_url: text().notNull(),
    app_id: text(),
    installation_id: text().notNull(),
    /** The host's id of the account, which survives a new installation. `name` is the account's name. */
    account_id: text().notNull(),
    name: text().notNull(),
    state: text({ enum: integrationStates }).notNull().default('active'),
    credentials: text(),
    ssh: json().$type<SshAccess>(),
    token: text(),
    token_expires_at: instantColumn(),
    /** The last refusal of the host, until the same work succeeds. */
    problem: json().$type<IntegrationProblem>(),
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

/**
 * A repository that deployments of an integration follow. `heard_at`: the last webhook about it. `compared_at`: the
 * last time that its refs and pull requests were compared with what is deployed, which repairs what webhooks missed.
 */
export const followedRepositories = pgTable(
  'followed_repositories',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    integration_id: uuid()
      .notNull()
      .references(() => integrations.id, { onDelete: 'cascade' }),
    repo_key: text().notNull(),
    url: text().notNull(),
    /** The host's own id, which survives a rename and a transfer. Null until the host was asked. */
    host_id: text(),
    heard_at: instantColumn(),
    compared_at: instantColumn(),
    /** The end of a worker's lease, or the time of the next comparison. */
    next_compare_at: createdAtColumn(),
    attempts: integer().notNull().default(0),
    /** The reason why the last comparison failed, in the host's words. */
    error: text(),
    /** When its host could not be reached, or showed no such repository, three times in a row. */
    unreachable_since: instantColumn(),
    /** The webhook that Slipway made at the host. */
    webhook_id: text(),
    webhook_error: text(),
    /** ETags of the last comparison by URL, valid while `followers` stays the same. */
    etags: json().$type<Record<string, string>>().notNull().default({}),
    followers: text(),
    /** The heads of all branches at the last comparison, where a policy follows branches. */
    branch_heads: json().$type<Record<string, string>>(),
    /** The listener whose agent looks at a repository by SSH. Null: the control plane reads it itself. */
    listener_id: uuid(),
    /** The time of the agent's next look, or the end of the time that it has for one. */
    look_at: instantColumn(),
    look_started_at: instantColumn(),
    look_failures: integer().notNull().default(0),
    /** The lease under which an agent got the deploy key last. */
    look_fence: bigint({ mode: 'number' }),
    seen: json().$type<SeenRefs>(),
    /** The beginning of the look that saw these refs last. */
    seen_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('followed_repositories_one').on(t.integration_id, t.repo_key),
    index('followed_repositories_id').on(t.integration_id, t.host_id),
    index('followed_repositories_due').on(t.next_compare_at),
    index('followed_repositories_looks').on(t.listener_id, t.look_at).where(sql`listener_id is not null`),
  ],
)

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
