// The table of snapshots that agents keep.
import { bigint, index, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, idColumn, instantColumn, newestFirstColumns } from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import type { SnapshotReason } from '../../protocol/snapshots.schema.ts'
import { listeners } from '../listeners/tables.ts'

/** Written by receive_snapshots() of drizzle/functions/snapshots.sql. They outlive the deployment: no foreign key. */
export const snapshots = pgTable(
  'snapshots',
  {
    id: idColumn(),
    ...tenantColumns(),
    deployment_id: uuid().notNull(),
    deployment_name: text().notNull(),
    listener_id: uuid()
      .notNull()
      .references(() => listeners.id, { onDelete: 'cascade' }),
    store: text().notNull(),
    size_bytes: bigint({ mode: 'number' }).notNull(),
    reason: text().$type<SnapshotReason>().notNull(),
    expires_at: instantColumn(),
    /** Since a user deleted it: the agent is to delete it, too. */
    deleting_at: instantColumn(),
    /** When it was taken. */
    created_at: createdAtColumn(),
  },
  t => [
    index('snapshots_page').on(t.tenant_id, ...newestFirstColumns(t)),
    index('snapshots_of_deployment').on(t.deployment_id, ...newestFirstColumns(t)),
    index('snapshots_held').on(t.listener_id, t.id),
    index('snapshots_expiry').on(t.expires_at),
  ],
)
