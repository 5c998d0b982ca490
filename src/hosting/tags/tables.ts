// Tables of tags.
import { index, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core'
import { idColumn, newestFirstColumns, versionedColumns } from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'

export const tagKeys = pgTable(
  'tag_keys',
  {
    id: idColumn(),
    ...tenantColumns(),
    key: text().notNull(),
    description: text(),
    ...versionedColumns(),
  },
  t => [
    unique('tag_key_taken').on(t.tenant_id, t.key),
    index('tag_keys_page').on(t.tenant_id, ...newestFirstColumns(t)),
  ],
)

export const tagValues = pgTable(
  'tag_values',
  {
    id: idColumn(),
    ...tenantColumns(),
    tag_key_id: uuid()
      .notNull()
      .references(() => tagKeys.id, { onDelete: 'cascade' }),
    value: text().notNull(),
    description: text(),
    ...versionedColumns(),
  },
  t => [
    unique('tag_value_taken').on(t.tag_key_id, t.value),
    index('tag_values_page').on(t.tenant_id, t.tag_key_id, ...newestFirstColumns(t)),
  ],
)
