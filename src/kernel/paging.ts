// Lists: newest first, by offset for people and by cursor for machines, so that a deep page costs what the first one costs.
import { type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type { Page } from '../protocol/wire.ts'
import type { Placeholders } from './statement.ts'

type Pageable = { created_at: AnyPgColumn; id: AnyPgColumn }

/** The rows behind the cursor, if there is one. */
export const afterCursor = (table: Pageable, { cursor }: Pick<Page | Placeholders<Page>, 'cursor'>): SQL | undefined =>
  cursor && sql`(${table.created_at}, ${table.id}) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)`

export const newestFirst = (table: Pageable): [SQL, SQL] => [sql`${table.created_at} desc`, sql`${table.id} desc`]

/** One row more than asked for tells whether there is a next page, without counting. */
export const pageBounds = (page: Page): { limit: number; offset: number } => ({
  limit: page.limit + 1,
  offset: page.cursor ? 0 : page.offset,
})

/** What a list carries besides its body: the next page's cursor. Symbols never reach the wire. */
export const nextCursor = Symbol('next')
export type ListPage<Wire> = { resources: Wire[]; offset: number; [nextCursor]?: string }

export function toListPage<Row extends { created_at: string; id: string }, Wire>(
  rows: Row[],
  page: Page,
  toWire: (row: Row) => Wire,
): ListPage<Wire> {
  const shown = rows.slice(0, page.limit)
  const last = rows.length > page.limit ? shown.at(-1) : undefined
  return {
    resources: shown.map(toWire),
    offset: page.offset + shown.length,
    ...(last && { [nextCursor]: Buffer.from(`${last.created_at}~${last.id}`).toString('base64url') }),
  }
}
