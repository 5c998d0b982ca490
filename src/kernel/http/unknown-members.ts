// Finds members of a request that its schemas do not have, and the known name that is nearest to each.
import type * as z from 'zod'
import { nearestName } from '../../protocol/nearest-name.ts'
import type { Fault } from './errors.ts'

type UnknownMember = { loc: (string | number)[]; suggestion: string | undefined }

const MAX_UNKNOWN = 100
/** The search for the nearest name costs a comparison with each member of the schema. */
const MAX_SUGGESTIONS = 20

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
