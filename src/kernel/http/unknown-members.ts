// Finds members of a request that its schemas do not have, and the known name that is nearest to each.
import type * as z from 'zod'
import type { Fault } from './errors.ts'

type UnknownMember = { loc: (string | number)[]; suggestion: string | undefined }

const MAX_UNKNOWN = 100
/** The search for the nearest name costs a comparison with each member of the schema. */
const MAX_SUGGESTIONS = 20
const MAX_NAME_LENGTH = 64

export function findUnknownMembers(schema: z.ZodType, value: unknown, place: string): UnknownMember[] {
  const unknown: UnknownMember[] = []
  const visit = (part: z.ZodType, value: unknown, loc: (string | number)[]): void => {
    if (typeof value !== 'object' || value === null || unknown.length >= MAX_UNKNOWN) return
    const { def } = unwrap(part)._zod as unknown as { def: Definition }
    if (def.type === 'array' && Array.isArray(value)) {
      for (const [i, item] of value.entries()) visit(def.element, item, [...loc, i])
    } else if (def.type === 'object' && !def.catchall && !Array.isArray(value)) {
      for (const [name, member] of Object.entries(value)) {
        const known = Object.hasOwn(def.shape, name) ? def.shape[name] : undefined
        if (known) visit(known, member, [...loc, name])
        else if (unknown.length < MAX_UNKNOWN) {
          const suggestion = unknown.length < MAX_SUGGESTIONS ? nearestName(name, Object.keys(def.shape)) : undefined
          unknown.push({ loc: [...loc, name], suggestion })
        }
      }
    }
  }
  visit(schema, value, [place])
  return unknown
}

type Definition =
  | { type: 'object'; shape: Record<string, z.ZodType>; catchall?: z.ZodType }
  | { type: 'array'; element: z.ZodType }
  | { type: 'pipe'; in: z.ZodType; out: z.ZodType }
  | { type: 'optional' | 'nullable' | 'default' | 'prefault' | 'readonly'; innerType: z.ZodType }
  | { type: 'transform' | 'string' }

/** Unwraps `nullish`, `default` and `preprocess`. */
function unwrap(schema: z.ZodType): z.ZodType {
  const { def } = schema._zod as unknown as { def: Definition }
  if ('innerType' in def) return unwrap(def.innerType)
  if (def.type !== 'pipe') return schema
  const input = def.in._zod as unknown as { def: Definition }
  return unwrap(input.def.type === 'transform' ? def.out : def.in)
}

export const toFault = ({ loc, suggestion }: UnknownMember): Fault => ({
  type: 'unknown_member',
  loc,
  msg: `is not known${suggestion ? `; did you mean \`${suggestion}\`` : ''}`,
})

export const toWarning = ({ loc, suggestion }: UnknownMember): string => {
  const path = loc.map(shortenName).join('.')
  return `\`${path}\` is not known and was ignored.${suggestion ? ` Did you mean \`${suggestion}\`?` : ''}`
}

const MAX_REPEATED_LENGTH = 100

/** Answers repeat names that the client chose. They are cut, so that the answer stays small. */
export const shortenName = (name: string | number) =>
  typeof name === 'string' && name.length > MAX_REPEATED_LENGTH
    ? `${name.slice(0, MAX_REPEATED_LENGTH).toWellFormed()}…`
    : name

/** The known name with the fewest edits, if those are few for its length. */
function nearestName(name: string, known: string[]): string | undefined {
  if (name.length > MAX_NAME_LENGTH) return undefined
  const maxEdits = (one: string) => Math.max(1, Math.floor(one.length / 3))
  const [best] = known
    .filter(one => Math.abs(one.length - name.length) <= maxEdits(one))
    .map(one => ({ one, edits: editDistance(name.toLowerCase(), one.toLowerCase()) }))
    .filter(({ one, edits }) => edits <= maxEdits(one))
    .sort((a, b) => a.edits - b.edits)
  return best?.one
}

/** Insertions, deletions and replacements that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row.at(-1)!
}
