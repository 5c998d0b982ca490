// Columns that several tables share.

import { sql } from 'drizzle-orm'
import { type ExtraConfigColumn, integer, text, timestamp, uuid } from 'drizzle-orm/pg-core'

export const instantColumn = () => timestamp({ withTimezone: true, mode: 'string' })

export const idColumn = () => uuid().primaryKey().defaultRandom()

export const createdAtColumn = () => instantColumn().notNull().default(sql`clock()`)

/** The end of a list's index. `desc` sorts nulls first in Postgres: an index with nulls last would serve no list. */
export const newestFirstColumns = (t: Record<'created_at' | 'id', ExtraConfigColumn>) =>
  [t.created_at.desc().nullsFirst(), t.id.desc().nullsFirst()] as const

/** The person that another system names, the listener of an agent, or the description of a key. */
export const actorNameColumn = () => text().default(sql`event_actor_name()`)

/** A resource that is changed in place. Its version is its ETag. */
export const versionedColumns = () => ({
  version: integer().notNull().default(1),
  created_at: createdAtColumn(),
  updated_at: createdAtColumn(),
})

/** A tenant without a foreign key: the row is deleted with its parent row, or by a sweep. */
export const parentTenantColumns = () => ({ organization_id: uuid().notNull(), tenant_id: uuid().notNull() })
