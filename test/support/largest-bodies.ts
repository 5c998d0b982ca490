// Makes the largest bodies that each part of a schema admits: as much work as a size allows.
import type * as z from 'zod'
import { nestBrackets } from './hostile-values.ts'

type Definition = Record<string, unknown> & { type: string }
type Wrapper = (text: string) => string
/** Thousands of them may be a megabyte each, so a text is made when it is read. */
export type LargestBody = { name: string; readonly text: string }

const getDefinition = (schema: z.ZodType) => schema._zod.def as unknown as Definition
/** Repetitions that are slow for different patterns: of one character, of separators, of both. */
const RUNS = ['a', ' ', '/', '.', '-', '*', 'a.', 'a/', 'a-', ' a', '0', ':', '\\n', '&&', '%', 'é', '\\u200b']
const ITEMS = ['null', '0', '{}', '[]', '""', '{"name":"a"}', '{"name":"A","value":""}']

/** Makes JSON of about that many bytes for every member of every object. */
export function makeLargestBodies(body: z.ZodType, bytes: number): LargestBody[] {
  const bodies: LargestBody[] = []
  const seen = new Set<z.ZodType>()
  const fill = makeFiller(bytes)
  const add = (name: string, inside: Wrapper, makeText: () => string) =>
    void bodies.push({
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
  return bodies
}

/** Bodies that are much work before a schema validates them. */
export function makeLargestUnknownBodies(bytes: number): LargestBody[] {
  const fill = makeFiller(bytes)
  const bodies: LargestBody[] = []
  const add = (name: string, text: string) => void bodies.push({ name, text })
  add('digits', `{"a":${fill('1')}}`)
  add('deep lists', nestBrackets(Math.floor(bytes / 2), '[', ']'))
  add('deep zeros', `{"a":${'['.repeat(60)}${fill('0', ',')}${']'.repeat(60)}}`)
  add('one text', `"${fill('a')}"`)
  add('unknown members', `{${makeMembers(bytes)}}`)
  add('prototypes', `{${fill('"__proto__":0', ',')}}`)
  return bodies
}

const makeFiller =
  (bytes: number) =>
  (one: string, separator = ''): string =>
    one + (separator + one).repeat(Math.max(0, Math.floor(bytes / Buffer.byteLength(one + separator)) - 1))

const makeMembers = (bytes: number) => Array.from({ length: Math.floor(bytes / 10) }, (_, i) => `"m${i}":0`).join(',')
