// The most that a member of a request can be: for every part of a schema, bodies of a size that are as much work as
// it allows.
import type * as z from 'zod'
import { nestBrackets } from './hostile-values.ts'

type Definition = Record<string, unknown> & { type: string }
type Wrapper = (text: string) => string
/** Thousands of them may be a megabyte each, so a text is made when it is read. */
export type LargestBody = { name: string; readonly text: string }

const getDefinition = (schema: z.ZodType) => (schema as z.ZodType)._zod.def as unknown as Definition
/** Each for patterns of another kind: runs of what may repeat, of separators, of both, and an end that does not fit. */
const RUNS = ['a', ' ', '/', '.', '-', '*', 'a.', 'a/', 'a-', ' a', '0', ':', '\\n', '&&', '%', 'é', '\\u200b']
const ITEMS = ['null', '0', '{}', '[]', '""', '{"name":"a"}', '{"name":"A","value":""}']

/** JSON whose text is about as long as `bytes`, for every member within every object, and what no schema knows. */
export function makeLargestBodies(body: z.ZodType, bytes: number): LargestBody[] {
  const found: LargestBody[] = []
  const seen = new Set<z.ZodType>()
  const fill = makeFiller(bytes)
  const add = (name: string, inside: Wrapper, makeText: () => string) =>
    void found.push({
      name,
      get text() {
        return inside(makeText())
      },
    })
  const visit = (name: string, schema: z.ZodType, inside: Wrapper): void => {
    if (seen.has(schema)) return
    seen.add(schema)
    const def = getDefinition(schema)
    if (def.type === 'string') for (const run of RUNS) add(`${name} of ${run}`, inside, () => `"${fill(run)}!"`)
    if (def.type === 'array') {
      for (const item of ITEMS) add(`${name} of ${item}`, inside, () => `[${fill(item, ',')}]`)
      visit(`${name}[]`, def.element as z.ZodType, text => inside(`[${text}]`))
    }
    if (def.type === 'record' || def.type === 'custom') add(`${name}, full`, inside, () => `{${makeMembers(bytes)}}`)
    if (def.type === 'record') {
      add(`${name}, long name`, inside, () => `{"${fill('a.')}":"a"}`)
      visit(`${name}{}`, def.valueType as z.ZodType, text => inside(`{"a":${text}}`))
    }
    for (const [member, part] of Object.entries((def.shape ?? {}) as Record<string, z.ZodType>))
      visit(`${name}.${member}`, part, text => inside(`{"${member}":${text}}`))
    for (const part of [def.innerType, def.in, def.out, ...((def.options as unknown[]) ?? [])])
      if (part) visit(name, part as z.ZodType, inside)
  }
  visit('body', body, text => text)
  return found
}

/** Bodies that are much work for whatever reads them, before any schema does. */
export function makeLargestUnknownBodies(bytes: number): LargestBody[] {
  const fill = makeFiller(bytes)
  const found: LargestBody[] = []
  const whole = (name: string, text: string) => void found.push({ name, text })
  whole('digits', `{"a":${fill('1')}}`)
  whole('deep lists', nestBrackets(Math.floor(bytes / 2), '[', ']'))
  whole('deep zeros', `{"a":${'['.repeat(60)}${fill('0', ',')}${']'.repeat(60)}}`)
  whole('one text', `"${fill('a')}"`)
  whole('unknown members', `{${makeMembers(bytes)}}`)
  whole('prototypes', `{${fill('"__proto__":0', ',')}}`)
  return found
}

const makeFiller =
  (bytes: number) =>
  (one: string, separator = ''): string =>
    one + (separator + one).repeat(Math.max(0, Math.floor(bytes / Buffer.byteLength(one + separator)) - 1))

const makeMembers = (bytes: number) => Array.from({ length: Math.floor(bytes / 10) }, (_, i) => `"m${i}":0`).join(',')
