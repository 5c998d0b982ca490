// The text of a statement depends on which members are set and never on their values, which are parameters.
import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/neon-http'
import { bigint, boolean, jsonb, pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core'
import { expect, it } from 'vitest'
import { compileQuery, db, prepareStatement } from '../../src/kernel/db/statement.ts'
import * as fc from '../support/seeded-fast-check.ts'

type Filters = { name?: unknown; within?: { id?: unknown }; ids?: unknown[] }
const prepareSelect = () =>
  prepareStatement<Filters, unknown>(({ name, within, ids }) => {
    const conditions = [name && sql`name = ${name}`, within?.id && sql`id = ${within.id}`, ids && sql`id = any(${ids})`]
    return sql`select ${sql.join(
      conditions.filter(one => one !== undefined),
      sql` and `,
    )}`
  })

it('a statement has the same text for all values and passes them as parameters', () => {
  const build = prepareSelect()
  const texts = new Map<string, string>()
  const value = fc.oneof(fc.string(), fc.constantFrom("'; drop table x --", '$1', '?', null, true, 7))
  const inputs = fc.record(
    { name: value, within: fc.record({ id: value }, { requiredKeys: [] }), ids: fc.array(fc.string()) },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(inputs, input => {
      const values = [input.name, input.within?.id, input.ids].filter(one => one !== undefined)
      const { sql: text, params } = build(input)
      expect(params).toEqual(values)
      const shape = ['name' in input, input.within && 'id' in input.within, 'ids' in input].map(Boolean).join()
      expect(texts.get(shape) ?? text).toBe(text)
      expect(text).toMatch(/^select( ?(and )?(name = \$\d|id = \$\d|id = any\(\$\d\)))* ?$/)
      texts.set(shape, text)
    }),
  )
})

it('an instance of a class is passed as one parameter', () => {
  const at = new Date(0)
  const build = prepareSelect()
  expect(build({ name: 'first' }).params).toEqual(['first'])
  expect(build({ name: at })).toMatchObject({ sql: 'select name = $1', params: [at] })
  expect(build({ name: 'last' })).toMatchObject({ sql: 'select name = $1', params: ['last'] })
})

it('the text of a statement depends on whether a member is set', () => {
  const build = prepareStatement<{ within?: object }, unknown>(({ within }) => sql`select ${within ? sql`1` : sql`0`}`)
  expect([build({}).sql, build({ within: {} }).sql]).toEqual(['select 0', 'select 1'])
})

const things = pgTable('things', {
  id: uuid().notNull(),
  at: timestamp({ mode: 'string', withTimezone: true }),
  size: bigint({ mode: 'number' }),
  parts: text().array(),
  about: jsonb(),
  is_open: boolean(),
})
const THING = ['0192f000-0000-7000-8000-000000000000', '2026-11-28 22:00:00+00', '12', '{a,"b,c"}', '{"a":1}', true]

it('rows of plain columns are read like Drizzle reads them', () => {
  const rows = [THING, [THING[0], null, null, null, null, null]]
  const [first] = compileQuery(db.select().from(things)).read(rows)
  expect(first).toEqual({ id: THING[0], at: THING[1], size: 12, parts: ['a', 'b,c'], about: { a: 1 }, is_open: true })
  expect(compileQuery(db.select().from(things)).read(rows)).toEqual(
    drizzle.mock().select().from(things).prepare('').mapResult({ rows }),
  )
})

it('nested fields, joins and decoders of expressions are read by Drizzle', () => {
  const parents = pgTable('parents', { id: uuid().notNull() })
  const query = db
    .select({ id: things.id, parent: parents, twice: sql`2 * ${things.size}`.mapWith(Number) })
    .from(things)
    .leftJoin(parents, eq(parents.id, things.id))
  const rows = [
    ['a', 'b', '24'],
    ['a', null, null],
  ]
  expect(compileQuery(query).read(rows)).toEqual([
    { id: 'a', parent: { id: 'b' }, twice: 24 },
    { id: 'a', parent: null, twice: null },
  ])
})
