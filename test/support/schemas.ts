// Walks zod schemas: every part of one, and the ways in which a part lets a request cost more than its size.
import * as z from 'zod'
import { withoutPrototype } from '../../src/deployments/kubernetes.schema.ts'
import { emptyAsAbsent, truth, wholeNumber } from '../../src/kernel/wire.ts'
import { slownessOf } from './patterns.ts'

type Check = { _zod: { def: { check: string; abort?: boolean; pattern?: RegExp } } }
type Definition = Record<string, unknown> & { type: string; checks?: Check[] }

/** What may be done with a value of any size: its size makes no difference to them. */
const CHEAP: unknown[] = [wholeNumber, truth, emptyAsAbsent, withoutPrototype]
const MANY = 100_000

const isSchema = (value: unknown): value is z.ZodType => value instanceof z.core.$ZodType
const definitionOf = (schema: z.ZodType) => schema._zod.def as unknown as Definition

/** The schemas that it is made of, each with the one that it stands in. */
export function partsOf(schema: z.ZodType): [path: string, schema: z.ZodType, above: z.ZodType | undefined][] {
  const parts: ReturnType<typeof partsOf> = []
  const seen = new Set<z.ZodType>()
  const visit = (path: string, one: z.ZodType, above?: z.ZodType) => {
    if (seen.has(one)) return
    seen.add(one)
    parts.push([path, one, above])
    const { shape, checks: _, ...def } = definitionOf(one)
    for (const [name, member] of Object.entries((shape ?? {}) as object)) visit(`${path}.${name}`, member, one)
    for (const [name, part] of Object.entries(def)) {
      for (const inner of Array.isArray(part) ? part : [part]) if (isSchema(inner)) visit(`${path}/${name}`, inner, one)
    }
  }
  visit('', schema)
  return parts
}

/** Every pattern that it holds texts against. */
export const patternsOf = (schema: z.ZodType): RegExp[] =>
  partsOf(schema).flatMap(([, one]) =>
    [definitionOf(one), ...(definitionOf(one).checks ?? []).map(({ _zod }) => _zod.def)].flatMap(def =>
      def.pattern instanceof RegExp ? [def.pattern] : [],
    ),
  )

/** Where it looks at a text of any length, reads every element of a list of any length, or matches slowly. */
export function unboundedIn(schema: z.ZodType): string[] {
  const faults = partsOf(schema).flatMap(([path, one, above]) =>
    [faultOf(one, above)].filter(fault => fault !== undefined).map(fault => `${path} ${fault}`),
  )
  const slow = patternsOf(schema).filter(({ source, flags }) => slownessOf({ pattern: source, flags }) !== null)
  return [...faults, ...slow.map(pattern => `matches slowly: ${pattern}`)]
}

function faultOf(one: z.ZodType, above: z.ZodType | undefined): string | undefined {
  const def = definitionOf(one)
  const inPipe = above && definitionOf(above).type === 'pipe' ? above : undefined
  switch (def.type) {
    case 'string':
      return def.format !== undefined && def.check === 'string_format'
        ? looks(def, true)
        : looks(def, isTransformed(one, inPipe))
    case 'array':
      return readOf(inPipe ?? one, i => Array(i).fill(null)) > MANY / 10 ? 'reads every element' : undefined
    case 'record':
      return readOf(inPipe ?? one, membersOf) > MANY / 10 ? 'reads every member' : undefined
    case 'transform':
      return isBounding(one, inPipe) || CHEAP.includes(def.transform) || !isFirst(one, inPipe)
        ? undefined
        : 'prepares a value of any size'
    default:
      return undefined
  }
}

/** A bound that ends it comes before whatever looks at the text. */
function looks({ checks = [] }: Definition, atOnce: boolean): string | undefined {
  for (const { _zod } of checks) {
    const { check, abort } = _zod.def
    if (check === 'max_length' && abort) return undefined
    if (check === 'string_format' || check === 'custom') return 'looks at a text of any length'
  }
  // A pipe goes no further after a fault.
  const bounded = checks.some(({ _zod }) => _zod.def.check === 'max_length')
  return atOnce && !bounded ? 'turns a text of any length into something else' : undefined
}

const isFirst = (one: z.ZodType, pipe: z.ZodType | undefined) => pipe !== undefined && definitionOf(pipe).in === one
const isTransformed = (one: z.ZodType, pipe: z.ZodType | undefined) =>
  isFirst(one, pipe) && definitionOf(definitionOf(pipe!).out as z.ZodType).type === 'transform'
/** It stands before an array or a record, which is tried out as a whole. */
const isBounding = (one: z.ZodType, pipe: z.ZodType | undefined) =>
  isFirst(one, pipe) && ['array', 'record'].includes(definitionOf(definitionOf(pipe!).out as z.ZodType).type)

const membersOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`m${i}`, null]))

/** How much of a large value it reads before it refuses it. */
function readOf(schema: z.ZodType, make: (count: number) => object): number {
  let read = 0
  const watched = new Proxy(make(MANY), {
    get(target, name) {
      read += 1
      return Reflect.get(target, name)
    },
  })
  schema.safeParse(watched)
  return read
}
