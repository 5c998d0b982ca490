// The text of a statement depends on which members are set and never on their values, which are parameters.
import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { prepareStatement } from '../../src/kernel/statement.ts'
import * as fc from '../support/seeded-fast-check.ts'

type Asked = { name?: unknown; within?: { id?: unknown }; ids?: unknown[] }
const write = () =>
  prepareStatement<Asked, unknown>(({ name, within, ids }) => {
    const asked = [name && sql`name = ${name}`, within?.id && sql`id = ${within.id}`, ids && sql`id = any(${ids})`]
    return sql`select ${sql.join(
      asked.filter(one => one !== undefined),
      sql` and `,
    )}`
  })

it('a statement has the same text for all values, which are its parameters', () => {
  const made = write()
  const texts = new Map<string, string>()
  const value = fc.oneof(fc.string(), fc.constantFrom("'; drop table x --", '$1', '?', null, true, 7))
  const inputs = fc.record(
    { name: value, within: fc.record({ id: value }, { requiredKeys: [] }), ids: fc.array(fc.string()) },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(inputs, input => {
      const given = [input.name, input.within?.id, input.ids].filter(one => one !== undefined)
      const { sql: text, params } = made(input)
      expect(params).toEqual(given)
      const shape = ['name' in input, input.within && 'id' in input.within, 'ids' in input].map(Boolean).join()
      expect(texts.get(shape) ?? text).toBe(text)
      expect(text).toMatch(/^select( ?(and )?(name = \$\d|id = \$\d|id = any\(\$\d\)))* ?$/)
      texts.set(shape, text)
    }),
  )
})

it('an instance of a class is one value', () => {
  const at = new Date(0)
  const made = write()
  expect(made({ name: 'first' }).params).toEqual(['first'])
  expect(made({ name: at })).toMatchObject({ sql: 'select name = $1', params: [at] })
  expect(made({ name: 'last' })).toMatchObject({ sql: 'select name = $1', params: ['last'] })
})

it('null is a value, and undefined a missing member', () => {
  const made = prepareStatement<{ within?: object }, unknown>(({ within }) => sql`select ${within ? sql`1` : sql`0`}`)
  expect([made({}).sql, made({ within: {} }).sql]).toEqual(['select 0', 'select 1'])
})
