// Pages of lists, newest first: by offset, or by cursor, which makes a deep page as cheap as the first.
import { eq, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import { formatCursor, type NamedPage, type OwnedBy, type Page } from '../../protocol/wire.ts'
import { run } from '../db/db.ts'
import type { Placeholders, Statement } from '../db/statement.ts'
import type { Ctx } from './context.ts'

type Pageable = { created_at: AnyPgColumn; id: AnyPgColumn }

export const afterCursor = (table: Pageable, { cursor }: Pick<Page | Placeholders<Page>, 'cursor'>): SQL | undefined =>
  cursor && sql`(${table.created_at}, ${table.id}) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)`

export const newestFirst = (table: Pageable): [SQL, SQL] => [sql`${table.created_at} desc`, sql`${table.id} desc`]

export const hasName = (
  column: AnyPgColumn,
  { name }: Pick<NamedPage | Placeholders<NamedPage>, 'name'>,
): SQL | undefined => (name === undefined ? undefined : eq(column, name))

export const hasOwner = (column: AnyPgColumn, { owner }: OwnedBy | Placeholders<OwnedBy>): SQL | undefined =>
  owner === undefined ? undefined : eq(column, owner)

/** One extra row shows whether there is a next page, without counting. */
export const pageBounds = (page: Page): { limit: number; offset: number } => ({
  limit: page.limit + 1,
  offset: page.cursor ? 0 : page.offset,
})

/** The cursor of the next page. A symbol, because JSON leaves symbols out of the body. */
export const nextCursor = Symbol('next')
export type ListPage<Wire> = { resources: Wire[]; offset: number; [nextCursor]?: string }

type Listed = { created_at: string; id: string }

/** Runs the statement of a list, with its page as the input. */
export const readPage = async <Input extends Page, Row extends Listed, Wire>(
  ctx: Ctx,
  statement: (input: Input) => Statement<Row>,
  page: Input,
  toWire: (row: Row) => Wire,
): Promise<ListPage<Wire>> => toListPage(await run(ctx, statement({ ...page, ...pageBounds(page) })), page, toWire)

export function toListPage<Row extends Listed, Wire>(
  rows: Row[],
  page: Page,
  toWire: (row: Row) => Wire,
): ListPage<Wire> {
  const pageRows = rows.slice(0, page.limit)
  const last = rows.length > page.limit ? pageRows.at(-1) : undefined
  return {
    resources: pageRows.map(toWire),
    offset: page.offset + pageRows.length,
    ...(last && { [nextCursor]: formatCursor({ at: last.created_at, id: last.id }) }),
  }
}
