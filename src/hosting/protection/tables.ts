// The table of share links and bypass tokens of protected deployments.
import { sql } from 'drizzle-orm'
import { index, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import {
  createdAtColumn,
  idColumn,
  instantColumn,
  newestFirstColumns,
  parentTenantColumns,
} from '../../kernel/db/columns.ts'
import { deployments } from '../deployments/tables.ts'

/** Written by drizzle/functions/protection.sql. A revoked one is deleted. */
export const protectionBypasses = pgTable(
  'protection_bypasses',
  {
    id: idColumn(),
    ...parentTenantColumns(),
    deployment_id: uuid()
      .notNull()
      .references(() => deployments.id, { onDelete: 'cascade' }),
    kind: text().$type<'link' | 'token'>().notNull(),
    description: text().notNull(),
    token_hash: text().notNull(),
    expires_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [
    index('protection_bypasses_page').on(t.deployment_id, ...newestFirstColumns(t)),
    index('protection_bypasses_expiry').on(t.expires_at).where(sql`expires_at is not null`),
  ],
)
