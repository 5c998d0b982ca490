// Walks zod schemas: finds every part, and the parts that let a request cost more than its size justifies.
import * as z from 'zod'
import { rejectPrototypeKey } from '../../src/protocol/kubernetes.schema.ts'
import { emptyAsAbsent, parseBoolean, parseWholeNumber } from '../../src/protocol/wire.ts'
import { explainSlowness } from './regular-expressions.ts'

type Check = { _zod: { def: { check: string; abort?: boolean; pattern?: RegExp } } }
type Definition = Record<string, unknown> & { type: string; checks?: Check[] }

/** Transforms whose cost does not depend on the size of the value. */
const CHEAP_TRANSFORMS: unknown[] = [parseWholeNumber, parseBoolean, emptyAsAbsent, rejectPrototypeKey]
const LARGE_COUNT = 100_000
const LARGE_LIST: object = Array(LARGE_COUNT).fill(null)
const LARGE_RECORD: object = Object.fromEntries(Array.from({ length: LARGE_COUNT }, (_, i) => [`m${i}`, null]))

const isSchema = (value: unknown): value is z.ZodType => value instanceof z.core.$ZodType
const getDefinition = (schema: z.ZodType) => schema._zod.def as unknown as Definition

/** All schemas within it, each with its parent. */
function listSchemaParts(schema: z.ZodType): [path: string, schema: z.ZodType, above: z.ZodType | undefined][] {
  const parts: ReturnType<typeof listSchemaParts> = []
  const seen = new Set<z.ZodType>()
  const visit = (path: string, one: z.ZodType, above?: z.ZodType) => {
    if (seen.has(one)) return
    seen.add(one)
    parts.push([path, one, above])
    const { shape, checks: _, ...def } = getDefinition(one)
    for (const [name, member] of Object.entries((shape ?? {}) as object)) visit(`${path}.${name}`, member, one)
    for (const [name, part] of Object.entries(def)) {
      for (const inner of Array.isArray(part) ? part : [part]) if (isSchema(inner)) visit(`${path}/${name}`, inner, one)
    }
  }
  visit('', schema)
  return parts
}

export const listPatterns = (schema: z.ZodType): RegExp[] =>
  listSchemaParts(schema).flatMap(([, one]) =>
    [getDefinition(one), ...(getDefinition(one).checks ?? []).map(({ _zod }) => _zod.def)].flatMap(def =>
      def.pattern instanceof RegExp ? [def.pattern] : [],
    ),
  )

/** Parts that process a text or a list of any length, or match slowly. */
export function findUnbounded(schema: z.ZodType): string[] {
  const faults = listSchemaParts(schema).flatMap(([path, one, above]) =>
    [findFault(one, above)].filter(fault => fault !== undefined).map(fault => `${path} ${fault}`),
  )
  const slow = listPatterns(schema).filter(({ source, flags }) => explainSlowness({ pattern: source, flags }) !== null)
  return [...faults, ...slow.map(pattern => `matches slowly: ${pattern}`)]
}

function findFault(one: z.ZodType, above: z.ZodType | undefined): string | undefined {
  const def = getDefinition(one)
  const inPipe = above && getDefinition(above).type === 'pipe' ? above : undefined
  switch (def.type) {
    case 'string':
      return def.format !== undefined && def.check === 'string_format'
        ? findTextFault(def, true)
        : findTextFault(def, isTransformInput(one, inPipe))
    case 'array':
      return countReads(inPipe ?? one, LARGE_LIST) > LARGE_COUNT / 10 ? 'reads every element' : undefined
    case 'record':
      return countReads(inPipe ?? one, LARGE_RECORD) > LARGE_COUNT / 10 ? 'reads every member' : undefined
    case 'transform':
      return isContainerInput(one, inPipe) || CHEAP_TRANSFORMS.includes(def.transform) || !isPipeInput(one, inPipe)
        ? undefined
        : 'transforms a value of any size'
    default:
      return undefined
  }
}

/** A check of length that aborts must come before the checks that read the text. */
function findTextFault({ checks = [] }: Definition, atOnce: boolean): string | undefined {
  for (const { _zod } of checks) {
    const { check, abort } = _zod.def
    if (check === 'max_length' && abort) return undefined
    if (check === 'string_format' || check === 'custom') return 'reads a text of any length'
  }
  // A pipe stops after a fault.
  const bounded = checks.some(({ _zod }) => _zod.def.check === 'max_length')
  return atOnce && !bounded ? 'transforms a text of any length' : undefined
}

const isPipeInput = (one: z.ZodType, pipe: z.ZodType | undefined) =>
  pipe !== undefined && getDefinition(pipe).in === one
const isTransformInput = (one: z.ZodType, pipe: z.ZodType | undefined) =>
  isPipeInput(one, pipe) && getDefinition(getDefinition(pipe!).out as z.ZodType).type === 'transform'
/** An array or a record follows, which is checked as a whole. */
const isContainerInput = (one: z.ZodType, pipe: z.ZodType | undefined) =>
  isPipeInput(one, pipe) && ['array', 'record'].includes(getDefinition(getDefinition(pipe!).out as z.ZodType).type)

/** Counts of schemas that several requests share. */
const knownReads = new WeakMap<z.ZodType, number>()

/** The reads of a large value before it is refused. */
function countReads(schema: z.ZodType, large: object): number {
  const known = knownReads.get(schema)
  if (known !== undefined) return known
  let reads = 0
  const countingProxy = new Proxy(large, {
    get(target, name) {
      reads += 1
      return Reflect.get(target, name)
    },
  })
  schema.safeParse(countingProxy)
  knownReads.set(schema, reads)
  return reads
}
