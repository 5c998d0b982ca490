// Tables of listeners and of what their agents were sent.
import { bigint, boolean, index, integer, json, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { idColumn, instantColumn, newestFirstColumns, versionedColumns } from '../../kernel/db/columns.ts'
import { organizations, workspaces } from '../../people/access/tables.ts'
import type { ListenerPolicy } from '../../protocol/listener-policy.ts'

/**
 * A data plane and the lease of its agent. One without a workspace belongs to the platform: it serves the deployments
 * of every workspace that name no listener.
 */
export const listeners = pgTable(
  'listeners',
  {
    id: idColumn(),
    organization_id: uuid()
      .notNull()
      .references(() => organizations.id, { onDelete: 'cascade' }),
    tenant_id: uuid().references(() => workspaces.id, { onDelete: 'cascade' }),
    compute_type: text({ enum: ['k8s', 'local'] }).notNull(),
    compute_id: text().notNull(),
    compute_config: json().$type<{ k8s_namespaces: string[] }>().notNull(),
    agent_id: text(),
    agent_version: text(),
    /** The names of the templates that the agent offers; null until an agent has told them. */
    templates: text().array(),
    /** Their descriptions by name, as far as the agent has sent them. */
    template_descriptions: json().$type<Record<string, string>>(),
    /** True if its agent serves in public, so a custom host of the workspace itself has to be proved first, too. */
    verified_hosts_only: boolean().notNull().default(false),
    /** The policy of its agent; null until an agent has sent one. */
    policy: json().$type<ListenerPolicy>(),
    /** Fencing token: the number of the current lease. Reports with a lower one are refused. */
    fence: bigint({ mode: 'number' }).notNull().default(0),
    lease_expires_at: instantColumn(),
    last_seen_at: instantColumn(),
    /** Since when the journal has it as lost. */
    lost_at: instantColumn(),
    /** Since a restore: its agent keeps deployments that the database does not know. */
    holds_removals_since: instantColumn(),
    ...versionedColumns(),
  },
  t => [
    unique('listener_exists').on(t.tenant_id, t.compute_id).nullsNotDistinct(),
    index('listeners_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

/** The last number given to a change of a listener's deployments, and a digest of their desired state. */
export const syncCursors = pgTable('sync_cursors', {
  listener_id: uuid()
    .primaryKey()
    .references(() => listeners.id, { onDelete: 'cascade' }),
  seq: bigint({ mode: 'number' }).notNull(),
  digest: bigint({ mode: 'bigint' }).notNull(),
})

/**
 * The last change of each deployment of a listener. A separate table, so the index on the number leaves updates of
 * deployments heap-only. No foreign key: a row outlives its deployment until the agent has removed what runs.
 */
export const syncItems = pgTable(
  'sync_items',
  {
    deployment_id: uuid().primaryKey(),
    listener_id: uuid()
      .notNull()
      .references(() => listeners.id, { onDelete: 'cascade' }),
    seq: bigint({ mode: 'number' }).notNull(),
    generation: integer().notNull(),
  },
  t => [index('sync_items_changed').on(t.listener_id, t.seq)],
)
