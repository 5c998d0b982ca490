// The table of deploy hooks.
import { index, integer, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
} from '../../kernel/db/columns.ts'
import { deployments } from '../deployments/tables.ts'

/** A secret URL that deploys. Only the hash of its token is stored. `refs`: the other refs that it may name. */
export const deployHooks = pgTable(
  'deploy_hooks',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    token_hash: text().notNull(),
    refs: text().array().notNull(),
    last_used_at: instantColumn(),
    /** The minute that is counted, and how many requests it has had. */
    window_at: instantColumn(),
    window_uses: integer().notNull().default(0),
    /** The hash of the last `Idempotency-Key`, and the revision that its request made. */
    last_key: text(),
    last_revision_id: uuid(),
    created_at: createdAtColumn(),
  },
  t => [
    unique('deploy_hook_name_taken').on(t.deployment_id, t.name),
    unique('deploy_hooks_token').on(t.token_hash),
    index('deploy_hooks_page').on(t.deployment_id, ...newestFirstColumns(t)),
  ],
)
