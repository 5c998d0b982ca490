// Lists: newest first, by offset for people and by cursor for machines, so that a deep page costs what the first one costs.
import { type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import * as z from 'zod'
import { Instant, Uuid, wholeNumber } from './input.ts'

/** Where a page ended: the last row's time and id, opaque to whoever carries it. */
type Cursor = { at: string; id: string }

/** A time as Postgres writes it in whatever time zone it is set to, and an id. */
const CURSOR = /^(\d{4}-\d\d-\d\d) ([\d:]{8}(?:\.\d{1,6})?[+-]\d\d)(:\d\d)?~(.+)$/

const CursorText = z
  .string()
  .max(120)
  .transform((text, check): Cursor => {
    const [, day, time, minutes = ':00', id] = CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? []
    const at = `${day}T${time}${minutes}`
    if (Instant.safeParse(at).success && Uuid.safeParse(id).success) return { at, id: id! }
    check.addIssue({ code: 'custom', message: 'is not a cursor that a `Link` offered' })
    return z.NEVER
  })

export const Page = z.object({
  limit: z.preprocess(wholeNumber, z.int().min(1).max(100).default(20)).meta({ description: 'The most to return.' }),
  offset: z
    .preprocess(wholeNumber, z.int().min(0).default(0))
    .meta({ description: 'How many to pass over: the `offset` of the previous answer.' }),
  cursor: CursorText.optional().meta({
    type: 'string',
    description: 'From the previous answer’s `Link`; it takes the place of `offset`.',
  }),
})
export type Page = z.output<typeof Page>

type Pageable = { created_at: AnyPgColumn; id: AnyPgColumn }

/** The rows behind the cursor, if there is one. */
export const beyond = (table: Pageable, { cursor }: Page): SQL | undefined =>
  cursor && sql`(${table.created_at}, ${table.id}) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)`

export const newestFirst = (table: Pageable): [SQL, SQL] => [sql`${table.created_at} desc`, sql`${table.id} desc`]

/** One row more than asked for tells whether there is a next page, without counting. */
export const bounds = (page: Page): { limit: number; offset: number } => ({
  limit: page.limit + 1,
  offset: page.cursor ? 0 : page.offset,
})

export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    resources: z.array(item),
    offset: z.int().meta({ description: 'Pass it as `offset` to get the next page.' }),
  })

/** What a list carries besides its body: the next page's cursor. Symbols never reach the wire. */
export const next = Symbol('next')
export type Listed<Wire> = { resources: Wire[]; offset: number; [next]?: string }

export function listed<Row extends { created_at: string; id: string }, Wire>(
  rows: Row[],
  page: Page,
  toWire: (row: Row) => Wire,
): Listed<Wire> {
  const shown = rows.slice(0, page.limit)
  const last = rows.length > page.limit ? shown.at(-1) : undefined
  return {
    resources: shown.map(toWire),
    offset: page.offset + shown.length,
    ...(last && { [next]: Buffer.from(`${last.created_at}~${last.id}`).toString('base64url') }),
  }
}
