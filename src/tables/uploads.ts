// The table of source archives.
import { bigint, index, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { createdAtColumn, idColumn, instantColumn } from './columns.ts'

/** Source archives. No foreign key: a row outlives its deployment until the sweep has removed the object it names. */
export const uploads = pgTable(
  'uploads',
  {
    id: idColumn(),
    organization_id: uuid().notNull(),
    tenant_id: uuid().notNull(),
    deployment_id: uuid().notNull(),
    object_path: text().notNull().unique('uploads_path'),
    state: text({ enum: ['offered', 'receiving', 'stored', 'removing'] })
      .notNull()
      .default('offered'),
    size: bigint({ mode: 'number' }),
    /** What it may come to while it is being received. */
    reserved: bigint({ mode: 'number' }),
    sha256: text(),
    /** Who asked for the link: what comes by it is theirs. */
    actor_kind: text().notNull().default('key'),
    actor_id: uuid(),
    expires_at: instantColumn().notNull(),
    used_at: instantColumn(),
    created_at: createdAtColumn(),
  },
  t => [index('uploads_expiry').on(t.expires_at), index('uploads_of_workspace').on(t.tenant_id, t.state)],
)
