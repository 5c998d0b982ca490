// The keywords of JSON Schema that are checked: the values that each may have, and those that it admits.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export type Path = (string | number)[]
export type Mismatch = { path: Path; msg: string }
type Place = { value: unknown; path: Path; node: Record<string, unknown> }
/** A validation that goes on: it counts the steps, and knows the whole schema. */
export type Run = {
  spend(steps: number): void
  find(schema: unknown, value: unknown, path: Path): Mismatch | undefined
  matches(schema: unknown, value: unknown): boolean
  resolve(reference: string): unknown
}
type Keyword = {
  shape: z.ZodType
  check: (rule: never, place: Place, run: Run) => Mismatch | undefined
}

const Count = z.int().min(0)
const Names = arrayOf(boundedText(1000), 1000)
/** A walk over the schema checks the schemas within it. */
export const Subschema = z.union([z.boolean(), z.looseObject({})])
const Subschemas = arrayOf(Subschema, 1000, 1)
export const SubschemaMap = z.looseObject({})

const keyword = <Shape extends z.ZodType>(
  shape: Shape,
  check: (rule: z.output<Shape>, place: Place, run: Run) => Mismatch | undefined,
): Keyword => ({ shape, check: check as Keyword['check'] })
const withoutCheck = (shape: z.ZodType): Keyword => keyword(shape, () => undefined)

const unless = (holds: boolean, { path }: Place, msg: string): Mismatch | undefined =>
  holds ? undefined : { path, msg }

function findFirst<Item>(items: Iterable<Item>, find: (item: Item) => Mismatch | undefined): Mismatch | undefined {
  for (const item of items) {
    const mismatch = find(item)
    if (mismatch) return mismatch
  }
  return undefined
}

// ---- values

const TYPES = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer'] as const

function hasType(value: unknown, type: (typeof TYPES)[number]): boolean {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isObject(value)
    case 'integer':
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}

function isEqual(a: unknown, b: unknown, run: Run): boolean {
  run.spend(1)
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const entries = Object.entries(a)
  run.spend(entries.length)
  if (entries.length !== Object.keys(b).length) return false
  return entries.every(
    ([name, value]) => Object.hasOwn(b, name) && isEqual(value, (b as Record<string, unknown>)[name], run),
  )
}

// ---- limits of numbers and sizes. Of a value of another type they say nothing.

type Measure = (value: unknown, run: Run) => number | undefined

const limit = (
  shape: z.ZodType<number>,
  measure: Measure,
  holds: (size: number, rule: number) => boolean,
  describe: (rule: number) => string,
) =>
  keyword(shape, (rule, place, run) => {
    const size = measure(place.value, run)
    return unless(size === undefined || holds(size, rule), place, `must ${describe(rule)}`)
  })

const isAtLeast = (size: number, rule: number) => size >= rule
const isAtMost = (size: number, rule: number) => size <= rule
/** Compares decimal digits: 0.3 is a multiple of 0.1, although not in binary. */
const isMultiple = (size: number, divisor: number) => {
  const quotient = size / divisor
  return (
    Number.isFinite(quotient) && Math.abs(quotient - Math.round(quotient)) <= 1e-9 * Math.max(1, Math.abs(quotient))
  )
}

const toNumber: Measure = value => (typeof value === 'number' ? value : undefined)
/** Counts characters, not UTF-16 units. */
const countCharacters: Measure = (value, run) => {
  if (typeof value !== 'string') return undefined
  run.spend(value.length / 10)
  return [...value].length
}
const countItems: Measure = value => (Array.isArray(value) ? value.length : undefined)
const countMembers: Measure = (value, run) => {
  if (!isObject(value)) return undefined
  const { length } = Object.keys(value)
  run.spend(length)
  return length
}

// ---- parts of objects and arrays

function listMembers({ value }: Place, run: Run): [string, unknown][] {
  const entries = isObject(value) ? Object.entries(value) : []
  run.spend(entries.length)
  return entries
}

function findMissing(names: string[], { value, path }: Place, run: Run): Mismatch | undefined {
  run.spend(names.length)
  const missing = isObject(value) ? names.find(name => !Object.hasOwn(value, name)) : undefined
  return missing === undefined ? undefined : { path: [...path, missing], msg: 'is required' }
}

const findInItems = (schema: unknown, first: number, { value, path }: Place, run: Run) =>
  findFirst(Array.isArray(value) ? value.slice(first).entries() : [], ([i, item]) =>
    run.find(schema, item, [...path, first + i]),
  )

const findInFirstItems = (schemas: unknown[], { value, path }: Place, run: Run) =>
  findFirst(Array.isArray(value) ? value.slice(0, schemas.length).entries() : [], ([i, item]) =>
    run.find(schemas[i], item, [...path, i]),
  )

const lengthOf = (list: unknown): number => (Array.isArray(list) ? list.length : 0)

