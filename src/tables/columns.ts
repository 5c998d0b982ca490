// Columns that several tables share.

import { sql } from 'drizzle-orm'
import { type ExtraConfigColumn, integer, text, timestamp, uuid } from 'drizzle-orm/pg-core'

export const instantColumn = () => timestamp({ withTimezone: true, mode: 'string' })

export const idColumn = () => uuid().primaryKey().defaultRandom()

export const createdAtColumn = () => instantColumn().notNull().default(sql`clock()`)

/** What a list's index ends with. Postgres puts nulls first where it sorts downwards, and an index that says otherwise serves no list. */
export const newestFirstColumns = (t: Record<'created_at' | 'id', ExtraConfigColumn>) =>
  [t.created_at.desc().nullsFirst(), t.id.desc().nullsFirst()] as const

/** Whom another system knows by a name only: a git host's people. */
export const actorNameColumn = () => text().default(sql`setting('actor_name')`)

/** A resource that is changed in place: its version is its ETag. */
export const versionedColumns = () => ({
  version: integer().notNull().default(1),
  created_at: createdAtColumn(),
  updated_at: createdAtColumn(),
})
