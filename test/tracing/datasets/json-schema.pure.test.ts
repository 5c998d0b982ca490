// Our JSON Schema says the same as another implementation of it, and ends in bounded time.
import { type Schema, Validator } from '@cfworker/json-schema'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findMismatch, findSchemaFaults, TooManySteps } from '../../../src/tracing/datasets/json-schema.ts'
import { expectCheap } from '../../support/cpu-cost.ts'

type Schemas = { node: Record<string, unknown>; any: unknown }

const name = fc.constantFrom('a', 'b', 'c')
const atoms = fc.constantFrom<unknown>(null, true, false, 0, 1, 2, 3, 0.5, -1, '', 'a', 'aa', 'aaaa', '😀')
const { value } = fc.letrec<{ value: unknown }>(tie => ({
  value: fc.oneof(
    { maxDepth: 2, depthIdentifier: 'value' },
    atoms,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(name, tie('value')),
  ),
}))
const type = fc.constantFrom('null', 'boolean', 'object', 'array', 'number', 'string', 'integer')
const size = fc.constantFrom(0, 1, 2, 3)

const { node: schema } = fc.letrec<Schemas>(tie => {
  const some = fc.array(tie('any'), { minLength: 1, maxLength: 2 })
  const names = fc.uniqueArray(name, { maxLength: 2 })
  const keywords: Record<string, fc.Arbitrary<unknown>> = {
    type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
    const: value,
    enum: fc.array(value, { minLength: 1, maxLength: 4 }),
    multipleOf: fc.constantFrom(0.5, 1, 2),
    minimum: size,
    maximum: size,
    exclusiveMinimum: size,
    exclusiveMaximum: size,
    minLength: size,
    maxLength: size,
    minItems: size,
    maxItems: size,
    minProperties: size,
    maxProperties: size,
    required: names,
    dependentRequired: fc.dictionary(name, names),
    properties: fc.dictionary(name, tie('any')),
    additionalProperties: tie('any'),
    propertyNames: tie('any'),
    prefixItems: some,
    items: tie('any'),
    ...{ contains: tie('any'), minContains: size, maxContains: size, allOf: some, anyOf: some, oneOf: some },
    ...{ not: tie('any'), if: tie('any'), else: tie('any'), $ref: fc.constantFrom('#/$defs/one', '#/$defs/two') },
    // biome-ignore lint/suspicious/noThenProperty: the name of a keyword
    ...{ then: tie('any') },
  }
  const pair = fc.constantFrom(...Object.keys(keywords)).chain(key => fc.tuple(fc.constant(key), keywords[key]!))
  return {
    node: fc.array(pair, { maxLength: 3 }).map(pairs => Object.fromEntries(pairs)),
    any: fc.oneof({ maxDepth: 2, depthIdentifier: 'schema' }, fc.boolean(), tie('node')),
  }
})
const $defs = {
  one: { anyOf: [{ type: 'string' }, { minimum: 1 }] },
  two: { $ref: '#/$defs/one', type: ['object', 'string'] },
}

it('admits exactly the values that another implementation admits', () => {
  let admitted = 0
  const agrees = fc.property(schema, value, (node, one) => {
    const whole = { ...node, $defs }
    expect(findSchemaFaults(whole)).toEqual([])
    const { valid } = new Validator(structuredClone(whole) as Schema, '2020-12').validate(one)
    if (valid) admitted++
    expect([whole, one, findMismatch(whole, one) === undefined]).toEqual([whole, one, valid])
  })
  fc.assert(agrees, { numRuns: 2000, seed: 7 })
  expect(admitted).toBeGreaterThan(400)
  expect(admitted).toBeLessThan(1800)
})

it.each<[unknown, unknown, unknown]>([
  [{ properties: { a: { items: { type: 'string' } } } }, { a: ['x', 1] }, ['a', 1]],
  [{ required: ['a'] }, {}, ['a']],
  [{ additionalProperties: false, properties: { a: true } }, { a: 1, b: 2 }, ['b']],
  [{ items: [{ type: 'string' }], additionalItems: { type: 'null' } }, ['a', null, 0], [2]],
  [{ properties: { constructor: { type: 'string' } } }, {}, undefined],
  [{ multipleOf: 0.1 }, 0.3, undefined],
  [{ pattern: '^a', format: 'email', uniqueItems: true }, 'b', undefined],
  [{ patternProperties: { '^a': {} }, additionalProperties: false }, { a: 1 }, undefined],
])('between %j and %j names the place %j', (one, about, path) => {
  expect(findMismatch(one, about)?.path).toEqual(path)
})

describe('a schema that takes too many steps', () => {
  const doubling = Object.fromEntries(
    Array.from({ length: 60 }, (_, i) => [`s${i}`, { allOf: Array(2).fill({ $ref: `#/$defs/s${i + 1}` }) }]),
  )
  const wide = { items: { not: { anyOf: Array.from({ length: 900 }, (_, i) => ({ minProperties: i + 9 })) } } }
  const large = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`m${i}`, null]))
  it.each<[string, unknown, unknown]>([
    ['refers to itself', { $ref: '#' }, 1],
    ['doubles with each level', { $defs: { ...doubling, s60: {} }, $ref: '#/$defs/s0' }, 1],
    ['compares each item many times', wide, Array(10_000).fill(large)],
    ['lists many values', { items: { not: { enum: Array(9000).fill('a') } } }, Array(9000).fill('b')],
  ])('stops if it %s', async (name, one, about) => {
    await expectCheap(name, 0, () => expect(() => findMismatch(one, about)).toThrow(TooManySteps), 1000)
  })
})