export const KEYWORDS: Record<string, Keyword> = {
  $ref: keyword(boundedText(1000), (rule, { value, path }, run) => {
    run.spend(rule.length)
    return run.find(run.resolve(rule), value, path)
  }),
  $defs: withoutCheck(SubschemaMap),
  definitions: withoutCheck(SubschemaMap),

  type: keyword(z.union([z.enum(TYPES), arrayOf(z.enum(TYPES), TYPES.length, 1)]), (rule, place) => {
    const types = [rule].flat()
    return unless(
      types.some(type => hasType(place.value, type)),
      place,
      `must be of type ${types.join(' or ')}`,
    )
  }),
  enum: keyword(arrayOf(z.unknown(), 10_000), (rule, place, run) =>
    unless(
      rule.some(one => isEqual(place.value, one, run)),
      place,
      'must be one of the values in `enum`',
    ),
  ),
  const: keyword(z.unknown(), (rule, place, run) =>
    unless(isEqual(place.value, rule, run), place, 'must be the value in `const`'),
  ),

  minimum: limit(z.number(), toNumber, isAtLeast, rule => `be at least ${rule}`),
  maximum: limit(z.number(), toNumber, isAtMost, rule => `be at most ${rule}`),
  exclusiveMinimum: limit(
    z.number(),
    toNumber,
    (size, rule) => size > rule,
    rule => `be more than ${rule}`,
  ),
  exclusiveMaximum: limit(
    z.number(),
    toNumber,
    (size, rule) => size < rule,
    rule => `be less than ${rule}`,
  ),
  multipleOf: limit(z.number().positive(), toNumber, isMultiple, rule => `be a multiple of ${rule}`),
  minLength: limit(Count, countCharacters, isAtLeast, rule => `have at least ${rule} characters`),
  maxLength: limit(Count, countCharacters, isAtMost, rule => `have at most ${rule} characters`),
  minItems: limit(Count, countItems, isAtLeast, rule => `have at least ${rule} items`),
  maxItems: limit(Count, countItems, isAtMost, rule => `have at most ${rule} items`),
  minProperties: limit(Count, countMembers, isAtLeast, rule => `have at least ${rule} members`),
  maxProperties: limit(Count, countMembers, isAtMost, rule => `have at most ${rule} members`),

  required: keyword(Names, findMissing),
  dependentRequired: keyword(z.looseObject({}).pipe(z.record(z.string(), Names)), (rule, place, run) =>
    findFirst(Object.entries(rule), ([name, required]) =>
      isObject(place.value) && Object.hasOwn(place.value, name) ? findMissing(required, place, run) : undefined,
    ),
  ),
  properties: keyword(SubschemaMap, (rule, { value, path }, run) => {
    if (!isObject(value)) return undefined
    const schemas = Object.entries(rule)
    run.spend(schemas.length)
    return findFirst(schemas, ([name, schema]) =>
      Object.hasOwn(value, name) ? run.find(schema, value[name], [...path, name]) : undefined,
    )
  }),
  // Patterns are not matched, so `patternProperties` may be about any member.
  additionalProperties: keyword(Subschema, (rule, place, run) => {
    const { properties, patternProperties } = place.node
    if (patternProperties !== undefined) return undefined
    const isAdditional = (name: string) => !isObject(properties) || !Object.hasOwn(properties, name)
    return findFirst(listMembers(place, run), ([name, member]) =>
      isAdditional(name) ? run.find(rule, member, [...place.path, name]) : undefined,
    )
  }),
  propertyNames: keyword(Subschema, (rule, place, run) =>
    findFirst(listMembers(place, run), ([name]) => run.find(rule, name, [...place.path, name])),
  ),

  prefixItems: keyword(Subschemas, findInFirstItems),
  // Older drafts have a list here instead of `prefixItems`.
  items: keyword(z.union([Subschema, Subschemas]), (rule, place, run) =>
    Array.isArray(rule)
      ? findInFirstItems(rule, place, run)
      : findInItems(rule, lengthOf(place.node.prefixItems), place, run),
  ),
  additionalItems: keyword(Subschema, (rule, place, run) =>
    Array.isArray(place.node.items) ? findInItems(rule, place.node.items.length, place, run) : undefined,
  ),
  contains: keyword(Subschema, (rule, place, run) => {
    const { minContains = 1, maxContains = Number.POSITIVE_INFINITY } = place.node as Record<string, number>
    if (!Array.isArray(place.value)) return undefined
    const count = place.value.filter(item => run.matches(rule, item)).length
    return unless(count >= minContains && count <= maxContains, place, `has ${count} items that match \`contains\``)
  }),
  minContains: withoutCheck(Count),
  maxContains: withoutCheck(Count),

  allOf: keyword(Subschemas, (rule, { value, path }, run) => findFirst(rule, one => run.find(one, value, path))),
  anyOf: keyword(Subschemas, (rule, place, run) =>
    unless(
      rule.some(one => run.matches(one, place.value)),
      place,
      'matches none of the schemas in `anyOf`',
    ),
  ),
  oneOf: keyword(Subschemas, (rule, place, run) => {
    const count = rule.filter(one => run.matches(one, place.value)).length
    return unless(count === 1, place, `must match one of the schemas in \`oneOf\`, and matches ${count}`)
  }),
  not: keyword(Subschema, (rule, place, run) =>
    unless(!run.matches(rule, place.value), place, 'must not match the schema in `not`'),
  ),
  if: keyword(Subschema, (rule, { value, path, node }, run) =>
    run.find((run.matches(rule, value) ? node.then : node.else) ?? true, value, path),
  ),
  // biome-ignore lint/suspicious/noThenProperty: the name of a keyword
  then: withoutCheck(Subschema),
  else: withoutCheck(Subschema),
}
